"""A cache of the tokens of recently read texts, within a token budget."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Generic, TypeVar

BUDGET_BYTES = 32 * 2**20
"""Of one memory; about ten thousand observations of a question game."""

_BYTES_OF_A_TOKEN, _BYTES_OF_A_LETTER = 36, 2

Value = TypeVar("Value")


class Recent(Generic[Value]):
    """A function of a text that remembers its newest results; safe to call from several threads.

    Args:
        make: the function.
        tokens: how many tokens a result holds.
        budget: bytes of all results and texts, about; the one that was asked for longest ago goes first.
    """

    def __init__(
        self, make: Callable[[str], Value], tokens: Callable[[Value], int], budget: int = BUDGET_BYTES
    ) -> None:
        self._make, self._tokens, self._budget = make, tokens, budget
        self._kept: dict[str, Value] = {}
        self._held = 0
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._kept)

    def __call__(self, text: str) -> Value:
        """The result for the text."""
        with self._lock:
            if text in self._kept:
                self._kept[text] = value = self._kept.pop(text)  # the newest stand last
                return value
        value = self._make(text)
        with self._lock:
            if text not in self._kept:
                self._kept[text] = value
                self._held += self._size(text, value)
                while self._held > self._budget and len(self._kept) > 1:
                    oldest = next(iter(self._kept))
                    self._held -= self._size(oldest, self._kept.pop(oldest))
        return value

    def _size(self, text: str, value: Value) -> int:
        return _BYTES_OF_A_LETTER * len(text) + _BYTES_OF_A_TOKEN * self._tokens(value)
