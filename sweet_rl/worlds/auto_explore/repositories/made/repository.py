"""One made repository: its files, the questions they answer, as an index and as published task records.

Published behaviour: docs/published/reflect_rl.md#data-of-autoexplore.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Final, NamedTuple

from sweet_rl.errors import UsageError
from sweet_rl.types import derive_seed
from sweet_rl.worlds.auto_explore.repositories.index import RepositoryIndex, index_of
from sweet_rl.worlds.auto_explore.repositories.made import files
from sweet_rl.worlds.auto_explore.repositories.made.files import Draws, MadeFile, Maker
from sweet_rl.worlds.auto_explore.repositories.made.moved import INDEX, moved_files
from sweet_rl.worlds.auto_explore.repositories.made.moved import KIND as MOVED
from sweet_rl.worlds.auto_explore.repositories.quoting import optimal_path


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
        Folder("notes/", files.notes, 2, 3, files.WEEKDAYS, named=True),
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
        Folder("notes/", files.notes, 2, 3, files.WEEKDAYS, named=True),
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


MODEL: Final = "embedded"
"""Who wrote the questions, in task records."""

MOST: Final = 1_000_000
"""How many repositories of each kind there are."""

_TOPICS: Final = 6
"""How many things a repository is about."""

_NAME: Final = re.compile(rf"({'|'.join((*KINDS, MOVED))})-(0|[1-9]\d{{0,5}})")


class MadeTask(NamedTuple):
    """A question, its answer, and the one file that it is in."""

    question: str
    answer: str
    filename: str


@dataclass(frozen=True, slots=True)
class MadeRepository:
    """A repository of a dozen small files at depths 0 to 2."""

    name: str
    files: Mapping[str, str]
    tasks: tuple[MadeTask, ...]

    def index(self) -> RepositoryIndex:
        """The repository as an index in memory; nothing is written to disk."""
        return index_of(self.name, self.files)

    def rows(self) -> list[dict[str, Any]]:
        """Task records as the published generator writes them; with `clues` where a file says where the answer is."""
        return [
            {
                "question": task.question,
                "answer": task.answer,
                "optimal_path": optimal_path(task.filename),
                "filename": task.filename,
                "root": self.name,
                "n_level": task.filename.count("/"),
                "model": MODEL,
                **(
                    {"clues": [index]}
                    if (index := posixpath.join(posixpath.dirname(task.filename), INDEX)) in self.files
                    else {}
                ),
            }
            for task in self.tasks
        ]


def make_repository(name: str) -> MadeRepository:
    """The repository called `name`: a kind and a number below `MOST`, like `service-17`. Always the same.

    In those called `moved` the way to an answer is two hops longer: see `moved`.
    """
    found = _NAME.fullmatch(name)
    if found is None:
        raise UsageError(
            f"There is no embedded repository {name!r}. They are called {', '.join((*KINDS, MOVED))}, with a "
            "number below a million after it: 'service-17'. Repositories on disk need the folder that contains them."
        )
    draws = Draws(Random(derive_seed("repository", name)))
    made = _files(found[1], draws)
    draws.rng.shuffle(made)
    tasks = tuple(
        MadeTask(question, answer, file.path) for file in made for question, answer in file.questions
    )
    return MadeRepository(name, {file.path: file.text for file in sorted(made)}, tasks)


def repository_names(count: int, seed: int = 0, *, hops: int = 1) -> list[str]:
    """Names of `count` repositories, the kinds in turn; another seed has others."""
    rng = Random(derive_seed("repositories", seed))
    if hops > 1:
        return [f"{MOVED}-{number}" for number in rng.sample(range(MOST), count)]
    numbers = rng.sample(range(MOST), -(-count // len(KINDS)))
    return [f"{KINDS[place % len(KINDS)]}-{numbers[place // len(KINDS)]}" for place in range(count)]


def _files(kind: str, draws: Draws) -> list[MadeFile]:
    project = draws.pick(files.PROJECTS)
    topics = draws.rng.sample(files.ENTITIES, _TOPICS)
    one, two = draws.rng.sample(files.COLOURS, 2)
    made = [make("", project, draws) for make in AT_TOP]
    if kind == MOVED:  # nothing is asked that the names lead to
        return [*(file._replace(questions=()) for file in made), *moved_files(topics, one, draws)]
    asked = set[tuple[Maker, str]]()  # what a question names must be one file
    for folder in LAYOUTS[kind]:
        path = folder.path.format(one=one, two=two)
        pool = topics if folder.about is None else folder.about
        if not folder.named:
            pool = [about for about in pool if (folder.make, about) not in asked]
        count = draws.rng.randint(folder.few, folder.many)
        for about in draws.rng.sample(pool, count):
            asked.add((folder.make, about))
            made.append(folder.make(path, about, draws))
    return made
