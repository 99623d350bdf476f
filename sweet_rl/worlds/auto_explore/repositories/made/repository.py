"""One made repository: its files, the questions they answer, as an index and as published task records.

Published behaviour: docs/published/reflect_rl.md#data-of-autoexplore.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Any, Final, NamedTuple

from sweet_rl.errors import UsageError
from sweet_rl.types import derive_seed
from sweet_rl.worlds.auto_explore.repositories.index import RepositoryIndex, index_of
from sweet_rl.worlds.auto_explore.repositories.made import words
from sweet_rl.worlds.auto_explore.repositories.made.files import Draws, MadeFile, Maker
from sweet_rl.worlds.auto_explore.repositories.made.layouts import AT_TOP, KINDS, LAYOUTS
from sweet_rl.worlds.auto_explore.repositories.made.moved import INDEX, moved_files
from sweet_rl.worlds.auto_explore.repositories.made.moved import KIND as MOVED
from sweet_rl.worlds.auto_explore.repositories.ways import optimal_path

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
    project = draws.pick(words.PROJECTS)
    topics = draws.rng.sample(words.ENTITIES, _TOPICS)
    one, two = draws.rng.sample(words.COLOURS, 2)
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
