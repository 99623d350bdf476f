"""Identifiers, numbers and quoted texts as a person would type them.

Knows nothing of Python's grammar; `english` builds expressions out of these.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple


class Unspeakable(Exception):
    """There is no short wording for this code."""


class Level(IntEnum):
    """The precedence of a phrase; a phrase of lower precedence than its surroundings needs brackets."""

    PHRASE = 0
    SUM = 1
    PRODUCT = 2
    ATOM = 3


class Phrase(NamedTuple):
    """Words and how tightly they hold together."""

    text: str
    level: Level = Level.ATOM


_BOUNDARY = re.compile(r"_+|(?<=[a-z]{2})(?=[A-Z])")
_SINGULAR_S = ("ss", "us", "is", "series", "news")
_BLANKS = {"": "an empty text", " ": "a space", "\n": "a line break", "\t": "a tab"}
_SHORT_FORMS = {"num": "number of", "avg": "average", "diff": "difference", "pct": "percentage"}
_FLAGS = ("is", "are", "has", "have", "should", "can", "was")


def split_identifier(name: str) -> list[str]:
    """`tank_size`, `tankSize` -> ["tank", "size"]; common short forms are written out."""
    words = [
        word if word.isupper() else word[:1].lower() + word[1:] for word in _BOUNDARY.split(name) if word
    ]
    return [_SHORT_FORMS.get(word, word) for word in words] or [name]


def plain(name: str) -> str:
    """An identifier as words: `tank_size` becomes "tank size"."""
    return " ".join(split_identifier(name))


def the(name: str) -> str:
    """`tank_size` -> "the tank size", `is_member` -> '"is member"'; a bare letter stays what it is."""
    words = split_identifier(name)
    if words[0] in _FLAGS and len(words) > 1:
        return quote(" ".join(words))
    return name if len(name) == 1 else f"the {' '.join(words)}"


def singular(words: str) -> str:
    """The last word in the singular, as far as spelling shows: "travel histories" -> "travel history"."""
    if words.endswith("ies") and len(words) > 4:
        return words[:-3] + "y"
    if words.endswith(("sses", "shes", "ches", "xes")):
        return words[:-2]
    if words.endswith("s") and not words.endswith(_SINGULAR_S):
        return words[:-1]
    return words


def is_plural(phrase: str) -> bool:
    """Whether "are" follows rather than "is": looks at the head noun, before any "of"."""
    head = phrase.split(" of ", maxsplit=1)[0].split()
    return bool(head) and head[0] == "the" and singular(head[-1]) != head[-1]


def be(phrase: str) -> str:
    """The form of "to be" that follows a noun phrase."""
    return "are" if is_plural(phrase) else "is"


def quote(text: str) -> str:
    """A text constant the way people quote it in a chat, on one line."""
    if text in _BLANKS:
        return _BLANKS[text]
    one_line = text.replace("\n", "\\n").replace("\t", "\\t")
    return f"'{one_line}'" if '"' in one_line else f'"{one_line}"'


def constant(value: object) -> str:
    """A literal in words; numbers keep the digits that the function has."""
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, bytes):
        return quote(value.decode("utf-8", "replace"))
    return "..." if value is Ellipsis else str(value)


def enumerate_words(items: Sequence[str], conjunction: str = "and") -> str:
    """["a", "b", "c"] -> "a, b and c"."""
    if len(items) <= 1:
        return "".join(items)
    return f"{', '.join(items[:-1])} {conjunction} {items[-1]}"


def sentence(text: str) -> str:
    """Capital letter in front, full stop behind."""
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "?", "!")) else ".")


def bare(noun: str) -> str:
    """The noun phrase without its article."""
    return noun.removeprefix("the ")
