"""Which folders a made repository has, by its kind: library, service, analysis of data, installation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from sweet_rl.worlds.auto_explore.repositories.made import files, words
from sweet_rl.worlds.auto_explore.repositories.made.files import Maker


class Folder(NamedTuple):
    """Files of one sort in one folder, about as many different things.

    `few` and `many` bound how many; `about` names them, None for what the repository is about. `named`: the
    questions name the folder or what only this file says, so that another folder may hold such a file, too.
    """

    path: str
    make: Maker
    few: int
    many: int
    about: Sequence[str] | None = None
    named: bool = False


_RUNS: Final = tuple(f"run_{number}" for number in range(1, 7))

LAYOUTS: Final[dict[str, tuple[Folder, ...]]] = {
    "library": (
        Folder("lib/", files.code, 2, 3),
        Folder("lib/{one}/", files.code, 2, 3),
        Folder("docs/", files.manual, 2, 3),
        Folder("notes/", files.notes, 2, 3, words.WEEKDAYS, named=True),
    ),
    "service": (
        Folder("src/handlers/", files.code, 2, 3),
        Folder("src/", files.code, 1, 2),
        Folder("config/", files.settings, 2, 3),
        Folder("docs/", files.manual, 2, 3),
        Folder("scripts/", files.script, 1, 2),
    ),
    "analysis": (
        Folder("data/", files.table, 2, 3),
        Folder("experiments/{one}/", files.run, 2, 3, _RUNS, named=True),
        Folder("experiments/{two}/", files.run, 2, 3, _RUNS, named=True),
        Folder("notes/", files.notes, 2, 3, words.WEEKDAYS, named=True),
        Folder("tools/", files.code, 1, 2),
    ),
    "installation": (
        Folder("config/production/", files.settings, 2, 3, named=True),
        Folder("config/staging/", files.settings, 2, 3, named=True),
        Folder("scripts/", files.script, 2, 3),
        Folder("docs/", files.manual, 2, 3),
    ),
}
"""Folders by kind. `{one}` and `{two}` are colours or the like that only distinguish."""

KINDS: Final = tuple(LAYOUTS)

AT_TOP: Final[tuple[Maker, ...]] = (files.readme, files.changes)
"""What lies at the top of every repository."""
