"""A question about a city as words, and the names and phrases found among them.

`Question` is what the answers are made from: plain words, whether it wants a sentence or yes or no, and
what it names. Nothing here knows which city is hidden.
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Final

from sweet_rl.worlds.guess_my_city.oracle.table import MOUNTAIN_WORDS, cities, countries, elsewhere, topics

LONGEST_QUESTION: Final = 500
"""Characters that are read; a person's question is far shorter."""

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
_NOT_NAMES: Final = (
    "Is Are Does Do Can Could Was Has Have I You Your City Hometown Question The A An In On It What OK "
    "No Yes "
    "World Heritage Site Sites UNESCO Region Province State River Sea Ocean Coast Prefecture Department "
    "District "
    "Governorate Valley Mountain Mountains Range Island Country County Town Home Peninsula Delta Part "
    "North South "
    "East West Northern Southern Eastern Western Central Municipality Oblast Area Metropolitan"
)
_PROPER_NOISE: Final = frozenset(_NOT_NAMES.split())


@dataclass(frozen=True)
class Question:
    """One question.

    `words` are lower case, without accents and plural s; `found` holds what they name, by kind; `rest` the
    words that name nothing, `unknown` the capitalised of them; `open` questions want a sentence.
    """

    raw: str
    text: str
    words: tuple[str, ...]
    found: Mapping[str, tuple[str, ...]]
    rest: frozenset[str]
    unknown: tuple[str, ...]
    open: bool
    negated: bool

    def has(self, *phrases: str) -> bool:
        """Whether one of the phrases is in it as whole words, a plural s aside."""
        return any(_padded(phrase) in self._padded for phrase in phrases)

    def names(self, kind: str) -> tuple[str, ...]:
        """What it names of a kind: "city", "elsewhere", "place", "water", "mountain", "topic", "sight"."""
        return self.found.get(kind, ())

    @property
    def about_any(self) -> bool:
        """Whether it may be answered by yes or no all the same: "Can you tell me about any famous ...?"."""
        return self.has(
            "tell me about any", "tell me about some", "tell me if", "tell me whether", "describe any"
        )

    @cached_property
    def topics_by_half(self) -> tuple[tuple[str, ...], ...]:
        """The topics on each side of every "or"; one tuple where there is none."""
        halves = " ".join(self.words).split(" or ")
        return tuple(_look_up(tuple(half.split()))[0].get("topic", ()) for half in halves)

    @cached_property
    def _padded(self) -> str:
        return f" {' '.join(self.words)} "


@lru_cache(maxsize=16384)
def read_question(said: str) -> Question:
    """The question in what the agent said: its last sentence with a question mark, or all of it."""
    said = said.strip()[-LONGEST_QUESTION:]
    marked = [part for part in re.split(r"(?<=[?])\s+|\n+", said) if "?" in part]
    raw = marked[-1] if marked else said
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
    """Capitalised words that no phrase took."""
    bare = [word.strip(".,;:!?\"'()") for word in raw.split()]
    names = [word for word in bare if word[:1].isupper() and word not in _PROPER_NOISE]
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
    """A phrase of a table as `Question.words` has it."""
    return tuple(singular(word) for word in re.findall(r"[a-z0-9']+", plain(phrase)))


@lru_cache(maxsize=4096)
def _padded(phrase: str) -> str:
    return f" {' '.join(words_of(phrase))} "


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


@lru_cache(maxsize=1)
def _lexicon() -> Mapping[tuple[str, ...], tuple[tuple[str, str], ...]]:
    """Every known phrase with what it may mean: (kind, name) pairs."""
    known: dict[tuple[str, ...], dict[tuple[str, str], None]] = defaultdict(dict)
    for kind, name, phrases in (*_city_entries(), *_other_entries()):
        for phrase in phrases:
            known[words_of(phrase)][kind, name] = None
    return {key: _settled(list(meant)) for key, meant in known.items() if key}


Entry = tuple[str, str, Iterable[str]]
"""A kind, a name of that kind, and the phrases that mean it."""


def _city_entries() -> Iterable[Entry]:
    for city in cities().values():
        yield "city", city.key, city.names
        for place in (*city.within, *city.heads):
            yield "place", place, (place, *_other_forms(place))
        for water in (*city.coast, *city.water, *city.near):
            yield "water", water, _water_forms(water)
        for mountain in city.mountains:
            yield "mountain", mountain, (mountain, *(f"{mountain} {kind}" for kind in MOUNTAIN_WORDS))
        for sight in city.sights:
            yield "sight", city.key, _proper_names(sight)


def _other_entries() -> Iterable[Entry]:
    for land in countries().values():
        for place in (land.name, *land.also, *land.within, *land.neighbours):
            yield "place", place, (place,)
        yield from (("adjective", land.name, (adjective,)) for adjective in land.adjectives)
        yield from (("water", water, _water_forms(water)) for water in land.coasts)
    yield from (("place", place, (people,)) for people, place in _CONTINENTS.items())
    yield from (("topic", topic.name, topic.words) for topic in topics().values())
    for kind, names in elsewhere().items():
        yield from ((kind, name, _water_forms(name) if kind == "water" else (name,)) for name in names)


def _settled(meant: list[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """The words of a topic, a place or a people are not also a sight's name."""
    if any(kind in ("topic", "adjective", "place") for kind, _ in meant):
        meant = [entry for entry in meant if entry[0] != "sight"]
    return tuple(meant)


def _other_forms(place: str) -> Iterable[str]:
    """Other names of a place: "East Java" is also said as "Eastern Java"."""
    first, _, rest = place.partition(" ")
    if rest and first in {"North", "South", "East", "West"}:
        yield f"{first}ern {rest}"
    if place.endswith(" province"):
        yield place.removesuffix(" province")


def _water_forms(water: str) -> Iterable[str]:
    yield water
    for kind in (" River", " Sea", " Ocean", " Lake", " Creek"):
        if water.endswith(kind):
            bare = water.removesuffix(kind)
            yield f"river {bare}" if kind == " River" else f"{bare} coast"
            if bare in {"Nile", "Thames", "Danube", "Mediterranean", "Yangtze", "Seine", "Tiber", "Ganges"}:
                yield bare
            if bare in {"Pacific", "Atlantic", "Tigris", "Dnieper", "Moskva", "Hooghly", "Yamuna", "Caspian"}:
                yield bare


def _proper_names(sight: str) -> Iterable[str]:
    """The names in a sight's text: "the Eiffel Tower" gives "Eiffel Tower" and "Eiffel"."""
    plainer = re.sub(r"\b(?:the|a|an)\b", "", sight).strip()
    for name in re.findall(r"[A-Z][\w'.-]*(?: (?:of the|of|el|de)? ?[A-Z0-9][\w'.-]*)*", plainer):
        yield name
        rest = plainer[plainer.index(name) + len(name) :].split()
        if rest:
            yield f"{name} {rest[0]}"
        first, _, kind = name.rpartition(" ")
        if first and kind.lower() in _KINDS and " " not in first and first.lower() not in _VAGUE:
            yield first


_CONTINENTS: Final = {
    "Asian": "Asia",
    "European": "Europe",
    "African": "Africa",
    "South American": "South America",
    "North American": "North America",
    "Latin American": "Latin America",
    "Middle Eastern": "Middle East",
    "Southeast Asian": "Southeast Asia",
    "East Asian": "East Asia",
    "South Asian": "South Asia",
    "Arab": "Arab world",
    "EU": "European Union",
}
_KIND_WORDS: Final = (
    "tower palace bridge square museum temple beach park market mosque wall road street tomb fort bazaar pier"
)
_VAGUE_WORDS: Final = (
    "national old great royal central grand white black golden green red blue imperial museum sky sun west "
    "people's art summer independence liberty freedom revolution bay park opera ice victoria india sea"
)
_KINDS: Final = frozenset(_KIND_WORDS.split())
_VAGUE: Final = frozenset(_VAGUE_WORDS.split())
