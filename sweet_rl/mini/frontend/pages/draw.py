"""The random numbers of a page. All its randomness comes from here."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TypeVar

from sweet_rl.types import Json, derive_seed

T = TypeVar("T")


class Draw:
    """Choices that depend on the seed, and on nothing else but their order."""

    def __init__(self, *seed: Json) -> None:
        self._random = Random(derive_seed(*seed))

    def pick(self, *options: T) -> T:
        """One of a few arrangements."""
        return self.say(options)

    def say(self, options: Sequence[T]) -> T:
        """One of the wordings, drawn with equal chance."""
        return options[self._random.randrange(len(options))]

    def some(self, options: Sequence[T], n: int) -> list[T]:
        """`n` different ones, in some order."""
        return self._random.sample(options, n)

    def shuffled(self, options: Sequence[T]) -> list[T]:
        """All of them, in some order."""
        return self.some(options, len(options))

    def number(self, low: int, high: int) -> int:
        """A whole number, bounds included."""
        return self._random.randint(low, high)
