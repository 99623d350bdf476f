"""Small repositories made from a name, with facts to find: no download, no disk, any number of them.

Each has a dozen files at depths 0 to 2 and about 20 questions that exactly one file answers; in those called `moved` an
answer is two hops away. Their teacher searches by names that it has seen and contents that it has read; its sentences claim
no more than an agent can see. Published behaviour: docs/published/reflect_rl.md#data-of-autoexplore.
"""

from __future__ import annotations

import json
import posixpath
import re
import shutil
import tempfile
import tomllib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

from sweet_rl import tracking
from sweet_rl.errors import StorageError, UsageError
from sweet_rl.records.files import replace_file
from sweet_rl.types import Json, derive_seed
from sweet_rl.worlds.auto_explore import repositories as explored
from sweet_rl.worlds.auto_explore.repositories import Entry, index_of, is_allowed, next_command, unwrap

_DATA, _TEXTS = (
    tomllib.loads(files("sweet_rl.mini").joinpath(name).read_text("utf-8"))
    for name in ("repositories.toml", "repository_teacher.toml")
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

    def index(self) -> explored.RepositoryIndex:
        return index_of(self.name, self.files)

    def rows(self) -> list[dict[str, Json]]:
        """Task records as the published generator writes them; with `clues` where a file says where the answer is."""
        rows: list[dict[str, Json]] = []
        for question, answer, filename in self.tasks:
            index = posixpath.join(posixpath.dirname(filename), INDEX)
            row: dict[str, Json] = {"question": question, "answer": answer}
            row |= {"optimal_path": explored.optimal_path(filename), "filename": filename, "root": self.name}
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
            place = folder / one.name
            with tempfile.TemporaryDirectory(dir=folder, prefix=".making-") as work:
                new = Path(work) / one.name
                for path, text in one.files.items():
                    (new / path).parent.mkdir(parents=True, exist_ok=True)
                    (new / path).write_text(text, encoding="utf-8")
                if place.is_symlink() or place.exists():
                    shutil.move(place, Path(work) / "old")
                new.rename(place)
    except OSError as error:
        raise StorageError(f"Cannot write to {str(folder)!r}: {error}.") from error


def known_questions(repository: str, path: str, text: str, draws: Random) -> str:
    """A reply in a model's layout: up to three of the questions that a made repository has about an unchanged file."""
    try:
        made = make_repository(repository)
    except UsageError:
        raise UsageError(
            f"The embedded teacher asks about repositories of make_repositories only, not {repository!r}: "
            "--teacher openai asks about any."
        ) from None
    asked = [task for task in made.tasks if task.filename == path and made.files[path] == text]
    chosen = draws.sample(asked, min(3, len(asked)))
    lines = ["# ANALYSIS", f"The file {path} answers {len(chosen)} of the questions below."]
    for number, task in enumerate(chosen, start=1):
        lines += [f"- QUERY{number}: {task.question}", f"- ANSWER{number}: {task.answer}"]
    return "\n".join(lines)


class Clue(NamedTuple):
    """What speaks for a name: how many words of the question, and the first of them that is in it."""

    words: int = 0
    shared: str = ""


class Pointer(NamedTuple):
    """What a file that says where things are says of what is looked for: topic, owner, file."""

    topic: str
    owner: str
    path: str


class Plan(NamedTuple):
    """What to do next, as the game offers it; what its name suggests; how much else there is to try in this folder."""

    command: str
    clue: Clue = Clue()
    others: int = 0


@dataclass(frozen=True, slots=True)
class Search:
    """The state of a search, as an agent can know it; `found` is an opened file that answers, `content` what is shown."""

    question: str
    folder: str
    opened: Sequence[str]
    content: str
    found: str | None
    plan: Plan
    pointer: Pointer | None = None


class Explorer:
    """The seen part of one repository, and what to look at next; `answers` count as found once opened."""

    def __init__(self, question: str, answers: Collection[str], *, seed: int = 0) -> None:
        self._question, self._answers, self._seed = question, frozenset(answers), seed
        self._asked = tuple(dict.fromkeys(re.findall(r"[a-z]{2,}|\d+", question.lower())))
        self._listed = set[str]()
        self._is_folder: dict[str, bool] = {}
        self._opened: list[str] = []
        self.content = ""  # what the last command showed of a file
        self._pointer: Pointer | None = None

    def look(self, folder: str, entries: Sequence[Entry]) -> None:
        self._listed.add(folder)
        for entry in entries:
            if entry.is_folder or is_allowed(entry.name):
                self._is_folder[posixpath.join(folder, entry.name)] = entry.is_folder

    def read(self, path: str, content: str) -> None:
        """An opened file; an index leads from a word of the question to an owner, to a file."""
        self._opened.append(path)
        self.content = content
        is_index = posixpath.basename(path) == INDEX
        lines = dict(re.findall(r"^(\w+): (\S+)$", content, re.MULTILINE)) if is_index else {}
        for topic, owner in lines.items():
            if owner in lines and any(alike(asked, topic) for asked in self._asked):
                self._pointer = Pointer(topic, owner, posixpath.join(posixpath.dirname(path), lines[owner]))
                break

    def search(self, folder: str) -> Search:
        # where another file says which one answers, that is the only way to know
        told, inside = self._pointer, self._is_folder
        found = next(
            (
                path
                for path in self._opened
                if (path == told.path if told else path in self._answers)
                and (told or posixpath.join(posixpath.dirname(path), INDEX) not in inside)
            ),
            None,
        )
        plan = self._plan(folder, found)
        return Search(self._question, folder, tuple(self._opened), self.content, found, plan, told)

    def _plan(self, folder: str, found: str | None) -> Plan:
        if found is not None:
            return Plan(next_command(folder, found, opened=True))
        if self._pointer is not None:
            return Plan(next_command(folder, self._pointer.path))
        places = [path for path in self._is_folder if path not in self._listed and path not in self._opened]
        if not places:  # all was opened: the name that says most
            best = max(self._opened, key=self._clues, default="")
            return Plan(next_command(folder, best, opened=True) if best else "")

        def order(path: str) -> tuple[int, int, bool, int]:
            """What most speaks for, then what is near, folders before files, then any."""
            here, there = folder.split("/") if folder else [], path.split("/")[:-1]
            way = len(here) + len(there) - 2 * len(posixpath.commonprefix([here, there]))
            return -self._clues(path), way, not self._is_folder[path], derive_seed(self._seed, path)

        best = min(places, key=order)
        command = next_command(folder, f"{best}/." if self._is_folder[best] else best)
        others = sum(
            posixpath.dirname(path) == folder and self._is_folder[path] == command.startswith("cd ")
            for path in places
            if path != best
        )
        return Plan(command, self._clue(unwrap(command.partition(" ")[2])), others)

    def _clues(self, path: str) -> int:
        """How much speaks for a path: its own name, and those of the folders that it lies in."""
        return sum(self._clue(name).words for name in path.split("/"))

    def _clue(self, name: str) -> Clue:
        if name == INDEX:
            return Clue(1)
        spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name.rpartition(".")[0] or name)
        words = re.findall(r"[a-z]{2,}|\d+", spaced.lower())
        usual = [word for one in words for word in _TEXTS["kept_in"].get(one, "").split()]
        shared = [asked for asked in self._asked if any(alike(asked, word) for word in words)]
        meant = [asked for asked in self._asked if any(alike(asked, word) for word in usual)]
        return Clue(len({*shared, *meant}), shared[0] if shared else "")


def alike(one: str, other: str) -> bool:
    """Whether two words are forms of one: five letters in common and at most four more, or one begins the other."""
    common = len(posixpath.commonprefix([one, other]))
    shorter, longer = sorted((len(one) - common, len(other) - common))
    if common >= 5:
        return longer <= 4
    return longer == 0 or (shorter == 0 and common >= 3 and longer < 4)


_WORD: Final = re.compile(r"[a-z]{3,}|\d[\d.]*\d|\d")
_COMMON: Final = frozenset(
    _WORD.findall(
        "about and any are can change code data did does file files find for from get has have how into know "
        "listed many need not number our row rows say script service should show that the there this use "
        "used user users want was what when where which who why with written would you"
    )
)


def thought(search: Search, draws: Random) -> str:
    return _pointed(search, draws) or f"{_so_far(search, draws)} {_next(search, draws)}"


def second_thought(search: Search, draws: Random) -> str:
    """The text after a wrong file was opened: why it is wrong, and how to continue."""
    if pointed := _pointed(search, draws):
        return pointed
    name = posixpath.basename(search.opened[-1]) if search.opened else "this file"
    subject, there = _subject(search.question, draws), _in_order(search.content)
    asked = _in_order(search.question) if there else []
    missing = next((word for word in asked if not any(alike(word, other) for other in there)), "")
    kinds = ("wrong", "missing") if missing else ("wrong",)  # a word that the content has not, in no form
    sentence = draws.choice([sentence for kind in kinds for sentence in _TEXTS["so_far"][kind]])
    said = sentence.format(name=name, subject=subject, missing=missing)
    return f"{said} {_next(search, draws)}"


def _so_far(search: Search, draws: Random) -> str:
    subject = _subject(search.question, draws)
    if search.found is not None:
        name = posixpath.basename(search.found)
        if search.pointer is not None:
            return f"{INDEX} led to {name}."
        return _say("so_far", "found", draws, name=name, subject=subject)
    if search.opened and search.content:
        return f"{posixpath.basename(search.opened[-1])} does not answer the question."
    where = f"{search.folder}/" if search.folder else "the root folder"
    kind = "nothing_found" if search.opened else "nothing_opened"
    return _say("so_far", kind, draws, where=where, subject=subject)


def _pointed(search: Search, draws: Random) -> str:
    """The thought behind a file that says where things are, and behind the one that it named; else ""."""
    if search.pointer is None or not search.content:
        return ""
    topic, owner, path = search.pointer
    name, hands_in = posixpath.basename(path), search.plan.command.startswith("id ")
    verb = draws.choice(("Now identify", "Identify", "I hand in") if hands_in else ("Open", "Next look into"))
    if search.opened[-1].endswith(INDEX):
        return f"{verb} what it says for {topic}: {owner}: {name}."
    return f"{verb} what was shown, as {INDEX} says: cat {name}." if search.opened[-1] == path else ""


def _next(search: Search, draws: Random) -> str:
    """The plan, with what speaks for it; where nothing does, that it is a try."""
    word, _, rest = search.plan.command.partition(" ")
    if word == "id":
        if search.found is None:
            return f"Nothing is left to open. {rest} is the best guess."
        return _say("next", "id", draws, name=rest)
    if rest == "..":
        return _say("next", "up", draws, where=f"{search.folder}/")
    why = _why(search, draws)
    return _say("next", "cd" if word == "cd" else "cat", draws, name=rest, why=why)


def _why(search: Search, draws: Random) -> str:
    command, clue, others = search.plan
    if search.pointer is not None:
        return f"as {INDEX} says"
    if clue.shared:
        return f"its name speaks of {clue.shared}"
    if command.endswith(INDEX):
        return _say("why", "index", draws)
    if clue.words:
        return _say("why", "usual_folder" if command.startswith("cd ") else "usual_file", draws)
    return _say("why", "try" if others else "last", draws)


def _say(part: str, kind: str, draws: Random, **values: str) -> str:
    sentence: str = draws.choice(_TEXTS[part][kind])
    return sentence.format(**values)


def _subject(question: str, draws: Random) -> str:
    words = _in_order(question)
    if not words:
        return "what is asked"
    start = draws.randrange(max(1, len(words) - 1))
    return " ".join(words[start : start + 2])


def _in_order(text: str) -> list[str]:
    return [word for word in dict.fromkeys(_WORD.findall(text.lower())) if word not in _COMMON]
