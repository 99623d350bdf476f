"""The facts of the 91 cities as objects, read once from the TOML files beside this module."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib.resources import files
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class Weather:
    says: str
    words: frozenset[str]


@dataclass(frozen=True, slots=True)
class Country:
    """A country of the list. `people` are millions; `coasts` is empty for a landlocked one."""

    name: str
    adjectives: tuple[str, ...]
    within: tuple[str, ...]
    capital: str
    people: float
    languages: tuple[str, ...]
    currency: str
    government: str
    drive: str
    utc: str
    flag: tuple[str, ...]
    dress: str
    music: str
    sports: tuple[str, ...]
    religions: tuple[str, ...] = ()
    neighbours: tuple[str, ...] = ()
    coasts: tuple[str, ...] = ()
    hosted: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    said: str = ""
    holidays: str = "the usual holidays of their country"
    rich: bool = False
    island: bool = False
    parts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class City:
    """A city of the list (fields: the head of `table.toml`). `key` is its published "City, Country"."""

    key: str
    name: str
    land: Country
    at: tuple[float, float]
    height: float
    people: float
    rank: int
    within: tuple[str, ...]
    part: str
    weather: str
    since: str
    sights: tuple[str, ...]
    food: tuple[str, ...]
    work: tuple[str, ...]
    famous: tuple[str, ...]
    also: tuple[str, ...] = ()
    coast: tuple[str, ...] = ()
    water: tuple[str, ...] = ()
    mountains: tuple[str, ...] = ()
    local: tuple[str, ...] = ()
    heads: tuple[str, ...] = ()
    festivals: tuple[str, ...] = ()
    nickname: str = ""
    near: tuple[str, ...] = ()
    border: tuple[str, ...] = ()
    parts: Mapping[str, str] = field(default_factory=dict)

    @property
    def capital(self) -> bool:
        return self.land.capital == self.name

    @cached_property
    def names(self) -> tuple[str, ...]:
        return (self.name, *self.also)

    @cached_property
    def places(self) -> frozenset[str]:
        land = self.land
        return frozenset({land.name, *land.also, *land.within, *self.within, *self.heads})

    @cached_property
    def positions(self) -> Mapping[str, str]:
        land = dict.fromkeys((self.land.name, *self.land.also), self.part)
        return {**self.land.parts, **self.parts, **land}

    @cached_property
    def languages(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.local, *self.land.languages)))

    @cached_property
    def waters(self) -> tuple[str, ...]:
        return (*self.coast, *self.water)

    @property
    def rivers(self) -> tuple[str, ...]:
        return tuple(water.removesuffix(" delta") for water in self.water if "River" in water)[:1]

    @property
    def continents(self) -> tuple[str, ...]:
        return tuple(place for place in CONTINENTS if place in self.places)

    @property
    def side(self) -> str:
        return "centre" if self.part == "central" else re.sub(" ?central ?", "", self.part)

    @property
    def climate(self) -> Weather:
        return WEATHER[self.weather]

    @property
    def count(self) -> str:
        if self.people < 1:
            return f"{round(self.people * 1000 / 50) * 50} thousand"
        whole = self.people >= 10 or self.people == int(self.people)
        return f"{self.people:.{0 if whole else 1}f} million"

    @property
    def ordinal(self) -> str:
        return ["", "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth"][self.rank]

    @property
    def young(self) -> bool:
        return bool(re.search(r"\b(?:1[89]|20)\d\d\b", self.since)) and "as " not in self.since

    @property
    def hemispheres(self) -> tuple[str, str]:
        return ("northern" if self.at[0] > 0 else "southern", "eastern" if self.at[1] > 0 else "western")

    @property
    def from_equator(self) -> float:
        return abs(self.at[0])

    @property
    def coordinates(self) -> str:
        north, east = map(round, self.at)
        ways = "north" if north >= 0 else "south", "east" if east >= 0 else "west"
        return f"{abs(north)} degrees {ways[0]} and {abs(east)} degrees {ways[1]}"

    def distance_km(self, other: City) -> float:
        (north, east), (to_north, to_east) = (map(math.radians, place.at) for place in (self, other))
        rise = math.sin((to_north - north) / 2) ** 2
        turn = math.cos(north) * math.cos(to_north) * math.sin((to_east - east) / 2) ** 2
        return 2 * 6371 * math.asin(math.sqrt(rise + turn))


@dataclass(frozen=True, slots=True)
class Topic:
    """What cities are known for, and which, by name; of a `general` topic, which nearly all have, others decide."""

    name: str
    words: tuple[str, ...]
    cities: frozenset[str]
    general: bool


CONTINENTS: Final = ("Asia", "Europe", "Africa", "South America", "North America", "Oceania")


@cache
def countries() -> Mapping[str, Country]:
    return {name: Country(name=name, **_tuples(row)) for name, row in read("countries").items()}


@cache
def cities() -> Mapping[str, City]:
    found = {}
    for key, row in read("table").items():
        name, _, country = key.partition(", ")
        fields = _tuples(row)
        land = countries()[fields.pop("country", country)]
        found[key] = City(key=key, name=name, land=land, **fields)
    return found


@cache
def topics() -> Mapping[str, Topic]:
    found = {}
    for name, row in read("topics").items():
        general, but, lands = row.get("all", False), row.get("but", ()), row.get("countries", ())
        owners = {city.name for city in cities().values() if city.land.name in lands or general}
        owners = owners.difference(but).union(row.get("cities", ()))
        found[name] = Topic(name, tuple(row["words"]), frozenset(owners), general)
    return found


@cache
def elsewhere() -> Mapping[str, tuple[str, ...]]:
    """Names of places, cities ("elsewhere"), waters and mountains that none of the 91 answers to, by kind."""
    return {kind: tuple(row["names"]) for kind, row in read("elsewhere").items()}


@cache
def read(name: str) -> dict[str, Any]:
    return tomllib.loads((files(__package__) / f"{name}.toml").read_text(encoding="utf-8"))


@cache
def phrases(listed: str) -> tuple[str, ...]:
    """The phrases of a comma-separated list; "$near" stands for those of that name in `questions.toml`."""
    found: list[str] = []
    for phrase in filter(None, (" ".join(words.split()) for words in listed.split(","))):
        found += phrases(read("questions")["phrases"][phrase[1:]]) if phrase[0] == "$" else [phrase]
    return tuple(found)


def _tuples(row: Mapping[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in row.items()}


WEATHER: Final[Mapping[str, Weather]] = {  # Kinds of weather by the name that `table.toml` uses
    kind: Weather(row["says"], frozenset(phrases(row["words"]))) for kind, row in read("weather").items()
}
