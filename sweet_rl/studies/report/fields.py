"""JSON of unknown origin, field by field: anything may be missing, nothing of a wrong kind."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import TypeVar

from sweet_rl.errors import DataError
from sweet_rl.types import Json

T = TypeVar("T")


class Fields:
    """The fields of one JSON object, by kind, with the dotted name of the object for messages."""

    def __init__(self, values: Json, name: str) -> None:
        if not isinstance(values, Mapping):
            raise DataError("must be an object", field=name, value=values)
        self.values, self.name = values, name

    def _at(self, key: str) -> str:
        return f"{self.name}.{key}" if self.name else key

    def text(self, key: str) -> str:
        """A string; empty where it is missing."""
        return self.text_or_none(key) or ""

    def text_or_none(self, key: str) -> str | None:
        """A string, or None where it is missing."""
        return _text(self.values.get(key), self._at(key))

    def title(self) -> str:
        """Its title, else its name, else "unnamed"."""
        return self.text("title") or self.text("name") or "unnamed"

    def number(self, key: str) -> float | None:
        """A number; None where it is missing, infinite or not a number."""
        value = self.values.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise DataError("must be a number or null", field=self._at(key), value=value)
        return float(value) if math.isfinite(value) else None

    def whole(self, key: str) -> int | None:
        """The number under a key, rounded to an integer; None where it is absent."""
        number = self.number(key)
        return None if number is None else round(number)

    def fields(self, key: str) -> Fields:
        """An object; empty where it is missing."""
        value = self.values.get(key)
        return Fields({} if value is None else value, self._at(key))

    def numbers(self) -> dict[str, float]:
        """Every field that is a number."""
        known = {str(key): self.number(key) for key in self.values}
        return {key: number for key, number in known.items() if number is not None}

    def inner(self) -> dict[str, Fields]:
        """Every field, each an object."""
        return {str(key): self.fields(key) for key in self.values}

    def data_url(self, key: str) -> str:
        """A picture that is in the text itself; empty for any other, which the page may not load."""
        url = self.text(key)
        return url if url.startswith("data:image/") else ""

    def rows(self, key: str) -> Iterator[Fields]:
        """The objects of the list under a key, each with its place for messages."""
        return (Fields(value, at) for value, at in self._items(key))

    def by_seed(self, key: str, read: Callable[[int, Fields], T]) -> tuple[T, ...]:
        """A list of runs in the order of their seeds, each by `read`; runs are compared by their seeds.

        Raises:
            DataError: a run has no seed, or that of another.
        """
        runs = []
        for row in self.rows(key):
            seed = row.whole("seed")
            if seed is None:
                raise DataError("is needed: runs are compared by it", field=f"{row.name}.seed", value=None)
            runs.append((seed, read(seed, row)))
        runs.sort(key=lambda run: run[0])
        doubled = [seed for (seed, _), (following, _) in pairwise(runs) if seed == following]
        if doubled:
            raise DataError("must be different in each run", field=self._at(key), value=doubled[0])
        return tuple(run for _, run in runs)

    def lists(self, key: str) -> Iterator[Fields]:
        """A list of lists, the items of each by their place: `0`, `1`, ..."""
        for value, at in self._items(key):
            yield Fields({str(place): item for place, (item, _) in enumerate(_items(value, at))}, at)

    def texts(self, key: str) -> tuple[str, ...]:
        """The strings of the list under a key, "" for null."""
        return tuple(_text(value, at) or "" for value, at in self._items(key))

    def _items(self, key: str) -> list[tuple[Json, str]]:
        return _items(self.values.get(key), self._at(key))


def _items(values: Json, name: str) -> list[tuple[Json, str]]:
    if values is None:
        return []
    if not isinstance(values, list | tuple):
        raise DataError("must be a list", field=name, value=values)
    return [(value, f"{name}[{index}]") for index, value in enumerate(values)]


def _text(value: Json, name: str) -> str | None:
    if value is not None and not isinstance(value, str):
        raise DataError("must be a string or null", field=name, value=value)
    return value
