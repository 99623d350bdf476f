"""The embedded teacher's thoughts in a repository: state of the search, reasons, next step.

Its sentences say what `explore_search` found, and claim no more than an agent can see: the folder, the names
in it, what was opened. They are varied by draws, so that a model learns the thought, not a phrase.
"""

from __future__ import annotations

import posixpath
import random
import re
from typing import Final

from sweet_rl.worlds.auto_explore.repositories.made.moved import INDEX
from sweet_rl.worlds.auto_explore.teacher.search import Search, alike

_WORD: Final = re.compile(r"[a-z]{3,}|\d[\d.]*\d|\d")
_COMMON: Final = frozenset(
    _WORD.findall(
        "about and any are can change code data did does file files find for from get has have how into know "
        "listed many need not number our row rows say script service should show that the there this use "
        "used user users want was what when where which who why with written would you"
    )
)


def thought(search: Search, draws: random.Random) -> str:
    """The text before a choice: at most three short sentences."""
    return _pointed(search, draws) or f"{_so_far(search, draws)} {_next(search, draws)}"


def second_thought(search: Search, draws: random.Random) -> str:
    """The text after a wrong file was opened: why it is wrong, and how to continue."""
    if pointed := _pointed(search, draws):
        return pointed
    wrong = posixpath.basename(search.opened[-1]) if search.opened else "this file"
    subject, missing = _subject(search.question, draws), _missing(search)
    sentences = [
        f"I opened {wrong}, but it does not answer the question about {subject}.",
        f"{wrong} is the wrong file, the question about {subject} is still open.",
    ]
    if missing:
        sentences += [
            f"{wrong} is the wrong file: it says nothing about {missing}.",
            f"{wrong} does not help: {missing} is not in it.",
        ]
    return f"{draws.choice(sentences)} {_next(search, draws)}"


def _so_far(search: Search, draws: random.Random) -> str:
    subject = _subject(search.question, draws)
    if search.found is not None and search.pointer is not None:
        return f"{INDEX} led to {posixpath.basename(search.found)}."
    if search.found is not None:
        name = posixpath.basename(search.found)
        return draws.choice(
            (
                f"{name} says it, so the file is found.",
                f"{name} answers the question about {subject}.",
                f"The content of {name} answers the question.",
            )
        )
    if search.opened and search.content:
        return f"{posixpath.basename(search.opened[-1])} does not answer the question."
    where = f"{search.folder}/" if search.folder else "the root folder"
    if search.opened:
        return draws.choice(
            (f"Nothing so far is about {subject}.", f"I am in {where}, {subject} is not found.")
        )
    return draws.choice(
        (
            f"The question is about {subject}. I am in {where}.",
            f"I look for {subject} and have opened nothing yet.",
            f"I am in {where} and need a file about {subject}.",
        )
    )


def _pointed(search: Search, draws: random.Random) -> str:
    """The thought right behind a file that says where things are, and behind the one that it named; else "".

    From the topic to its owner, from there to the file, and no word twice: a small model that can look up finds
    each behind the one before, and to choose among words of its own is harder.
    """
    if search.pointer is None or not search.content:
        return ""
    topic, owner, path = search.pointer
    name, hands_in = posixpath.basename(path), search.plan.command.startswith("id ")
    verb = draws.choice(("Now identify", "Identify", "I hand in") if hands_in else ("Open", "Next look into"))
    if search.opened[-1].endswith(INDEX):
        return f"{verb} what it says for {topic}: {owner}: {name}."
    return f"{verb} what was shown, as {INDEX} says: cat {name}." if search.opened[-1] == path else ""


def _next(search: Search, draws: random.Random) -> str:
    """The plan, with what speaks for it; where nothing does, that it is a try."""
    word, _, rest = search.plan.command.partition(" ")
    if word == "id":
        if search.found is None:
            return f"Nothing is left to open. {rest} is the best guess."
        return draws.choice((f"Identify {rest} to finish.", f"Now identify {rest}.", f"I hand in {rest}."))
    if rest == "..":
        where = f"{search.folder}/"
        return draws.choice(
            (
                f"Nothing that is left in {where} fits better, so go back to the folder above.",
                f"I look elsewhere than in {where}: go up one folder.",
                f"Go back to the folder above {where}.",
            )
        )
    why = _why(search, draws)
    if word == "cd":
        return draws.choice((f"Go into {rest}, {why}.", f"Next enter {rest}: {why}."))
    return draws.choice((f"Open {rest}, {why}.", f"Next look into {rest}: {why}."))


def _why(search: Search, draws: random.Random) -> str:
    """What speaks for the plan's name: a word of the question, what is usual, or nothing at all."""
    clue, is_folder = search.plan.clue, search.plan.command.startswith("cd ")
    if search.pointer is not None:
        return f"as {INDEX} says"
    if search.plan.command.endswith(INDEX):
        return draws.choice(("it says where things are", "which says where everything is"))
    if clue.shared:
        return f"its name speaks of {clue.shared}"
    if clue.words:
        return draws.choice(
            ("such things are kept there", "that is the usual place") if is_folder else _USUAL
        )
    if search.plan.others:
        return draws.choice(_TRIES)
    return draws.choice(("it is what is left here", "there is no other one left here"))


_USUAL: Final = ("such things usually stand there", "that is the usual file for it")
_TRIES: Final = (
    "as the names do not tell which one it is",
    "the names do not tell, so I try one",
    "for a try",
)


def _missing(search: Search) -> str:
    """A word of the question that the shown content has not, in no form."""
    there = _keywords(search.content)
    if not there:
        return ""
    asked = _in_order(search.question)
    return next((word for word in asked if not any(alike(word, other) for other in there)), "")


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
