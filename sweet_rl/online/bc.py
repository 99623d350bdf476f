"""Behaviour cloning before online learning: a policy imitates recorded dialogues.

Repaired: one convention for newlines. The observation ends as the world writes it, the action is followed by
what ends an utterance, and the last, smaller step is made, too. Importing this module imports torch.

Published behaviour: docs/published/archer.md#behaviour-cloning.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from sweet_rl.online.actor import TokenPolicy
from sweet_rl.online.learning import Say
from sweet_rl.online.policy_updates import imitation_step
from sweet_rl.online.replay import Transition
from sweet_rl.online.steps import StepSettings
from sweet_rl.types import Json


@dataclass(frozen=True, slots=True)
class Demonstration:
    """An observation and the reply to imitate; `action_ids` where the policy's own tokens are known."""

    observation: str
    action: str
    action_ids: tuple[int, ...] | None = None

    def to_row(self) -> dict[str, Json]:
        """The demonstration as a JSON object, one key for each field."""
        return asdict(self)


def demonstrations_of(steps: Iterable[Transition]) -> list[Demonstration]:
    """Transitions as something to imitate, whatever tokens they were written in."""
    return [Demonstration(one.observation, one.action) for one in steps]


def train_bc(
    policy: TokenPolicy,
    demonstrations: Sequence[Demonstration],
    *,
    learning_rate: float = 1e-5,
    iterations: int = 1,
    batch_size: int = 8,
    grad_accum_steps: int = 4,
    max_grad_norm: float = math.inf,
    whole_games: bool = False,
    seed: int = 0,
    nonfinite_path: Path | None = None,
    say: Say | None = None,
) -> list[float]:
    """Train by Adam; defaults are the published recipe's."""
    optimizer = torch.optim.Adam(policy.parameters(), lr=learning_rate)
    settings = StepSettings(batch_size, max_grad_norm=max_grad_norm, nonfinite_path=nonfinite_path)
    rows = batch_size * grad_accum_steps
    total = iterations * math.ceil(len(demonstrations) / rows)
    found = []
    for iteration in range(iterations):
        parts = games_of(demonstrations) if whole_games else [[one] for one in demonstrations]
        random.Random(f"{seed} {iteration}").shuffle(parts)
        order = [one for part in parts for one in part]
        for start in range(0, len(order), rows):
            step = imitation_step(policy, optimizer, order[start : start + rows], settings)
            found.append(step["bc.loss"])
            if say is not None:
                say("imitate", len(found), total)
    return found


def games_of(demonstrations: Iterable[Demonstration]) -> list[list[Demonstration]]:
    """Turns that follow each other in one game: each observation continues the one before it."""
    games: list[list[Demonstration]] = []
    for one in demonstrations:
        before = games[-1][-1].observation if games else one.observation
        if games and one.observation != before and one.observation.startswith(before):
            games[-1].append(one)
        else:
            games.append([one])
    return games
