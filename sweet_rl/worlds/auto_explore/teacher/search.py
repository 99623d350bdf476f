"""How the embedded teacher searches for a file: by names that it has seen and contents that it has read.

It learns what a reader finds out by reading, and no sooner: whether a file that it opened answers. All else
it concludes from what an agent is shown, so that an agent can learn it. Where names do not help, it tries one
after the other, in an order that the seed decides.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from sweet_rl.types import derive_seed
from sweet_rl.worlds.auto_explore.repositories import Entry, is_allowed
from sweet_rl.worlds.auto_explore.repositories.made.moved import INDEX
from sweet_rl.worlds.auto_explore.repositories.quoting import next_command, unwrap

_WORD: Final = re.compile(r"[a-z]{2,}|\d+")
_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")

_KEPT: Final = re.compile(r"^(\w+): (\S+)$", re.MULTILINE)
"""A line of a file that says where things are."""

_STEM: Final = 5
_SHORT_STEM: Final = 3
_ENDING: Final = 4
"""Letters that two forms of a word begin with (the second: if one is no longer), and what may follow."""

_CODE: Final = "code function class"
_KEPT_IN: Final = {
    "docs": "documentation doc guide manual office room person read written",
    "config": "configured configuration port region settings value",
    **dict.fromkeys(("src", "lib", "app", "core", "tools"), _CODE),
    "scripts": "script night run",
    "data": "table data count row",
    "notes": "meeting minutes promised agreed day",
    "experiments": "experiment accuracy learning rate result",
    "readme": "began licence license",
    "changes": "since version changed supported",
    "tests": "test tests",
}
"""What names of folders and files usually stand for."""


class Clue(NamedTuple):
    """What speaks for a name: how many words of the question, and the first of them that is in it."""

    words: int = 0
    shared: str = ""


NO_CLUE: Final = Clue()


class Pointer(NamedTuple):
    """What a file that says where things are says of what is looked for: topic, owner, file."""

    topic: str
    owner: str
    path: str


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do next, and what speaks for it.

    Attributes:
        command: `cd`, `cat` or `id` with a name, as the game offers it.
        clue: what its name suggests.
        others: how many things there are to try beside it, in the same folder.
    """

    command: str
    clue: Clue = NO_CLUE
    others: int = 0


@dataclass(frozen=True, slots=True)
class Search:
    """The state of a search, as an agent can know it.

    Attributes:
        question: what is looked for.
        folder: where one is, "" for the root.
        opened: paths of files that were shown, in order.
        content: what the last command showed of a file, "" if nothing.
        found: the opened file that answers.
        plan: what comes next.
        pointer: what a file that was opened says of where the answer is.
    """

    question: str
    folder: str
    opened: Sequence[str]
    content: str
    found: str | None
    plan: Plan
    pointer: Pointer | None = None


class Explorer:
    """The seen part of one repository, and what to look at next.

    Args:
        answers: the files that answer it; one counts as found when it was opened, and not before.
        seed: of the order in which names are tried that say equally much.
    """

    def __init__(self, question: str, answers: Collection[str], *, seed: int = 0) -> None:
        self._question, self._answers, self._seed = question, frozenset(answers), seed
        self._asked = tuple(dict.fromkeys(_WORD.findall(question.lower())))
        self._listed = set[str]()
        self._is_folder: dict[str, bool] = {}
        self._opened: list[str] = []
        self._content = ""
        self._pointer: Pointer | None = None

    def look(self, folder: str, entries: Sequence[Entry]) -> None:
        """Remember the entries of a folder."""
        self._listed.add(folder)
        for entry in entries:
            if entry.is_folder or is_allowed(entry.name):
                self._is_folder[posixpath.join(folder, entry.name)] = entry.is_folder

    def read(self, path: str, content: str) -> None:
        """Record that a file was opened, and its shown text."""
        self._opened.append(path)
        self._content = content
        self._pointer = self._pointed(path) or self._pointer

    def forget_content(self) -> None:
        """Forget the last shown content: another command came after it."""
        self._content = ""

    def search(self, folder: str) -> Search:
        """The state of the search in a folder."""
        pointer = self._pointer
        found = next((path for path in self._opened if self._answering(path)), None)
        plan = self._plan(folder, found)
        return Search(self._question, folder, tuple(self._opened), self._content, found, plan, pointer)

    def _answering(self, path: str) -> bool:
        """Whether one can know of an opened file that it answers.

        Where another file says which one it is, that is the only way to know.
        """
        if self._pointer is not None:
            return path == self._pointer.path
        has_index = posixpath.join(posixpath.dirname(path), INDEX) in self._is_folder
        return path in self._answers and not has_index

    def _pointed(self, path: str) -> Pointer | None:
        """Follow the shown lines from a word of the question to an owner, and from there to a file beside it."""
        lines = dict(_KEPT.findall(self._content)) if posixpath.basename(path) == INDEX else {}
        for topic, owner in lines.items():
            if owner in lines and any(alike(asked, topic) for asked in self._asked):
                return Pointer(topic, owner, posixpath.join(posixpath.dirname(path), lines[owner]))
        return None

    def _plan(self, folder: str, found: str | None) -> Plan:
        if found is not None:
            return Plan(next_command(folder, found, opened=True))
        if self._pointer is not None:
            return Plan(next_command(folder, self._pointer.path))
        places = [path for path in self._is_folder if path not in self._listed and path not in self._opened]
        if not places:  # all was opened: the name that says most
            best = max(self._opened, key=self._clues, default="")
            return Plan(next_command(folder, best, opened=True) if best else "")
        best = min(places, key=lambda path: self._order(folder, path))
        is_folder = self._is_folder[best]
        command = next_command(folder, f"{best}/." if is_folder else best)
        name = unwrap(command.partition(" ")[2])
        others = sum(
            posixpath.dirname(path) == folder and self._is_folder[path] == command.startswith("cd ")
            for path in places
            if path != best
        )
        return Plan(command, self._clue(name), others)

    def _order(self, folder: str, path: str) -> tuple[int, int, bool, int]:
        """What comes first: what most speaks for, then what is near, folders before files, then any."""
        return (
            -self._clues(path),
            _way(folder, path),
            not self._is_folder[path],
            derive_seed(self._seed, path),
        )

    def _clues(self, path: str) -> int:
        """How much speaks for a path: its own name, and those of the folders that it lies in."""
        return sum(self._clue(name).words for name in path.split("/"))

    def _clue(self, name: str) -> Clue:
        if name == INDEX:
            return Clue(1)
        words = _WORD.findall(_CAMEL.sub(" ", name.rpartition(".")[0] or name).lower())
        usual = [word for one in words for word in _KEPT_IN.get(one, "").split()]
        shared = [asked for asked in self._asked if any(alike(asked, word) for word in words)]
        meant = [asked for asked in self._asked if any(alike(asked, word) for word in usual)]
        return Clue(len({*shared, *meant}), shared[0] if shared else "")


def alike(one: str, other: str) -> bool:
    """Whether two words are forms of one: map and maps, config and configured, licence and licensed."""
    common = len(posixpath.commonprefix([one, other]))
    shorter, longer = sorted((len(one) - common, len(other) - common))
    if common >= _STEM:
        return longer <= _ENDING
    return longer == 0 or (shorter == 0 and common >= _SHORT_STEM and longer < _ENDING)


def _way(folder: str, path: str) -> int:
    """How many folders lie between where one is and where something lies."""
    here = folder.split("/") if folder else []
    there = path.split("/")[:-1]
    common = len(posixpath.commonprefix([here, there]))
    return len(here) + len(there) - 2 * common
