"""The table of the 157 objects of Twenty Questions: their attributes and sizes.

A set of objects is an integer with one bit for each of them, the first object's the lowest. That makes "a
fruit or a vegetable, and not red" three machine operations, and an answer one bit.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from sweet_rl.errors import DataError

_SIZE = re.compile(r"(?P<length>\S+)cm (?P<bulk>\S+)L (?P<weight>\S+)kg")


class Size(NamedTuple):
    """How big a typical thing is: longest side in cm, the space it takes in litres, weight in kg."""

    length_cm: float
    bulk_l: float
    weight_kg: float


@dataclass(frozen=True, slots=True)
class Thing:
    """One object of the game.

    `aliases` are its names, the published ones, lower case. `attributes` are the words of the table that are
    true of it.
    """

    aliases: tuple[str, ...]
    category: str
    size: Size
    attributes: frozenset[str]

    @property
    def name(self) -> str:
        """The name the oracle is given (alias 0)."""
        return self.aliases[0]


@dataclass(frozen=True, slots=True)
class Facts:
    """All objects in the published order, and the set of those that have each attribute."""

    things: tuple[Thing, ...]
    sets: Mapping[str, int]

    @property
    def everything(self) -> int:
        """The set of all objects: an integer with one bit for each."""
        return (1 << len(self.things)) - 1

    def find(self, name: str) -> int | None:
        """The place of the object of that name or alias (any case); None for a stranger."""
        return _places().get(name.strip().lower())

    def names(self, chosen: int) -> list[str]:
        """The first names of a set of objects."""
        return [thing.name for place, thing in enumerate(self.things) if chosen >> place & 1]

    def evaluate(self, expression: str) -> int:
        """The set that an expression of attributes names: `|` or, `&` and (binds closer), `!` not."""
        union = 0
        for term in expression.split("|"):
            common = self.everything
            for factor in term.split("&"):
                word = factor.strip()
                common &= self._named(word[1:]) ^ self.everything if word[:1] == "!" else self._named(word)
            union |= common
        return union

    def _named(self, word: str) -> int:
        if word not in self.sets:
            raise DataError("names no attribute of the table", field="expression", value=word)
        return self.sets[word]


@cache
def facts() -> Facts:
    """The packaged table."""
    things = tuple(_things(rows("table.txt")))
    sets: dict[str, int] = {"none": 0}
    for place, thing in enumerate(things):
        for attribute in thing.attributes | _measures(thing):
            sets[attribute] = sets.get(attribute, 0) | 1 << place
    return Facts(things, sets)


def rows(name: str) -> Iterator[tuple[int, str]]:
    """The rows of a packaged text file with their line numbers, comments and blank lines left out."""
    text = files(__package__).joinpath(name).read_text(encoding="utf-8")
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip() and not line.startswith("#"):
            yield number, line.strip()


def read_size(text: str, path: str, line: int) -> Size:
    """A size like `24cm 7L .6kg`."""
    found = _SIZE.fullmatch(text)
    if found is None:
        raise DataError("must be a size like '24cm 7L .6kg'", path=path, line=line, value=text)
    return Size(float(found["length"]), float(found["bulk"]), float(found["weight"]))


@cache
def _places() -> dict[str, int]:
    return {alias: place for place, thing in enumerate(facts().things) for alias in thing.aliases}


def _things(lines: Iterable[tuple[int, str]]) -> Iterator[Thing]:
    category, common = "", frozenset[str]()
    for number, line in lines:
        if line.startswith("["):
            category, _, words = line.strip("[]").partition(":")
            common = frozenset(words.split())
            continue
        names, sizes, words = (part.strip() for part in line.split("|"))
        own = set(words.split())
        taken_back = {word[1:] for word in own if word.startswith("-")}
        yield Thing(
            aliases=tuple(alias.strip().lower() for alias in names.split(";")),
            category=category,
            size=read_size(sizes, "table.txt", number),
            attributes=frozenset((common - taken_back) | {word for word in own if not word.startswith("-")}),
        )


def _measures(thing: Thing) -> set[str]:
    """What follows from an object's size alone, by the conventions of docs/twenty_questions.md."""
    size = thing.size
    follows = {
        "size:big": size.bulk_l >= 70 or size.weight_kg >= 100,
        "size:small": size.bulk_l <= 3 and size.length_cm <= 45,
        "size:tall": size.length_cm >= 170 and "tall" in thing.attributes,
        "size:hand": size.length_cm <= 25 and size.bulk_l <= 0.6,
        "size:grasp": size.length_cm <= 120 and size.bulk_l <= 8 and size.weight_kg <= 2.5,
        "size:pocket": size.length_cm <= 18 and size.bulk_l <= 0.2,
        "size:bag": size.length_cm <= 50 and size.bulk_l <= 12 and size.weight_kg <= 5,
        "size:carry": size.weight_kg <= 20 and size.bulk_l <= 200,
        "size:light": size.weight_kg <= 3,
        "size:heavy": size.weight_kg >= 25,
        "size:huge": size.bulk_l >= 1e6,
    }
    worn = any(word.startswith("on:") for word in thing.attributes)
    return {word for word, holds in follows.items() if holds} | ({"on:any"} if worn else set())
