"""The facts of the 91 cities as objects, from the TOML files beside this module; a question about one of them, with the names
and phrases found among its words. Nothing here knows which city is hidden.
"""

from __future__ import annotations

import math
import re
import tomllib
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache
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


# ---- questions

LONGEST_QUESTION: Final = 500  # Characters that are read; a person's question is far shorter

_LONGEST_PHRASE: Final = 6
_HOME: Final = re.compile(
    r"\b(?:the )?(?:your|my|our|this|that|the) (?:home ?town|home city|city|town|place)"
    r"(?: (?:that )?(?:you(?: are|'re)?|i am) (?:are )?(?:from|live in|come from|grew up in))*"
    r"|\b(?:the )?place (?:where )?you(?: are|'re)? (?:are )?(?:from|come from|live)"
)
_OPENING: Final = re.compile(
    r"^(?:.*(?:question (?:i will ask |would be |will be |is )*(?:would be|will be|is|to ask)?"
    r"|i will ask(?: is)?|like to ask(?: if)?|ask)\s*:\s*|question\s*\d*\s*:\s*|\d+[.)]\s*|[-*•\"'\s]+)+"
)
_WH: Final = re.compile(
    r"^(?:please |and |so |ok |okay |well )*(?:give me|what|which|where|who|whom|whose|how|when|why"
    r"|in what|in which|on which|on what"
    r"|at what|by what|from which|near which|for what|name |describe|tell me|please (?:tell|describe|name)"
    r"|(?:can|could|would|will) you (?:please )?(?:tell|describe|name|give|say|share|mention))"
)
_ASKS: Final = r"(?:is|are|was|does|do|can|could|what|which|where|how|has|have)\b"
_FIRST_CLAUSE: Final = re.compile(rf"^(?!{_ASKS}).*?[.:,] ?[\"']?(?={_ASKS})")
_NOT: Final = re.compile(r"\b(?:not|isn't|doesn't|aren't|isnt|doesnt|don't|never)\b")


@dataclass(frozen=True)
class Question:
    """A question; `found` is what its words name, by kind, `rest` names nothing; an `open` one wants a sentence."""

    raw: str
    text: str
    words: tuple[str, ...]
    found: Mapping[str, tuple[str, ...]]
    rest: frozenset[str]
    unknown: tuple[str, ...]
    open: bool
    negated: bool

    def has(self, *listed: str) -> bool:
        """Whether a phrase of these lists ("a, $near") is in it as whole words, a plural s aside."""
        return any(padded in self._padded for phrase in listed for padded in _padded(phrase))

    def names(self, kind: str) -> tuple[str, ...]:
        return self.unknown if kind == "unknown" else self.found.get(kind, ())

    @property
    def about_any(self) -> bool:
        """Whether it may also be answered by yes or no: "Can you tell me about any famous ...?"."""
        return self.has("tell me about any, tell me about some, tell me if, tell me whether, describe any")

    @cached_property
    def topics_by_half(self) -> tuple[tuple[str, ...], ...]:
        halves = " ".join(self.words).split(" or ")
        return tuple(_look_up(tuple(half.split()))[0].get("topic", ()) for half in halves)

    @cached_property
    def _padded(self) -> str:
        return f" {' '.join(self.words)} "


@lru_cache(maxsize=16384)
def read_question(text: str) -> Question:
    """The question in the agent's message: its last sentence with a question mark, or all of it."""
    text = text.strip()[-LONGEST_QUESTION:]
    marked = [part for part in re.split(r"(?<=[?])\s+|\n+", text) if "?" in part]
    raw = marked[-1] if marked else text
    text = plain(raw)
    text = _OPENING.sub("", text).strip(" \"'")
    text = _FIRST_CLAUSE.sub("", text)
    text = _HOME.sub("home", text)
    text = re.sub(r"\bhome (?:in )?(?:where )?you(?: are|'re)? from\b|\bhome (?:is )?home\b", "home", text)
    words = tuple(singular(word) for word in re.findall(r"[a-z0-9']+(?:\.\d+)?", text))
    negated = bool(_NOT.search(text)) and not re.search(r"\bor not\b", text)
    found, rest = _look_up(words)
    return Question(raw, text, words, found, rest, _unknown(raw, rest), bool(_WH.match(text)), negated)


def _unknown(raw: str, rest: frozenset[str]) -> tuple[str, ...]:
    bare = [word.strip(".,;:!?\"'()") for word in raw.split()]
    names = [word for word in bare if word[:1].isupper() and word not in listed_words("not_names")]
    if len(names) == sum(bool(word) for word in bare):  # all words are capitalised: that says nothing
        return ()
    return tuple(name for name in names if singular(plain(name)) in rest)


_AS_TYPED: Final = str.maketrans({"\u2019": "'", "\u2018": "'", "\u0131": "i"})
"""Curly quotes, and the i without a dot that Turkish names have."""


def plain(text: str) -> str:
    """Lower case without accents; curly quotes made straight, dashes and slashes made spaces."""
    spread = unicodedata.normalize("NFKD", text.translate(_AS_TYPED))
    bare = "".join(char for char in spread if not unicodedata.combining(char))
    return re.sub(r"[-–—/_\s]+", " ", bare.lower())  # noqa: RUF001 - dashes as people type them


def singular(word: str) -> str:
    """A word without its plural s, the same for questions and tables (so it need not be right)."""
    word = word.removesuffix("'s").strip("'")
    if word.endswith(("ches", "shes", "xes", "sses")):
        return word[:-2]
    if len(word) > 4 and word.endswith("ies"):
        return f"{word[:-3]}y"
    if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    return word


def words_of(phrase: str) -> tuple[str, ...]:
    return tuple(singular(word) for word in re.findall(r"[a-z0-9']+", plain(phrase)))


@lru_cache(maxsize=4096)
def _padded(listed: str) -> tuple[str, ...]:
    return tuple(f" {' '.join(words_of(phrase))} " for phrase in phrases(listed))


def _look_up(words: tuple[str, ...]) -> tuple[Mapping[str, tuple[str, ...]], frozenset[str]]:
    """The longest known phrases, from the left, that do not overlap; and the words between them."""
    known = _lexicon()
    rest = []
    found: dict[str, list[str]] = defaultdict(list)
    at = 0
    while at < len(words):
        for length in range(min(_LONGEST_PHRASE, len(words) - at), 0, -1):
            if meant := known.get(words[at : at + length]):
                for kind, name in meant:
                    found[kind].append(name)
                at += length
                break
        else:
            rest.append(words[at])
            at += 1
    return {kind: tuple(dict.fromkeys(names)) for kind, names in found.items()}, frozenset(rest)


@cache
def _lexicon() -> Mapping[tuple[str, ...], Sequence[tuple[str, str]]]:
    """Every known phrase with its (kind, name) pairs; words of a topic, place or people are no sight's name."""
    known: dict[tuple[str, ...], dict[tuple[str, str], None]] = defaultdict(dict)
    for kind, name, phrase in _entries():
        meant = known[words_of(phrase)]
        if kind != "sight" or not any(other in {"topic", "adjective", "place"} for other, _ in meant):
            meant[kind, name] = None
    return {key: list(meant) for key, meant in known.items() if key}


def _entries() -> Iterable[tuple[str, str, str]]:
    """A kind, a name of that kind, and a phrase that means it; sights last."""
    for city in cities().values():
        yield from (("city", city.key, name) for name in city.names)
        yield from _forms("place", *city.within, *city.heads)
        yield from _forms("water", *city.waters, *city.near)
        yield from _forms("mountain", *city.mountains)
    for land in countries().values():
        places = (land.name, *land.also, *land.within, *land.neighbours)
        yield from (("place", place, place) for place in places)
        yield from (("adjective", land.name, adjective) for adjective in land.adjectives)
        yield from _forms("water", *land.coasts)
    yield from (("place", place, people) for people, place in read("words")["peoples"].items())
    yield from (("topic", topic.name, phrase) for topic in topics().values() for phrase in topic.words)
    for kind, names in elsewhere().items():
        yield from ((kind, name, name) for name in names) if kind == "place" else _forms(kind, *names)
    for city in cities().values():
        yield from (("sight", city.key, name) for sight in city.sights for name in _proper_names(sight))


def _forms(kind: str, *names: str) -> Iterable[tuple[str, str, str]]:
    """Entries of names with other forms: "East Java" is also "Eastern Java", "Nile River" is "river Nile"."""
    for name in names:
        forms = [name]
        if kind == "mountain":
            forms += [f"{name} mountains", f"{name} mountain range"]
        elif kind == "place":
            forms += [re.sub("^(North|South|East|West) ", r"\1ern ", name), name.removesuffix(" province")]
        elif found := re.match(r"(.*) (River|Sea|Ocean|Lake|Creek)$", name) if kind == "water" else None:
            forms += [f"river {found[1]}" if found[2] == "River" else f"{found[1]} coast"]
            forms += [found[1]] if found[1] in listed_words("bare_waters") else []
        yield from ((kind, name, form) for form in forms)


def _proper_names(sight: str) -> Iterable[str]:
    """The names in a sight's text: "the Eiffel Tower" gives "Eiffel Tower" and "Eiffel"."""
    plainer = re.sub(r"\b(?:the|a|an)\b", "", sight).strip()
    for name in re.findall(r"[A-Z][\w'.-]*(?: (?:of the|of|el|de)? ?[A-Z0-9][\w'.-]*)*", plainer):
        yield name
        rest = plainer[plainer.index(name) + len(name) :].split()
        if rest:
            yield f"{name} {rest[0]}"
        first, _, kind = name.partition(" ")
        if kind.lower() in listed_words("kinds") and first.lower() not in listed_words("not_a_sight"):
            yield first


@cache
def listed_words(name: str) -> frozenset[str]:
    return frozenset(phrases(read("words")[name]))
