"""What the embedded teacher thinks aloud in a repository: where the search stands, why, what comes next.

It knows the file that answers the question; its sentences only speak of what can be seen: the folder, the
names in it, what was opened. They are varied by draws, so that a model learns the thought, not a phrase.
"""

from __future__ import annotations

import posixpath
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sweet_rl.repositories.ways import next_command

_WORD: Final = re.compile(r"[a-z]{3,}|\d[\d.]*\d|\d")
_COMMON: Final = frozenset(
    _WORD.findall(
        "about and any are can change code data did does file files find for from get has have how into know "
        "listed many need not number our row rows say script service should show that the there this use "
        "used user users want was what when where which who why with written would you"
    )
)


@dataclass(frozen=True, slots=True)
class Search:
    """Where a search stands.

    Args:
        question: what is looked for.
        target: the file that answers it; relative to the root.
        folder: where one is, "" for the root.
        names: what lies there.
        opened: paths of files that were shown, in order.
        content: what the last command showed, "" if nothing.
    """

    question: str
    target: str
    folder: str
    names: Sequence[str]
    opened: Sequence[str]
    content: str = ""


def best_command(search: Search) -> str:
    """The next command on the shortest way."""
    return next_command(search.folder, search.target, opened=search.target in search.opened)


def thought(search: Search, draws: random.Random) -> str:
    """What is said before a choice on the right way: at most three short sentences."""
    command = best_command(search)
    return " ".join(part for part in (_so_far(search, draws), _next(search, command, draws)) if part)


def second_thought(search: Search, draws: random.Random) -> str:
    """What is said after a wrong file was opened: why it is wrong, and how to go on."""
    wrong = posixpath.basename(search.opened[-1]) if search.opened else "this file"
    subject = _subject(search.question, draws)
    missing = _missing(search)
    said = draws.choice(
        (
            f"{wrong} is the wrong file: it says nothing about {missing or subject}.",
            f"I opened {wrong}, but it does not answer the question about {subject}.",
            f"{wrong} does not help: {missing or subject} is not in it.",
            f"Opening {wrong} was a mistake, its content is not about {missing or subject}.",
        )
    )
    return f"{said} {_next(search, best_command(search), draws)}"


def _so_far(search: Search, draws: random.Random) -> str:
    subject = _subject(search.question, draws)
    if search.target in search.opened:
        name = posixpath.basename(search.target)
        return draws.choice(
            (
                f"{name} is about {subject}, so the file is found.",
                f"{name} answers the question about {subject}.",
                f"The content of {name} fits the question.",
            )
        )
    if search.opened:
        return f"{posixpath.basename(search.opened[-1])} did not answer the question."
    where = f"{search.folder}/" if search.folder else "the root folder"
    return draws.choice(
        (
            f"The question is about {subject}. I am in {where}.",
            f"I look for {subject} and have opened nothing yet.",
            f"I am in {where} and need a file about {subject}.",
        )
    )


def _next(search: Search, command: str, draws: random.Random) -> str:
    """The plan, with what speaks for it."""
    word, _, rest = command.partition(" ")
    if word == "id":
        return draws.choice((f"Identify {rest} to finish.", f"Now identify {rest}.", f"I hand in {rest}."))
    if rest == "..":
        where = f"{search.folder}/"
        return draws.choice(
            (
                f"Nothing else in {where} fits, so go back to the folder above",
                f"The file must be outside {where}: go up one folder.",
                f"Go back to the folder above {where}.",
            )
        )
    shared = sorted(_keywords(search.question) & _keywords(rest))
    why = f"its name speaks of {shared[0]}" if shared else draws.choice(_REASONS[word])
    if word == "cd":
        return draws.choice((f"Go into {rest}, {why}.", f"Next enter {rest}: {why}."))
    return draws.choice((f"Open {rest}, {why}.", f"Next look into {rest}: {why}."))


_REASONS: Final = {
    "cd": ("it is the likely folder", "such files are kept there", "the other names fit less"),
    "cat": ("it is the likely file", "its name fits best", "the other files fit less"),
}


def _missing(search: Search) -> str:
    """A word of the question that the shown content has not."""
    there = _keywords(search.content)
    return next((word for word in _in_order(search.question) if word not in there), "")


def _subject(question: str, draws: random.Random) -> str:
    words = _in_order(question)
    if not words:
        return "what is asked"
    start = draws.randrange(max(1, len(words) - 1))
    return " ".join(words[start : start + 2])


def _in_order(text: str) -> list[str]:
    return [word for word in dict.fromkeys(_WORD.findall(text.lower())) if word not in _COMMON]


def _keywords(text: str) -> set[str]:
    return set(_in_order(text))
