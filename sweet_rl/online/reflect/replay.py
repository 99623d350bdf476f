"""A first-in, first-out buffer of successful episodes. No torch.

Published behaviour: docs/published/reflect_rl.md#online-loop.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Generic, TypeVar

T = TypeVar("T")


class Replay(Generic[T]):
    """The newest episodes that were added, each with a weight."""

    def __init__(self, size: int) -> None:
        self._episodes: deque[T] = deque(maxlen=size)
        self._weights: deque[float] = deque(maxlen=size)

    def __len__(self) -> int:
        return len(self._episodes)

    @property
    def episodes(self) -> list[T]:
        """The remembered episodes, oldest first."""
        return list(self._episodes)

    @property
    def weights(self) -> list[float]:
        """The weights of `episodes`, in the same order."""
        return list(self._weights)

    def add(self, episodes: Iterable[T], weight: float = 1.0) -> None:
        """Add these; the oldest are dropped beyond the capacity."""
        for episode in episodes:
            self._episodes.append(episode)
            self._weights.append(weight)

    def clear(self) -> None:
        """Forget all episodes, as at the begin of a new level."""
        self._episodes.clear()
        self._weights.clear()

    def sample(self, count: int, rng: random.Random) -> Sequence[T]:
        """So many, drawn with replacement by weight; none where nothing is remembered."""
        if not self._episodes:
            return []
        return rng.choices(list(self._episodes), weights=list(self._weights), k=count)
