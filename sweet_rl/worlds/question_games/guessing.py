"""What counts as naming the thing, and what an oracle's words mean.

Pure functions of text. Each rule exists twice: ours, which is the default of the worlds, and the published
one, whose name ends in `_published` and which gives the published results to the character.

Published behaviour: docs/published/archer.md#twenty-questions, #guess-my-city, #deviations.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence

YES, NO = "Yes.", "No."
INVALID_QUESTION = "Invalid Question."
"""What Twenty Questions says to what is no question that can be answered with yes or no."""
REFUSAL = "I can't answer that question."
"""What Guess My City says instead of an answer that gives the city away."""

_WORD = re.compile(r"[^\W_]+")
_APOSTROPHES = re.compile("['\u2018\u2019\u02bc`\u00b4]")
_POLARITY = dict.fromkeys(("yes", "yeah", "yep"), YES) | dict.fromkeys(
    ("no", "nope", "not", "isnt", "arent", "doesnt"), NO
)
_UNSURE = re.compile(
    r"\b(not (sure|certain|clear|applicable)|no (idea|answer|clue)|do(nt| not) (know|understand))\b"
)


def words_of(text: str) -> list[str]:
    """The words of a text: lower case, without accents, punctuation and quotes; `"it's"` is one word.

    Digits are parts of words. A hyphen separates, as a space does.
    """
    decomposed = unicodedata.normalize("NFKD", _APOSTROPHES.sub("", text).casefold())
    return _WORD.findall("".join(letter for letter in decomposed if not unicodedata.combining(letter)))


def ends_with_name(question: str, names: Iterable[str]) -> bool:
    """Whether a question ends in one of an object's names: "Is it a lawn mower?".

    The last words are compared, all words of a name (so that "Is it a ball?" does not name the soccer ball),
    after `words_of`. Spaces make no difference ("lawnmower", "motor-cycle"), a regular plural is as good as
    the name ("Is it peaches?"), and what stands before the name does not matter: articles, "a pair of",
    adjectives. Numbers behind it are passed over.
    """
    words = words_of(question)
    while words and words[-1].isdigit():
        words.pop()
    endings = {"".join(words[-count:]) for count in range(1, len(words) + 1)}
    spelled = ["".join(words_of(name)) for name in names]
    return any(form in endings for name in spelled for form in _with_plural(name))


def ends_with_name_published(question: str, names: Iterable[str]) -> bool:
    """The published test: the last word alone, cut at spaces, equals a name.

    Names of several words can never be given: 7 of the 157 objects cannot be won.
    """
    return _without_tail(question).split(" ")[-1].lower() in set(names)


def says_name(text: str, names: Iterable[str]) -> bool:
    """Whether one of the names stands in a text as whole words, spaces and accents aside.

    "Is it Pyongyang?" names "Pyong Yang"; "Londonderry" does not name London.
    """
    words = words_of(text)
    return any(_find(words, "".join(words_of(name))) for name in names)


def guesses_city(question: str, names: Sequence[str], others: Iterable[Sequence[str]]) -> bool:
    """Whether a question names the city, and no other one that could be meant.

    What else it says does not matter, nor whether it is a question at all. The published
    test counts a question that lists all cities as the right guess; naming two is no guess here.

    Args:
        question: the agent's.
        names: of the hidden city.
        others: the names of every city that can be hidden; the hidden one may be among them.
    """
    if not says_name(question, names):
        return False
    own = {"".join(words_of(name)) for name in names}
    return not any(
        says_name(question, city) for city in others if own.isdisjoint("".join(words_of(n)) for n in city)
    )


def guesses_city_published(question: str, city: str) -> bool:
    """The published test: the name occurs somewhere in the question."""
    return city.lower() in _without_tail(question).lower()


def yes_or_no(reply: str) -> str:
    """What an oracle of Twenty Questions means: its first word that says yes or no.

    Whole words only, so that "I know" is no "No."; "not sure", "no idea" and the like, and words without
    either, are `INVALID_QUESTION`.
    """
    words = words_of(reply)
    if _UNSURE.search(" ".join(words)):
        return INVALID_QUESTION
    return next((_POLARITY[word] for word in words if word in _POLARITY), INVALID_QUESTION)


def yes_or_no_published(reply: str) -> str:
    """The published rule: "yes" anywhere, else "no" anywhere, within other words too."""
    if "yes" in reply.lower():
        return YES
    return NO if "no" in reply.lower() else INVALID_QUESTION


def _without_tail(question: str) -> str:
    """The question without what is behind its last letter."""
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


def _with_plural(name: str) -> tuple[str, str]:
    """A name and its regular English plural."""
    if name.endswith("y") and name[-2:-1] not in set("aeiou"):
        return name, f"{name[:-1]}ies"
    if name.endswith(("s", "x", "z", "ch", "sh", "o")):
        return name, f"{name}es"
    if name.endswith("fe"):
        return name, f"{name[:-2]}ves"
    return name, f"{name}s"
