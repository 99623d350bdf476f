"""ArCHer with a critic that makes no errors: what then remains of a difference is not the critic's.

Of sixteen words the best play is known exactly (`mini.objects.asker`), and with it what any utterance
gains on it. The policy learns by that as it does by its critic's advantage, and nothing else changes. Importing
this module imports torch.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from sweet_rl.chat import ChatFormat
from sweet_rl.command_line.recording import recorded
from sweet_rl.online.archer import ArcherLearner, make_learner
from sweet_rl.online.learner import Draw, Say
from sweet_rl.online.policy import Utterance
from sweet_rl.online.settings import ArcherSettings
from sweet_rl.studies.archer.settings import CONFIG, best_asker

_ASKED = re.compile(r"^(.+\?) (\S.*)$", re.MULTILINE)


@recorded("demo_archer learn_exactly", resumes=True)
def learn_exactly(*overrides: str) -> None:
    """Run ArCHer with what utterances gain on the best play in the place of its critic's advantages."""
    from sweet_rl.commands.archer import run

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
