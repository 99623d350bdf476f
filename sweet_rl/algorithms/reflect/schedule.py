"""Which level of a curriculum an iteration plays, and which of its tasks.

Published behaviour: docs/published/reflect_rl.md#curriculum, #online-loop, #deviations.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sweet_rl.types import Compat, derive_seed


def starts_of(sizes: Sequence[int], max_steps: int, *, compat: Compat = "fixed") -> list[int]:
    """The iteration with which each level begins: levels get iterations by their number of items.

    With less iterations than items the published rule lets every level begin at 0, and then only the first is
    played; ours divides further.
    """
    total = sum(sizes)
    before = [sum(sizes[:level]) for level in range(len(sizes))]
    per_item = max_steps // total if total else 0
    if per_item or compat == "published":
        return [per_item * items for items in before]
    return [max_steps * items // max(1, total) for items in before]


def equal_starts(levels: int, max_steps: int) -> list[int]:
    """The same for levels that get as many iterations each."""
    return [level * max_steps // levels for level in range(levels)]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a run is in its data: a level, a pass over it, how much of the pass is over."""

    level: int = -1
    passed: int = 0
    position: int = 0

    def state(self) -> dict[str, int]:
        """The place as plain data for a checkpoint; `Schedule.restore` takes it back."""
        return {"level": self.level, "passed": self.passed, "position": self.position}


class Schedule:
    """Draws an iteration's items from the levels' items.

    Args:
        sizes: items of each level.
        starts: iterations with which levels begin, rising.
        batch: items of an iteration; the last ones of a pass may be fewer.
        seed: of the orders.
        compat: "published": levels that begin together are one turn.
    """

    def __init__(
        self, sizes: Sequence[int], starts: Sequence[int], *, batch: int, seed: int, compat: Compat = "fixed"
    ) -> None:
        self._sizes, self._batch, self._seed = sizes, batch, seed
        self._starts = sorted(set(starts)) if compat == "published" else list(starts)
        self.place = Place()

    def level_at(self, iteration: int) -> int:
        """The level that an iteration plays, counted from 0."""
        return max(0, bisect_right(self._starts, iteration) - 1)

    def draw(self, iteration: int) -> tuple[bool, int, list[int]]:
        """Whether a level begins, which it is, and the items that are played now."""
        level = max(self.level_at(iteration), self.place.level)  # a run that became longer goes no level back
        begins = level != self.place.level
        if begins:
            self.place = Place(level)
        at = self.place
        order = list(range(self._sizes[level]))
        random.Random(derive_seed(self._seed, "order", level, at.passed)).shuffle(order)
        items = order[at.position : at.position + self._batch]
        end = at.position + self._batch
        over = end >= len(order)
        self.place = Place(level, at.passed + over, 0 if over else end)
        return begins, level, items

    def restore(self, state: Any) -> None:
        """Continue at the place that `place.state()` gave."""
        self.place = Place(int(state["level"]), int(state["passed"]), int(state["position"]))
