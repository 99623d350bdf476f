"""ArCHer with outcomes that belong to other episodes, a step of `archer_critics`: what is learned then is not due to them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

from sweet_rl.chat import ChatFormat
from sweet_rl.cli.stage import recorded
from sweet_rl.commands.run_archer import run
from sweet_rl.online.learner import ArcherLearner, Draw, Say
from sweet_rl.online.models import make_learner
from sweet_rl.online.replay import Transition
from sweet_rl.online.settings import ArcherSettings
from sweet_rl.types import derive_seed


@recorded("archer_critics learn_shuffled", resumes=True)
def learn_shuffled(config: str, *overrides: str) -> None:
    """Run ArCHer with the rewards of last turns dealt out anew among those that are drawn together."""
    run(config, overrides, None, shuffled_learner)


class ShuffledLearner(ArcherLearner):
    def update(self, draw: Draw, *, update_actor: bool) -> dict[str, float]:
        rng = Random(derive_seed(self.settings.seed, "shuffled", self._updates))
        return super().update(lambda count: dealt_anew(draw(count), rng), update_actor=update_actor)


def dealt_anew(rows: Sequence[Transition], rng: Random) -> list[Transition]:
    """The transitions, the rewards of episodes' last ones shuffled among these."""
    places = [place for place, row in enumerate(rows) if row.done]
    rewards = [rows[place].reward for place in places]
    rng.shuffle(rewards)
    dealt = list(rows)
    for place, reward in zip(places, rewards, strict=True):
        dealt[place] = replace(rows[place], reward=reward)
    return dealt


def shuffled_learner(
    settings: ArcherSettings, *, chat_format: ChatFormat, say: Say | None = None
) -> ShuffledLearner:
    made: Any = make_learner(settings, chat_format=chat_format)
    return ShuffledLearner(settings, made.policy, made.critic, chat_format, say)
