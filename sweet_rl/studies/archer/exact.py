"""ArCHer with a critic that makes no errors, and with outcomes that belong to other episodes. Imports torch.

Of sixteen words the best play is known exactly (`mini.objects.asker`), and with it what any utterance
gains on it. The policy learns by that as it does by its critic's advantage: what then remains of a difference is not
the critic's. What is learned from shuffled outcomes is not due to what is rewarded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import torch

from sweet_rl.chat import ChatFormat
from sweet_rl.cli.stage import recorded
from sweet_rl.online.archer import ArcherLearner, make_learner
from sweet_rl.online.learner import Draw, Say
from sweet_rl.online.policy import Utterance
from sweet_rl.online.replay import Transition
from sweet_rl.online.settings import ArcherSettings
from sweet_rl.studies.archer.recipe import CONFIG, best_asker
from sweet_rl.types import derive_seed

_ASKED = re.compile(r"^(.+\?) (\S.*)$", re.MULTILINE)


@recorded("demo_archer learn_exactly", resumes=True)
def learn_exactly(*overrides: str) -> None:
    """Run ArCHer with what utterances gain on the best play in the place of its critic's advantages."""
    from sweet_rl.commands.run_archer import run

    run(CONFIG, overrides, None, exact_learner)


class ExactLearner(ArcherLearner):
    """Its critic is never trained and never asked."""

    best = best_asker()

    def _train_critic(self, draw: Draw) -> list[dict[str, float]]:
        return []

    def _advantages(self, observations: Sequence[str], utterances: Sequence[Utterance]) -> torch.Tensor:
        gained = [
            self.best.advantage(asked(observation), utterance.text.strip())
            for observation, utterance in zip(observations, utterances, strict=True)
        ]
        return torch.tensor(gained)


def exact_learner(
    settings: ArcherSettings, *, chat_format: ChatFormat, say: Say | None = None
) -> ExactLearner:
    """The learner of ArCHer's settings, likewise."""
    made: Any = make_learner(settings, chat_format=chat_format)
    return ExactLearner(settings, made.policy, made.critic, chat_format, say)


def asked(observation: str) -> Iterator[tuple[str, str]]:
    """Questions and their answers, from a game so far as policies read it."""
    return ((line[1], line[2]) for line in _ASKED.finditer(observation))


@recorded("archer_critics learn_shuffled", resumes=True)
def learn_shuffled(config: str, *overrides: str) -> None:
    """Run ArCHer with the rewards of last turns dealt out anew among those that are drawn together."""
    from sweet_rl.commands.run_archer import run

    run(config, overrides, None, shuffled_learner)


class ShuffledLearner(ArcherLearner):
    """Its critic learns from outcomes that say nothing of the episodes; all else is ArCHer's."""

    def update(self, draw: Draw, *, update_actor: bool) -> dict[str, float]:
        """The same, from a memory whose outcomes are shuffled whenever it is read."""
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
    """The learner of ArCHer's settings, likewise."""
    made: Any = make_learner(settings, chat_format=chat_format)
    return ShuffledLearner(settings, made.policy, made.critic, chat_format, say)
