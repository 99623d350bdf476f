"""Small repositories made from a name, with facts to find: no download, no disk, any number of them.

Each has a dozen files at depths 0 to 2 and about 20 questions that exactly one file answers; in those called
`moved` an answer is two hops away. Words are in repositories.toml. Published behaviour:
docs/published/reflect_rl.md#data-of-autoexplore.
"""

from __future__ import annotations

import json
import posixpath
import re
import shutil
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

from sweet_rl import tracking
from sweet_rl.errors import StorageError, UsageError
from sweet_rl.records.files import replace_file
from sweet_rl.types import Json, derive_seed
from sweet_rl.worlds.auto_explore.repositories import RepositoryIndex, index_of, optimal_path

_DATA: Final[dict[str, Any]] = tomllib.loads(
    files("sweet_rl.mini").joinpath("repositories.toml").read_text("utf-8")
)
TOPICS: Final[Sequence[str]] = _DATA["topics"]
KINDS: Final[Sequence[str]] = tuple(_DATA["layouts"])

MOVED: Final = "moved"  # How repositories are called whose files have moved: `moved-17`

INDEX: Final = "MOVED.md"  # The file of a folder in them that says where everything is

MOST: Final = 1_000_000  # How many repositories of each kind there are


class MadeTask(NamedTuple):
    """A question, its answer, and the one file that it is in."""

    question: str
    answer: str
    filename: str


class _File(NamedTuple):
    path: str
    text: str
    questions: tuple[tuple[str, str], ...]


class _Draws:
    """Values for one repository: whatever was drawn is not drawn again."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self._used = set[str]()

    def pick(self, pool: Sequence[str]) -> str:
        word = self.rng.choice([word for word in pool if word not in self._used])
        self._used.add(word)
        return word

    def number(self, low: int, high: int) -> str:
        number = str(self.rng.randint(low, high))
        while number in self._used:
            number = str(self.rng.randint(low, high))
        self._used.add(number)
        return number

    def make(self, sort: Mapping[str, Any], folder: str = "", **given: str) -> _File:
        """A file of a sort, with what is given and what is drawn in its text and its questions."""
        values = dict(given)
        for name, drawn in sort["values"].items():
            values[name] = self.pick(_DATA["words"][drawn]) if isinstance(drawn, str) else self.number(*drawn)
        if "{rows}" in sort["text"]:
            rows = [(self.pick(_DATA["words"]["things"]), self.number(10, 9999)) for _ in range(6)]
            thing, count = self.rng.choice(rows[:4])
            other, number = self.rng.choice([row for row in rows[:4] if row[0] != thing])
            values |= {"thing": thing, "count": count, "other": other, "number": number}
            values["rows"] = "\n".join(f"{item},{many},boxes,yes" for item, many in rows)
        questions = []
        for answer, wording in sort["asked"]:
            said = wording if isinstance(wording, str) else self.rng.choice(wording)
            questions.append((said.format(**values), answer.format(**values)))
        path, text = folder + sort["name"].format(**values), sort["text"].format(**values)
        return _File(path, text, tuple(questions))


@dataclass(frozen=True, slots=True)
class MadeRepository:
    name: str
    files: Mapping[str, str]
    tasks: tuple[MadeTask, ...]

    def index(self) -> RepositoryIndex:
        return index_of(self.name, self.files)

    def rows(self) -> list[dict[str, Json]]:
        """Task records as the published generator writes them; with `clues` where a file says where the answer is."""
        rows: list[dict[str, Json]] = []
        for question, answer, filename in self.tasks:
            index = posixpath.join(posixpath.dirname(filename), INDEX)
            row: dict[str, Json] = {"question": question, "answer": answer}
            row |= {"optimal_path": optimal_path(filename), "filename": filename, "root": self.name}
            row |= {"n_level": filename.count("/"), "model": "embedded"}
            rows.append(row | ({"clues": [index]} if index in self.files else {}))
        return rows


def make_repository(name: str) -> MadeRepository:
    """The repository called `name`: a kind and a number below `MOST`, like `service-17`. Always the same."""
    found = re.fullmatch(rf"({'|'.join((*KINDS, MOVED))})-(0|[1-9]\d{{0,5}})", name)
    if found is None:
        raise UsageError(
            f"There is no embedded repository {name!r}. They are called {', '.join((*KINDS, MOVED))}, with a "
            "number below a million after it: 'service-17'. Repositories on disk need the folder that contains them."
        )
    draws = _Draws(Random(derive_seed("repository", name)))
    project = draws.pick(_DATA["projects"])
    topics = draws.rng.sample(TOPICS, 6)
    one, two = draws.rng.sample(_DATA["words"]["colours"], 2)
    made = [draws.make(_DATA["sorts"][sort], about=project) for sort in ("readme", "changes")]
    if found[1] == MOVED:  # nothing is asked that the names lead to
        made = [file._replace(questions=()) for file in made] + _moved_files(topics, one, draws)
    else:
        made += _named_files(_DATA["layouts"][found[1]], topics, {"one": one, "two": two}, draws)
    draws.rng.shuffle(made)
    tasks = tuple(
        MadeTask(question, answer, file.path) for file in made for question, answer in file.questions
    )
    return MadeRepository(name, {file.path: file.text for file in sorted(made)}, tasks)


def _named_files(
    layout: Sequence[Mapping[str, Any]], topics: Sequence[str], colours: Mapping[str, str], draws: _Draws
) -> list[_File]:
    made: list[_File] = []
    asked = set[tuple[str, str]]()  # what a question names must be one file
    for folder in layout:
        sort, path = folder["sort"], folder["path"].format(**colours)
        pool = _DATA["words"][folder["about"]] if "about" in folder else topics
        if not folder.get("named"):
            pool = [about for about in pool if (sort, about) not in asked]
        stage = path.rstrip("/").rpartition("/")[2]
        where = f" in {stage}" if stage in {"production", "staging"} else ""
        for about in draws.rng.sample(pool, draws.rng.randint(folder["few"], folder["many"])):
            asked.add((sort, about))
            given = {"about": about, "title": about.capitalize(), "where": where}
            made.append(draws.make(_DATA["sorts"][sort], path, **given))
    return made


def _moved_files(topics: Sequence[str], one: str, draws: _Draws) -> list[_File]:
    """The files of two folders; each has the one that says where the others are, in lists with an order of their own."""
    made: list[_File] = []
    for sort in draws.rng.sample(list(_DATA["moved"].values()), 2):
        about = draws.rng.sample(list(topics), 6)
        owners = [draws.pick(_DATA["words"]["people"]) for _ in about]
        colours = draws.rng.sample(_DATA["words"]["colours"], 6)
        paths = [sort["name"].format(one=one, colour=colour) for colour in colours]
        folder = posixpath.dirname(paths[0])
        lists = [
            "\n".join(f"{key}: {posixpath.basename(value)}" for key, value in draws.rng.sample(pairs, 6))
            for pairs in (list(zip(about, owners, strict=True)), list(zip(owners, paths, strict=True)))
        ]
        text = f"# Where things are\n\nWho keeps them:\n{lists[0]}\n\nWhere they keep them:\n{lists[1]}\n"
        made.append(_File(f"{folder}/{INDEX}", text, ()))
        for topic, owner, colour in zip(about, owners, colours, strict=True):
            made.append(draws.make(sort, topic=topic, owner=owner, one=one, colour=colour))
    return made


def repository_names(count: int, seed: int = 0, *, hops: int = 1) -> list[str]:
    """Names of `count` repositories, the kinds in turn; another seed has others."""
    rng = Random(derive_seed("repositories", seed))
    if hops > 1:
        return [f"{MOVED}-{number}" for number in rng.sample(range(MOST), count)]
    numbers = rng.sample(range(MOST), -(-count // len(KINDS)))
    return [f"{KINDS[place % len(KINDS)]}-{numbers[place // len(KINDS)]}" for place in range(count)]


def write_repositories(
    folder: str | Path, *, num: int, seed: int = 0, hops: int = 1, overwrite: bool = False
) -> int:
    """Write `num` repositories to `repos`, each whole or not at all, and their task records to `made_tasks.json`."""
    if num < 1:
        raise UsageError(f"The number of repositories must be at least 1, got {num}.")
    folder = Path(folder).expanduser()
    made = [make_repository(name) for name in repository_names(num, seed, hops=hops)]
    tasks, repositories = folder / "made_tasks.json", folder / "repos"
    there = [path for path in (tasks, *(repositories / one.name for one in made)) if path.exists()]
    if there and not overwrite:
        raise UsageError(f"{str(there[0])!r} exists; pass --overwrite or choose another --output_dir.")
    rows = [row for one in made for row in one.rows()]
    write_into(repositories, made)
    tracking.writes(tasks)
    replace_file(tasks, [json.dumps(rows, indent=1).encode()])
    return len(rows)


def write_into(folder: Path, made: Sequence[MadeRepository]) -> None:
    tracking.writes(folder)  # beside it: a file in there could be taken for a repository
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for one in made:
            _write(one, folder / one.name)
    except OSError as error:
        raise StorageError(f"Cannot write to {str(folder)!r}: {error}.") from error


def _write(made: MadeRepository, place: Path) -> None:
    with tempfile.TemporaryDirectory(dir=place.parent, prefix=".making-") as work:
        new = Path(work) / made.name
        for path, text in made.files.items():
            (new / path).parent.mkdir(parents=True, exist_ok=True)
            (new / path).write_text(text, encoding="utf-8")
        if place.is_symlink() or place.exists():
            shutil.move(place, Path(work) / "old")
        new.rename(place)
