"""The facts of the 91 cities as objects: what `table.toml` and its two neighbours hold, read once.

Only data and how it is looked up; sentences are made in `sweet_rl.worlds.guess_my_city.oracle.cities`.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from importlib.resources import files
from typing import Final

from sweet_rl.types import Json


@dataclass(frozen=True, slots=True)
class Weather:
    """A kind of weather: the sentence that describes it, and the words a question may name it by."""

    says: str
    words: frozenset[str]


def _weather(says: str, words: str) -> Weather:
    return Weather(says, frozenset(words.split()))


WEATHER: Final[Mapping[str, Weather]] = {
    "coastal desert": _weather(
        "It is mild and often cloudy, and it hardly ever rains.", "dry desert arid mild cloudy subtropical"
    ),
    "continental": _weather(
        "Summers are warm and winters are cold with snow.", "cold snow seasons continental temperate"
    ),
    "continental monsoon": _weather(
        "Summers are hot and rainy, winters are cold and dry.",
        "hot cold snow seasons monsoon continental temperate",
    ),
    "cool highland": _weather(
        "It is cool and spring-like all year, because of its height, with rainy months.",
        "mild cool rainy highland spring",
    ),
    "desert": _weather("It is hot and very dry; it hardly ever rains.", "hot dry desert arid sunny"),
    "dry mediterranean": _weather(
        "Summers are hot and dry, winters are cool.", "hot dry mediterranean sunny seasons temperate"
    ),
    "equatorial": _weather(
        "It is hot, humid and rainy all year round.", "hot tropical humid rainy equatorial rainforest warm"
    ),
    "hot continental monsoon": _weather(
        "Summers are very hot, winters are cold and dry.", "hot cold seasons monsoon continental temperate"
    ),
    "hot dry": _weather(
        "It is very hot and dry, with a short rainy season and mild winters.",
        "hot dry arid monsoon sunny subtropical",
    ),
    "humid subtropical": _weather(
        "Summers are hot and humid, winters are cool.",
        "hot humid subtropical seasons rainy mild temperate",
    ),
    "mediterranean": _weather(
        "Summers are warm and dry, winters are mild and rainy.",
        "mild mediterranean sunny seasons temperate warm",
    ),
    "mediterranean dry": _weather(
        "Summers are hot, winters are mild with a little rain.", "hot dry mild mediterranean sunny warm"
    ),
    "mild continental monsoon": _weather(
        "Summers are hot and rainy, winters are cold and dry.",
        "hot cold snow seasons monsoon continental temperate",
    ),
    "mild humid": _weather(
        "Summers are warm and humid, winters are mild.", "mild humid warm temperate seasons subtropical sunny"
    ),
    "mild monsoon": _weather(
        "It is pleasant and mild for most of the year, with a monsoon season.",
        "mild tropical monsoon rainy warm savanna",
    ),
    "mild tropical": _weather(
        "It is mild for the tropics, because of its height, with a wet and a dry season.",
        "mild tropical rainy highland warm cool",
    ),
    "monsoon": _weather(
        "It is hot and humid, with a rainy monsoon season and a dry season.",
        "hot tropical humid rainy monsoon warm",
    ),
    "north indian": _weather(
        "Summers are very hot, the monsoon brings rain, and winters are cool and dry.",
        "hot monsoon seasons subtropical dry semi-arid",
    ),
    "oceanic": _weather(
        "It is mild, with cool winters, warm summers and rain at any time.",
        "mild rainy oceanic temperate seasons cool maritime",
    ),
    "oceanic cold": _weather(
        "Summers are warm, winters are cold and grey, sometimes with snow.",
        "mild cold snow oceanic continental temperate seasons",
    ),
    "savanna": _weather(
        "It is hot all year, with a long wet season and a short dry one.",
        "hot tropical humid rainy savanna warm",
    ),
    "severe continental": _weather(
        "Winters are long and bitterly cold, summers are warm.", "cold snow seasons continental severe"
    ),
    "spring highland": _weather(
        "It is mild like spring all year round, because of its height.", "mild tropical spring highland warm"
    ),
    "steppe": _weather(
        "Summers are hot and dry, winters are cold with some snow.",
        "hot dry cold snow seasons arid semi-arid continental steppe",
    ),
    "subtropical highland": _weather(
        "Summers are warm and rainy, winters are mild.", "mild subtropical rainy humid warm temperate"
    ),
    "tropical dry": _weather(
        "It is hot, with a monsoon season and dry, pleasant winters.",
        "hot tropical dry monsoon warm semi-arid savanna",
    ),
    "tropical sea": _weather(
        "It is warm all year round, with sea winds and a rainy season.", "hot tropical humid warm sunny rainy"
    ),
    "warm highland": _weather(
        "It is warm all year round, with two rainy seasons.", "hot tropical warm highland rainy savanna"
    ),
}
"""Kinds of weather by the name that `table.toml` uses."""


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
    religions: tuple[str, ...]
    government: str
    drive: str
    utc: str
    neighbours: tuple[str, ...]
    coasts: tuple[str, ...]
    flag: tuple[str, ...]
    food: tuple[str, ...]
    dress: str
    music: str
    sports: tuple[str, ...]
    hosted: tuple[str, ...]
    rich: bool
    also: tuple[str, ...] = ()
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
        """Whether it is the capital of its country."""
        return self.land.capital == self.name

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Every spelling of its name."""
        return (self.name, *self.also)

    @cached_property
    def places(self) -> frozenset[str]:
        """Every place it lies in, the larger ones included."""
        land = self.land
        return frozenset({land.name, *land.also, *land.within, *self.within, *self.heads})

    @cached_property
    def positions(self) -> Mapping[str, str]:
        """Where it lies in the places it lies in, as far as the table says."""
        land = dict.fromkeys((self.land.name, *self.land.also), self.part)
        return {**self.land.parts, **self.parts, **land}

    @cached_property
    def languages(self) -> tuple[str, ...]:
        """What people speak at home first, then what else is spoken."""
        return tuple(dict.fromkeys((*self.local, *self.land.languages)))

    @cached_property
    def waters(self) -> frozenset[str]:
        """Seas, rivers, lakes and bays on which it lies."""
        return frozenset((*self.coast, *self.water))

    def distance_km(self, other: City) -> float:
        """Great-circle distance to another city."""
        (north, east), (to_north, to_east) = (map(math.radians, place.at) for place in (self, other))
        rise = math.sin((to_north - north) / 2) ** 2
        turn = math.cos(north) * math.cos(to_north) * math.sin((to_east - east) / 2) ** 2
        return 2 * 6371 * math.asin(math.sqrt(rise + turn))


@dataclass(frozen=True, slots=True)
class Topic:
    """A thing cities are known for: the phrases that name it, and the cities (by name) that have it.

    A `general` topic says little: nearly all cities have it, and others in the same question decide instead.
    """

    name: str
    words: tuple[str, ...]
    cities: frozenset[str]
    general: bool


@lru_cache(maxsize=1)
def countries() -> Mapping[str, Country]:
    """The countries of the list, by name."""
    return {name: Country(name=name, **_tuples(row)) for name, row in _read("countries").items()}


@lru_cache(maxsize=1)
def cities() -> Mapping[str, City]:
    """The 91 cities in the table's order, by their published "City, Country"."""
    found = {}
    for key, row in _read("table").items():
        name, _, country = key.partition(", ")
        land = countries()[row.pop("country", country)]
        found[key] = City(key=key, name=name, land=land, **_tuples(row))
    return found


@lru_cache(maxsize=1)
def topics() -> Mapping[str, Topic]:
    """What cities are known for, by the topic's name."""
    found = {}
    for name, row in _read("topics").items():
        lands = row.get("countries", ())
        general = bool(row.get("all"))
        owners = {
            city.name
            for city in cities().values()
            if city.name in row.get("cities", ())
            or city.land.name in lands
            or (general and city.name not in row.get("but", ()))
        }
        found[name] = Topic(name, tuple(row["words"]), frozenset(owners), general)
    return found


@lru_cache(maxsize=1)
def elsewhere() -> Mapping[str, tuple[str, ...]]:
    """Names of places, cities ("elsewhere"), waters and mountains that none of the 91 answers to, by kind."""
    found = {kind: tuple(row["names"]) for kind, row in _read("elsewhere").items()}
    found["mountain"] += tuple(f"{name} {kind}" for name in found["mountain"] for kind in MOUNTAIN_WORDS)
    return found


MOUNTAIN_WORDS: Final = ("mountains", "mountain range")
"""What may follow the name of mountains."""


def _read(name: str) -> dict[str, dict[str, Json]]:
    return tomllib.loads((files(__package__) / f"{name}.toml").read_text(encoding="utf-8"))


def _tuples(row: Mapping[str, Json]) -> dict[str, Json]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in row.items()}
