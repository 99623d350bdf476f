"""What a yes/no question asks, as the set of objects for which the answer is yes.

A question is read from left to right. Words change what the next phrase is about (`is`: what it is, `have`:
its parts, `you`: what people do with it, ...); each phrase is looked up there; `or`, `and`, `not` join what
was found. Every word has to be understood: one that is not makes the question invalid, because an answer to
a half of it would be a guess.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache

from sweet_rl.worlds.twenty_questions.oracle.facts import Facts, Size, Thing, facts, read_size, rows
from sweet_rl.worlds.twenty_questions.oracle.language import Phrases, Word, longest, read_words, set_of

_ASKING = set_of("what which who whom whose where when why how whats")
_ARTICLES = set_of("a an the your my another one")
_PARTS_OF = set_of("the its their")
_PEOPLE = set_of("people person human humans persons you i we someone somebody anyone everyone")
_PLACES = set_of(
    "in inside on at from near around under into outside over onto within out off up to by through "
)
_PREDICATES = {
    **dict.fromkeys(set_of("be is are was were being been"), "be"),
    **dict.fromkeys(set_of("do does did can could would will able should may might"), "do"),
    **dict.fromkeys(set_of("use used uses useful using for help helps"), "for"),
}
_HAVING = set_of("hav with contain includ featur full fill cover")
_MAKING = set_of("mak consist compos")
_EMPTY = set_of(
    "find see keep locate locat go come look seem belong need require requir mean design intend serv "
    "good easy like possible  available piec sort kind form typ put place stor purpos material "
    "substance mainly involv relat associat top bottom end sid middl "
)
_OPPOSITES = frozenset(
    frozenset(set_of(pair))
    for pair in (
        "hot cold", "big small", "larg small", "big littl", "soft hard", "heavy light", "aliv dead",
        "natural manmad", "natural artificial", "cheap expensiv", "sharp dull", "fast slow", "long short",
        "wet dry", "aliv inanimat", "rough smooth", "loud quiet", "mal femal", "man woman", "old new",
    )
)  # fmt: skip
_WHERE = {
    "be": ("be", "any", "names", "of", "use"),
    "do": ("do", "any", "use", "be"),
    "use": ("use", "any"),
    "for": ("for", "use", "any"),
    "have": ("have",),
    "of": ("of", "any"),
}
_MORE: dict[str, tuple[str, Callable[[float, float], bool]]] = {
    "bigger": ("bulk_l", operator.gt), "larger": ("bulk_l", operator.gt), "smaller": ("bulk_l", operator.lt),
    "heavier": ("weight_kg", operator.gt), "lighter": ("weight_kg", operator.lt),
    "longer": ("length_cm", operator.gt), "taller": ("length_cm", operator.gt),
    "shorter": ("length_cm", operator.lt), "weigh more": ("weight_kg", operator.gt),
    "weigh less": ("weight_kg", operator.lt), "less big": ("bulk_l", operator.lt),
}  # fmt: skip
_UNITS = set_of("centimeter cm foot gram inch kg kilo kilogram lb meter metre mile ounce pound ton yard ")
_NUMBERS = {
    "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "eight": 8, "ten": 10, "twelve": 12,
    "twenty": 20, "fifty": 50, "hundred": 100, "thousand": 1000, "half": 0.5,
}  # fmt: skip


@lru_cache(maxsize=1 << 16)
def understand(question: str) -> int | None:
    """The set of objects (`object_facts`) for which the answer is yes; None where the question is invalid.

    Invalid are: no question, a question that wants something else than yes or no, one with a word that is not
    understood, and a choice between things that leave nothing out ("Is it hot or cold?").
    """
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
    """One question while it is read."""

    words: Sequence[Word]
    facts: Facts
    voice: str = "be"
    after_preposition: bool = False
    after_article: bool = False
    negated: bool = False
    nouns: bool = False
    terms: list[tuple[bool, list[int]]] = field(default_factory=lambda: [(False, [])])
    choices: list[int] = field(default_factory=list)

    def result(self) -> int | None:
        place = 0
        while place < len(self.words):
            behind = self._take(place)
            if behind is None:
                return None
            place = behind
        several = bool(self.choices)
        if not self._close_choice():
            return None
        union = 0
        for choice in self.choices:
            union |= choice
        missing = (union ^ self.facts.everything).bit_count()
        return None if several and missing <= 2 else union

    def _take(self, place: int) -> int | None:
        """Read one word or phrase; the place behind it, or None where it is not understood."""
        word = self.words[place]
        behind = self._join(word, place)
        if behind is None:
            behind = self._compare(place)
        if behind is None:
            behind = self._look_up(place)
        if behind is None and self._switch(word, place):
            behind = place + 1
        return behind

    def _join(self, word: Word, place: int) -> int | None:
        match word.text:
            case "or":
                return place + 1 if self._close_choice() else None
            case "and" | "but" | "nor":
                self.terms.append((word.text == "nor", []))
            case "not" | "no" | "neither" | "never" | "without" | "non":
                self.terms.append((True, []))
                if word.text == "without":
                    self.voice = "have"
            case "other" if self._next(place) == "than":
                self.terms.append((True, []))
                return place + 2
            case _:
                return None
        return place + 1

    def _close_choice(self) -> bool:
        """End one side of an `or`; False when it says nothing."""
        meaning, has_terms = self.facts.everything, False
        for negative, found in self.terms:
            common = self.facts.everything
            for one in found:
                common &= one
            if found:
                has_terms = True
                meaning &= common ^ self.facts.everything if negative else common
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
        least = 2 if word.text in _PEOPLE and self._more_to_come(place) else 1
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

    def _more_to_come(self, place: int) -> bool:
        """Whether this side of the question continues with a word that has a meaning."""
        for word in self.words[place + 1 :]:
            if word.text in ("or", "and"):
                return False
            if not word.soft:
                return True
        return False

    def _next(self, place: int) -> str:
        return self.words[place + 1].text if place + 1 < len(self.words) else ""

    def _switch(self, word: Word, place: int) -> bool:
        """A word that says nothing itself but changes what comes next."""
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
            return False
        self.after_preposition = self.after_preposition or text in _PLACES or word.stem in ("find", "liv")
        self.after_article = text in _ARTICLES or (self.after_article and word.soft)
        return True

    def _compare(self, place: int) -> int | None:
        """`bigger than a dog`, `as big as a car`, `fit in a box`, `weigh more than 5 pounds`."""
        texts = [word.text for word in self.words[place : place + 4]]
        head = " ".join(texts[:2]) if texts[0] in ("weigh", "weighs", "less", "more") else texts[0]
        head = head.replace("weighs", "weigh").replace("more heavy", "heavier")
        if head in _MORE and "than" in texts:
            measure, holds = _MORE[head]
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
        self._say(_those(self.facts.things, lambda thing: holds(float(getattr(thing.size, measure)), limit)))
        return behind

    def _yardstick(self, start: int, measure: str) -> tuple[float, int] | None:
        """The size of what is named at a place, and the place behind it."""
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
            if len(chosen) < length:
                continue
            sizes = _yardsticks().get(" ".join(word.stem for word in chosen))
            if sizes is not None:
                unit = chosen[0].stem in _UNITS or chosen[0].text in _UNITS
                return getattr(sizes, measure) * (count if unit else 1.0), start + length
        return None


@cache
def _yardsticks() -> dict[str, Size]:
    sizes = {}
    for number, line in rows("sizes.txt"):
        names, size = line.split("|")
        for name in names.split(","):
            sizes[_stems(name)] = read_size(size.strip(), "sizes.txt", number)
    for thing in facts().things:
        for alias in (*thing.aliases, *_nicknames().get(thing.name, ())):
            sizes[_stems(alias)] = thing.size
    return sizes


def _stems(name: str) -> str:
    return " ".join(word.stem for word in read_words(name))


def _those(things: Sequence[Thing], holds: Callable[[Thing], bool]) -> int:
    return sum(1 << place for place, thing in enumerate(things) if holds(thing))


@cache
def _nicknames() -> dict[str, tuple[str, ...]]:
    """Further names by first name."""
    names: dict[str, tuple[str, ...]] = {}
    for heading, left, phrases in _lexicon():
        if heading == "names":
            names[left] = (*names.get(left, ()), *phrases)
    return names


@cache
def _lexicon() -> list[tuple[str, str, tuple[str, ...]]]:
    """Every row of the phrase files: heading, left side, phrases."""
    found, heading = [], ""
    for file in ("words.txt", "deeds.txt"):
        for _, line in rows(file):
            if line.startswith("["):
                heading = line.strip("[]")
                continue
            left, _, right = line.partition(" = ")
            found.append((heading, left.strip(), tuple(phrase.strip() for phrase in right.split(","))))
    return found


@cache
def _dictionaries() -> dict[str, Phrases]:
    table = facts()
    books = {
        name: Phrases()
        for name in ("any", "be", "of", "in", "on", "have", "do", "use", "for", "who", "names")
    }
    for heading, left, phrases in _lexicon():
        if heading == "names":
            continue
        meaning = table.evaluate(left)
        for phrase in phrases:
            books[heading].add(phrase, meaning)
    for place, thing in enumerate(table.things):
        for alias in (*thing.aliases, *_nicknames().get(thing.name, ())):
            books["names"].add(alias, 1 << place, whole=True)
    return books
