"""A question about a city as words, and the names and phrases found among them; nothing here knows which city
is hidden.
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from typing import Final

from sweet_rl.mini.cities.table import cities, countries, elsewhere, phrases, read, topics

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
