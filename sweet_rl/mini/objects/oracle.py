"""The oracle of Twenty Questions without a model: a table of 157 objects and a reader of questions.

A set of objects is an integer with a bit for each. A question is read from left to right: words change what the next
phrase is about, each phrase is looked up there; `or`, `and`, `not` join what was found. One word that is not understood
makes it invalid. Published behaviour: docs/published/archer.md#twenty-questions.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache, reduce
from importlib.resources import files
from itertools import takewhile
from operator import itemgetter
from typing import NamedTuple

from sweet_rl.errors import EpisodeError
from sweet_rl.mini.objects.language import ENGLISH, Phrases, Word, longest, read_words, set_of
from sweet_rl.types import Failure, StopReason, UserContext, UserReply

YES, NO, INVALID = "Yes.", "No.", "Invalid Question."  # The three published answers

_ASKING, _ARTICLES, _PARTS_OF, _PEOPLE, _PLACES = map(
    set_of, itemgetter("asking", "articles", "parts_of", "people", "places")(ENGLISH)
)
_HAVING, _MAKING, _EMPTY, _UNITS = map(set_of, itemgetter("having", "making", "empty", "units")(ENGLISH))
_OPPOSITES = list(map(set_of, ENGLISH["opposites"]))
_PREDICATES = {word: kind for kind, words in ENGLISH["predicates"].items() for word in words.split()}
_WHERE = {voice: names.split() for voice, names in ENGLISH["where"].items()}
_BOOKS = ("any", "be", "of", "in", "on", "have", "do", "use", "for", "who", "names")
_MORE = ENGLISH["comparisons"]
_NUMBERS = ENGLISH["numbers"]


class Size(NamedTuple):
    length_cm: float
    bulk_l: float
    weight_kg: float


class Thing(NamedTuple):
    aliases: tuple[str, ...]
    category: str
    size: Size
    attributes: frozenset[str]

    @property
    def name(self) -> str:
        return self.aliases[0]


@dataclass(frozen=True, slots=True)
class Facts:
    """All objects in the published order; the set that has each attribute; their places by name."""

    things: tuple[Thing, ...]
    sets: Mapping[str, int]
    places: Mapping[str, int]

    @property
    def everything(self) -> int:
        return (1 << len(self.things)) - 1

    def names(self, chosen: int) -> list[str]:
        return [thing.name for place, thing in enumerate(self.things) if chosen >> place & 1]

    def evaluate(self, expression: str) -> int:
        """The set that an expression of attributes names: `|` or, `&` and (binds closer), `!` not."""
        union = 0
        for term in expression.split("|"):
            common = self.everything
            for factor in map(str.strip, term.split("&")):
                word = factor.removeprefix("!")
                common &= self.sets[word] ^ (self.everything if factor != word else 0)
            union |= common
        return union


def sections(name: str) -> Iterator[tuple[str, list[str]]]:
    """The headings of a packaged text file, each with its lines; comments and blanks left out."""
    heading, found = "", list[str]()
    for line in files(__package__).joinpath(name).read_text("utf-8").splitlines():
        if line.startswith("["):
            if found:
                yield heading, found
            heading, found = line.strip().strip("[]"), []
        elif line.strip() and not line.startswith("#"):
            found.append(line.strip())
    yield heading, found


def _size(text: str) -> Size:
    """Of a size like `24cm 7L .6kg`."""
    return Size(*map(float, re.split("cm |L |kg", text.strip())[:3]))


@cache
def facts() -> Facts:
    things = list[Thing]()
    sets: dict[str, int] = {"none": 0}
    for heading, lines in sections("table.txt"):
        category, _, words = heading.partition(":")
        for line in lines:
            names, size, own = (part.strip() for part in line.split("|"))
            aliases = tuple(alias.strip().lower() for alias in names.split(";"))
            attributes = {*words.split(), *own.split()}
            attributes -= {form for word in own.split() if word[0] == "-" for form in (word, word[1:])}
            thing = Thing(aliases, category, _size(size), frozenset(attributes))
            for attribute in attributes | _measures(thing):
                sets[attribute] = sets.get(attribute, 0) | 1 << len(things)
            things.append(thing)
    places = {alias: place for place, thing in enumerate(things) for alias in thing.aliases}
    return Facts(tuple(things), sets, places)


def _measures(thing: Thing) -> set[str]:
    """What follows from an object's size and parts, by the conventions of docs/world_questions.md."""
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
        "on:any": any(word.startswith("on:") for word in thing.attributes),
    }
    return {word for word, holds in follows.items() if holds}


@lru_cache(maxsize=1 << 16)
def understand(question: str) -> int | None:
    """The objects that it is true of; None of no yes/no question, an unknown word, an empty choice."""
    words = read_words(question)
    if not words or words[0].text in _ASKING:
        return None
    if len(words) > 1 and words[0].text in _PREDICATES and words[1].text in _PARTS_OF:
        return None  # about something that belongs to it
    stems = {word.stem for word in words}
    if "or" in stems and any(pair <= stems for pair in _OPPOSITES):
        return None
    return _Reading(words, facts()).result()


@dataclass(slots=True)
class _Reading:
    words: Sequence[Word]
    facts: Facts
    voice: str = "be"
    after_preposition: bool = False
    after_article: bool = False
    terms: list[tuple[bool, list[int]]] = field(default_factory=lambda: [(False, [])])
    choices: list[int] = field(default_factory=list)

    def result(self) -> int | None:
        place: int | None = 0
        while place is not None and place < len(self.words):
            for read in (self._join, self._compare, self._look_up, self._switch):
                behind = read(place)
                if behind is not None:
                    break
            place = behind
        several = bool(self.choices)
        if place is None or not self._close_choice():
            return None
        union = reduce(operator.or_, self.choices)
        missing = (union ^ self.facts.everything).bit_count()
        return None if several and missing <= 2 else union

    def _join(self, place: int) -> int | None:
        """The place behind a word that joins what stands before and after it."""
        word = self.words[place].text
        match word:
            case "or":
                return place + 1 if self._close_choice() else None
            case "and" | "but" | "nor":
                self.terms.append((word == "nor", []))
            case "not" | "no" | "neither" | "never" | "without" | "non":
                self.terms.append((True, []))
                if word == "without":
                    self.voice = "have"
            case "other" if self._next(place) == "than":
                self.terms.append((True, []))
                return place + 2
            case _:
                return None
        return place + 1

    def _close_choice(self) -> bool:
        """End one side of an `or`; False when it says nothing."""
        meaning = everything = self.facts.everything
        has_terms = False
        for negative, found in self.terms:
            if found:
                has_terms = True
                common = reduce(operator.and_, found)
                meaning &= common ^ everything if negative else common
        self.choices.append(meaning)
        self.terms = [(False, [])]
        return has_terms

    def _say(self, meaning: int) -> None:
        self.terms[-1][1].append(meaning)
        self.after_preposition = self.after_article = False

    def _look_up(self, place: int) -> int | None:
        """A phrase of the dictionaries that belong to the voice."""
        word = self.words[place]
        if word.soft:
            return None
        # whether this side of the question continues with a word that has a meaning
        rest = takewhile(lambda each: each.text not in ("or", "and"), self.words[place + 1 :])
        least = 2 if word.text in _PEOPLE and not all(each.soft for each in rest) else 1
        books = _dictionaries()
        where = list(_WHERE[self.voice])
        if self.voice == "be" and self.after_article:
            where = ["names", "be", "any"]
        if self.after_preposition and self.voice != "of":
            where = ["on", "in", *where]
        if word.text == "made" and "use" in where:
            where.remove("use")
        if self.voice == "have" and word.stem == "hav":
            where.append("any")
        found = longest([books[name] for name in where], self.words, place)
        who = books["who"].match(self.words, place) if self.voice != "have" else None
        if who is not None and (found is None or who[0] >= found[0]):
            found = who
            self.voice = "use" if self.voice == "do" else self.voice
        if found is None and word.stem == "hav":
            found = books["any"].match(self.words, place)
        if found is None or found[0] < least:
            return None
        _, meaning, behind = found
        named = books["names"].match(self.words, place) if self.voice == "be" else None
        if named is not None and not self.after_article and named[2] == behind == len(self.words):
            meaning |= named[1]  # "Is it orange?": the fruit, too
        self._say(meaning)
        self.after_preposition = self.words[behind - 1].text in _PLACES
        return behind

    def _next(self, place: int) -> str:
        return self.words[place + 1].text if place + 1 < len(self.words) else ""

    def _switch(self, place: int) -> int | None:
        """The place behind a word that says nothing itself but changes what comes next."""
        word = self.words[place]
        text = word.text
        if text in _PEOPLE:
            if self.voice not in ("have", "for"):
                self.voice = "use"
        elif text in ("that", "which", "who", "able") and self._next(place) not in ("is", "are"):
            self.voice = "do"
        elif text in _PREDICATES:
            if not (self.voice in ("use", "for") and _PREDICATES[text] == "do") or text in ("does", "do"):
                self.voice = _PREDICATES[text]
        elif word.stem in _HAVING or text == "there":
            self.voice = "have"
        elif word.stem in _MAKING:
            self.voice = "of"
        elif text in ("look", "looks", "feel", "feels", "seem", "taste", "tastes", "become", "get", "like"):
            self.voice = "be" if self.voice == "do" else self.voice
        elif not word.soft and word.stem not in _EMPTY and text not in _PLACES:
            return None
        self.after_preposition = self.after_preposition or text in _PLACES or word.stem in ("find", "liv")
        self.after_article = text in _ARTICLES or (self.after_article and word.soft)
        return place + 1

    def _compare(self, place: int) -> int | None:
        """`bigger than a dog`, `as big as a car`, `fit in a box`, `weigh more than 5 pounds`."""
        texts = [word.text for word in self.words[place : place + 4]]
        head = " ".join(texts[:2]) if texts[0] in ("weigh", "weighs", "less", "more") else texts[0]
        head = head.replace("weighs", "weigh").replace("more heavy", "heavier")
        if head in _MORE and "than" in texts:
            measure, holds = _MORE[head][0], getattr(operator, _MORE[head][1])
            start = place + texts.index("than") + 1
        elif texts[0] in ("fit", "fits") and _dictionaries()["any"].match(self.words, place) is None:
            measure, holds = "bulk_l", operator.lt
            start = place + 1
        else:
            return None
        yardstick = self._yardstick(start, measure)
        if yardstick is None:
            return None
        limit, behind = yardstick
        sizes = enumerate(thing.size for thing in self.facts.things)
        self._say(sum(1 << number for number, size in sizes if holds(getattr(size, measure), limit)))
        return behind

    def _yardstick(self, start: int, measure: str) -> tuple[float, int] | None:
        count = 1.0
        while start < len(self.words) and (
            self.words[start].soft
            or self.words[start].text in _NUMBERS
            or re.fullmatch(r"\d+", self.words[start].text)
            or self.words[start].text in ("average", "adult", "normal", "grown", "typical")
        ):
            text = self.words[start].text
            count = float(text) if text.isdigit() else count * _NUMBERS.get(text, 1.0)
            start += 1
        if start >= len(self.words):
            person = self.words[-1].text in ("me", "you", "i")
            return (float(getattr(_yardsticks()["people"], measure)), start) if person else None
        for length in (3, 2, 1):
            chosen = self.words[start : start + length]
            size = (
                _yardsticks().get(" ".join(word.stem for word in chosen)) if len(chosen) == length else None
            )
            if size is not None:
                unit = chosen[0].stem in _UNITS or chosen[0].text in _UNITS
                return getattr(size, measure) * (count if unit else 1.0), start + length
        return None


@cache
def _all_names() -> list[tuple[str, int]]:
    """What the objects are called, with their places: the names of the table, then those of `deeds.txt`."""
    nicknames: dict[str, list[str]] = {}
    for left, phrases in _lexicon()["names"]:
        nicknames.setdefault(left, []).extend(phrases)
    things = enumerate(facts().things)
    return [(name, place) for place, one in things for name in (*one.aliases, *nicknames.get(one.name, ()))]


@cache
def _lexicon() -> dict[str, list[tuple[str, list[str]]]]:
    """Every row of the phrase files by its heading: left side, phrases."""
    found: dict[str, list[tuple[str, list[str]]]] = {}
    for heading, lines in (*sections("words.txt"), *sections("deeds.txt")):
        for line in lines:
            left, _, right = line.partition(" = ")
            found.setdefault(heading, []).append((left.strip(), [one.strip() for one in right.split(",")]))
    return found


@cache
def _yardsticks() -> dict[str, Size]:
    def stems(name: str) -> str:
        return " ".join(word.stem for word in read_words(name))

    sizes = dict[str, Size]()
    for _, lines in sections("sizes.txt"):
        for names, size in (line.split("|") for line in lines):
            sizes |= dict.fromkeys(map(stems, names.split(",")), _size(size))
    return sizes | {stems(name): facts().things[place].size for name, place in _all_names()}


@cache
def _dictionaries() -> dict[str, Phrases]:
    books = {name: Phrases() for name in _BOOKS}
    for heading, rows in _lexicon().items():
        if heading != "names":
            for left, phrases in rows:
                meaning = facts().evaluate(left)
                for phrase in phrases:
                    books[heading].add(phrase, meaning)
    for name, place in _all_names():
        books["names"].add(name, 1 << place, whole=True)
    return books


def answer(name: str, question: str) -> str | None:
    """ "Yes.", "No." or "Invalid Question." about the object of that name; None when there is no such object."""
    place = facts().places.get(name.strip().lower())
    if place is None:
        return None
    meaning = understand(question)
    if meaning is None:
        return INVALID
    return YES if meaning >> place & 1 else NO


class ObjectOracle:
    """Answers the last message about one of the 157 objects, by any of its names."""

    name = "objects"

    async def reply(self, context: UserContext) -> UserReply:
        text = answer(context.hidden_information, context.messages[-1].content if context.messages else "")
        if text is None:
            detail = (
                f"The table has no object {context.hidden_information!r}; it has the 157 words of "
                "Twenty Questions. Another oracle is needed for other words."
            )
            raise EpisodeError(StopReason.USER_FAILED, Failure("unknown_object", detail))
        return UserReply(text)

    async def close(self) -> None:
        """Nothing to free."""
