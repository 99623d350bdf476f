"""Texts as words, and whether a name is among them. Pure functions.

Published behaviour: docs/published/archer.md#deviations.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence

_WORD = re.compile(r"[^\W_]+")
_APOSTROPHES = re.compile("['\u2018\u2019\u02bc`\u00b4]")


def words_of(text: str) -> list[str]:
    """The words of a text: lower case, without accents, punctuation and quotes; `"it's"` is one word.

    Digits are parts of words. A hyphen separates, as a space does.
    """
    decomposed = unicodedata.normalize("NFKD", _APOSTROPHES.sub("", text).casefold())
    return _WORD.findall("".join(letter for letter in decomposed if not unicodedata.combining(letter)))


def says_name(text: str, names: Iterable[str]) -> bool:
    """Whether a text contains one of the names as whole words, ignoring spaces and accents.

    "Is it Pyongyang?" names "Pyong Yang"; "Londonderry" does not name London.
    """
    words = words_of(text)
    return any(_find(words, "".join(words_of(name))) for name in names)


def without_tail(question: str) -> str:
    """The question up to its last letter."""
    end = len(question)
    while end and not question[end - 1].isalpha():
        end -= 1
    return question[:end]


def _find(words: Sequence[str], spelled: str) -> bool:
    """Whether some words in a row spell this, spaces left out."""
    for start in range(len(words)):
        length = 0
        for end in range(start, len(words)):
            length += len(words[end])
            if length >= len(spelled):
                if "".join(words[start : end + 1]) == spelled:
                    return True
                break
    return False
