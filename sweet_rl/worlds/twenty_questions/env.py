"""The episode of Twenty Questions: which object is it? The oracle says yes or no.

Each rule of what counts exists twice: ours, which is the default, and the published one, whose name ends in
`_published` and which gives the published results to the character.

Published behaviour: docs/published/archer.md#twenty-questions, #ten-words.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from sweet_rl.worlds.question_games.env import QuestionGameEnv, without_tail, words_of

YES, NO = "Yes.", "No."
INVALID_QUESTION = "Invalid Question."
"""The reply to a text that is no yes-or-no question."""

_POLARITY = dict.fromkeys(("yes", "yeah", "yep"), YES) | dict.fromkeys(
    ("no", "nope", "not", "isnt", "arent", "doesnt"), NO
)
_UNSURE = re.compile(
    r"\b(not (sure|certain|clear|applicable)|no (idea|answer|clue)|do(nt| not) (know|understand))\b"
)


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
    return without_tail(question).split(" ")[-1].lower() in set(names)


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


def _with_plural(name: str) -> tuple[str, str]:
    """A name and its regular English plural."""
    if name.endswith("y") and name[-2:-1] not in set("aeiou"):
        return name, f"{name[:-1]}ies"
    if name.endswith(("s", "x", "z", "ch", "sh", "o")):
        return name, f"{name}es"
    if name.endswith("fe"):
        return name, f"{name[:-2]}ves"
    return name, f"{name}s"


class TwentyQuestionsEnv(QuestionGameEnv):
    """Which of the objects is it? The oracle says yes or no.

    Solved when a question ends in one of the object's names and the answer to it is yes. The repaired rules
    read both as people do (`ends_with_name`, `yes_or_no`), so that all 157 objects can be
    won; the published ones compare the last word alone and find "no" in "know".
    """

    _no_answer = INVALID_QUESTION

    def _judge(self, question: str, reply: str) -> tuple[str, bool]:
        if self._published:
            answer = yes_or_no_published(reply)
            named = ends_with_name_published(question, self._names)
        else:
            answer = yes_or_no(reply)
            named = ends_with_name(question, self._names)
        return answer, answer == YES and named
