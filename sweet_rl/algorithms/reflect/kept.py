"""Forward passes of play that are kept with their graphs, so that the update behind it reads nothing again.

The first update after play computes with the same weights on the same prompts. Without dropout its forward
pass is that of play. Importing this module imports torch.

Axes: S steps, V what is chosen from, H hidden.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor

from sweet_rl.algorithms.reflect.texts import Example
from sweet_rl.policies.prefixes import WeightsState


class Read(NamedTuple):
    """One batch: numbers of its examples, what the model said, and the states behind the prompts."""

    numbers: list[int]
    logits_SV: Tensor
    states_SH: Tensor


class KeptPasses:
    """What a policy read while it played, until an update takes it or its weights change.

    Args:
        model: the policy's.
    """

    def __init__(self, model: Any) -> None:
        self._weights = WeightsState(model)
        self._room = 0
        self._passes: list[tuple[Sequence[Example], Tensor, Tensor]] = []

    def begin(self, tokens: int) -> None:
        """Forget what was kept; keep what is read from now on, so many tokens of it at most."""
        self._passes, self._room = [], tokens
        self._weights.changed()

    @contextmanager
    def reading(self, tokens: int) -> Iterator[bool]:
        """For one forward pass over so many tokens: whether it is kept, with gradients on; else without."""
        keeps = tokens <= self._room
        with torch.enable_grad() if keeps else torch.inference_mode():
            yield keeps

    def add(self, examples: Sequence[Example], tokens: int, logits_SV: Tensor, states_SH: Tensor) -> None:
        """Keep a pass: for examples without a target, what was read in it."""
        self._room -= tokens
        self._passes.append((examples, logits_SV, states_SH))

    def take(self, examples: Sequence[Example]) -> list[Read]:
        """What was read of these examples, whatever their targets, pass by pass; forgets everything."""
        passes, self._passes, self._room = self._passes, [], 0
        if not passes or self._weights.changed():
            return []
        wanted: dict[Example, deque[int]] = defaultdict(deque)
        for number, example in enumerate(examples):
            wanted[example.without_target].append(number)
        found = []
        for asked, logits_SV, states_SH in passes:
            rows = {row: wanted[example].popleft() for row, example in enumerate(asked) if wanted[example]}
            if rows:
                places = list(rows)
                found.append(Read(list(rows.values()), logits_SV[places], states_SH[places]))
        return found
