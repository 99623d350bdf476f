"""The English of Twenty Questions: words, stems, the frames of questions, phrases to look up; it knows no objects.

Stems need not be words: two forms of a word have to fall together, two words apart. What is special is listed.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.resources import files
from typing import Any

LONGEST = 300  # Characters of a question that are read; a longer one is not understood


def set_of(words: str) -> frozenset[str]:
    return frozenset(words.split())


ENGLISH: dict[str, Any] = tomllib.loads(
    files(__package__).joinpath("english.toml").read_text(encoding="utf-8")
)

SOFT = set_of(ENGLISH["soft"])  # Words that a phrase may have between its own, and that say nothing alone

_FORMS: dict[str, str] = {form: word for word, forms in ENGLISH["forms"].items() for form in forms.split()}
_KEPT = set_of(ENGLISH["kept"])


@lru_cache(maxsize=1 << 14)
def stem(word: str) -> str:
    """What the forms of a word have in common: `cuts`, `cutting` and `cut` become `cut`."""
    word = _FORMS.get(word, word)
    if len(word) > 3 and word not in _KEPT:
        if word.endswith("ies"):
            word = word[:-3] + "y"
        elif word.endswith(("sses", "shes", "ches", "xes", "zes")):
            word = word[:-2]
        elif word.endswith("s") and not word.endswith(("ss", "us", "is")):
            word = word[:-1]
        word = _FORMS.get(word, word)
    if len(word) <= 3 or word in _KEPT:
        return word
    for ending in ("ing", "ed"):
        base = word.removesuffix(ending)
        if base != word and len(base) >= 3 and re.search("[aeiouy]", base):
            return base[:-1] if base[-1] == base[-2] and base[-1] not in "sle" else base
    return word[:-1] if word.endswith("e") and not word.endswith("ee") else word


_WORDS = re.compile(r"[^\W_]+")
_MOSTLY = "(?:mostly|mainly|primarily|usually|only|typically)"
_CONTRACTIONS = (
    (re.compile(r"\b(?:can't|cannot)\b"), "can not"),
    (re.compile(r"\bwon't\b"), "will not"),
    (re.compile(r"n't\b"), " not"),
    (re.compile(r"\bit's\b|\bits (?=an? )"), "it is "),
    (re.compile(r"\b(what|who|where|that|there|he|she)'s\b"), r"\1 is"),
    (re.compile(r"'(?:s|d|ll|re|ve|m)\b|'"), ""),
    (re.compile(r"\bt[ -]shirt"), "tshirt"),
    (re.compile(r"\b(?:put|place|set|keep|store) (?:things?|stuff|objects|items|something) on\b"), "load on"),
    (
        re.compile(r"\b(?:put|place|keep|store|carry|hold) (?:things?|stuff|objects|items|something) in"),
        "store in",
    ),
    (re.compile(rf"\b{_MOSTLY}( worn| used)? by (?:women|girls)\b"), r"\1 feminine"),
    (re.compile(rf"\b(worn|used) {_MOSTLY} by (?:women|girls)\b"), r"\1 feminine"),
    (re.compile(r"\ban? (?:object|thing|item)$"), "tangible"),
    (re.compile(r"\beat (?:dinner |food |meals? )?at\b"), "dine"),
    (re.compile(r"\bin (?:colou?r|shape|size|appearance)\b"), " "),
    (re.compile(r"\b(?:types?|kinds?|sorts?|forms?|examples?) of\b"), " "),
)
_GREETING = (
    r"(?:ok|okay|so|well|hm+|um+|uh+|ah+|oh|alright|right|now|then|and|but|please|great|cool|nice|yes|no|"
    r"good|aha|also|tell me if|tell me whether|next question|question|first|next|finally|i wonder if|"
    r"could you tell me if|can you tell me if|i want to know if|let me guess|final guess|my guess|"
    r"my question is) "
)
_OPENING = re.compile(
    rf"^(?:{_GREETING})*"
    r"(?:(?:do you think|would you say|would you consider|can you say|is it true|is it correct)"
    r"(?: that)? (?=it |this |that |the )|)"
)
_THOUGHT = (
    r"(?: (?:that )?(?:i am|you are|you|i) (?:looking for|thinking of|thinking about|guessing|have in mind))?"
)
_SUBJECT = (
    r"(?:the |this |that |your |my )?(?:secret |hidden |mystery |mysterious |correct |final )?"
    rf"(?:object|thing|item|word|answer|noun|secret|guess){_THOUGHT}"
)
_SHELLS = (
    (r"^(?:is|are) (?:you|we) (?:thinking|talking) (?:of|about) ", "is it "),
    (rf"^(is|does|can|could|would|will|has|was|do|are) {_SUBJECT} ", r"\1 it "),
    (
        (
            rf"^(?:i think |i guess |i believe |i say |maybe |perhaps )?(?:that )?(?:{_SUBJECT}|it|this) "
            r"(?:is|could be|must be|might be|may be|has to be) "
        ),
        "is it ",
    ),
    (r"^(?:it|this) (?:has|have) ", "does it have "),
    (r"^(?:it|this) (?=can|does|will|would)", ""),
    (r"^(?:is|are|was|were) (?:he|she|this|that|they|these|those|what you are thinking of) ", "is it "),
)
_CLOSING = re.compile(
    r"(?: (?:(?:is|are|does|do|can|was) not (?:it|they|you)|right|correct|please|thanks|thank you|"
    r"yes or no|true|or not|or no|or something like that|or something similar|or something|or anything|"
    r"or so|at all|then|true or false|by any chance|in general|or what|am i right|now|yet|perhaps|maybe|"
    r"though|(?:on|from) the (?:out|in)side))+$"
)


@dataclass(frozen=True, slots=True)
class Word:
    text: str
    stem: str

    @property
    def soft(self) -> bool:
        return self.text in SOFT


def read_words(question: str) -> list[Word]:
    """The words of one question without what people put around it; empty when there is no one question."""
    if len(question) > LONGEST:
        return []
    sentences = [plain for part in re.split(r"[?!.;:]+(?:\s|$)|\n", question) if (plain := _plain(part))]
    if len(sentences) != 1:
        return []
    return [Word(word, stem(word)) for word in sentences[0].split()]


def _plain(sentence: str) -> str:
    text = sentence.lower().replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")
    for pattern, replacement in _CONTRACTIONS:
        text = pattern.sub(replacement, text)
    if " or " in text:
        text = re.sub(r",(?! *(?:or|is|are|does|do|can|could|would|will|has)\b)(?=.* or )", " or ", text)
    text = " ".join(_WORDS.findall(text))
    text = _OPENING.sub("", text + " ").strip()
    text = re.sub(
        r"^(is|are|does|do|can|could|would|will|has|was) not (it|this|that|you|they|people)\b", r"\1 \2", text
    )
    if re.fullmatch(_GREETING + "*", text + " "):
        return ""
    text = _CLOSING.sub("", text)
    for shell, replacement in _SHELLS:
        text = re.sub(shell, replacement, text + " ").strip()
    return text


@dataclass(slots=True)
class Phrases:
    """A dictionary of phrases, looked up by stems, the longest first."""

    entries: dict[str, list[tuple[tuple[str, ...], int]]] = field(default_factory=dict)

    def add(self, phrase: str, value: int, *, whole: bool = False) -> None:
        """Let a phrase mean a value, or that one too when it means another already."""
        words = _WORDS.findall(re.sub(r"\b(?:type|kind|sort|form) of\b|'s", "", phrase.lower()))
        hard = words if whole else [word for word in words if word not in SOFT] or words
        stems = tuple(stem(word) for word in hard)
        found = self.entries.setdefault(stems[0], [])
        for place, (known, meaning) in enumerate(found):
            if known == stems:
                found[place] = (known, meaning | value)
                return
        found.append((stems, value))
        found.sort(key=lambda entry: -len(entry[0]))

    def match(self, words: Sequence[Word], start: int) -> tuple[int, int, int] | None:
        """The longest phrase that begins at a place: its words, its meaning, the place behind it."""
        for stems, value in self.entries.get(words[start].stem, ()):
            place, taken = start + 1, 1
            while taken < len(stems) and place < len(words):
                if words[place].stem == stems[taken]:
                    taken += 1
                elif not words[place].soft:
                    break
                place += 1
            if taken == len(stems):
                return taken, value, place
        return None


def longest(
    dictionaries: Iterable[Phrases], words: Sequence[Word], start: int
) -> tuple[int, int, int] | None:
    """The longest match of several dictionaries; of equal ones the first."""
    best: tuple[int, int, int] | None = None
    for phrases in dictionaries:
        found = phrases.match(words, start)
        if found is not None and (best is None or found[0] > best[0]):
            best = found
    return best
