"""Tasks of AutoExplore, made: repositories without what is not fit to be explored, a teacher's questions about their files,
these without unanswerable ones and duplicates, divided into parts.

Published behaviour: docs/published/reflect_rl.md#data-of-autoexplore, #deviations.
"""

from __future__ import annotations

import codecs
import random
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from itertools import accumulate, takewhile
from pathlib import Path, PurePosixPath
from typing import Any, Final, NamedTuple

from sweet_rl import tracking
from sweet_rl.errors import StorageError, UsageError
from sweet_rl.openai_client import RequestFailed
from sweet_rl.prompts import fill, load_prompt, packaged_text
from sweet_rl.reflect_data.jobs import Done, Job
from sweet_rl.reflect_data.teachers import Asked, Teacher
from sweet_rl.reflect_data.texts import write_list
from sweet_rl.types import Compat, Failure, Json, Message, derive_seed
from sweet_rl.worlds.auto_explore.repositories import (
    is_allowed,
    kind_of,
    optimal_path,
    read_file,
    scan,
    split_command,
    unwrap,
    wrap,
)
from sweet_rl.worlds.auto_explore.tasks import why_unplayable

_WORDS: Final = ("LICENSE", "Makefile", "conf.py", "artwork", "requirements", "tests", "examples")
"""A name that holds one of them, at any place, is left out. The published list has "ci" as well."""


def to_copy(source: Path, target: Path) -> list[Path]:
    """The folders of `source` that are repositories: no links, nothing hidden."""
    if not source.is_dir():
        raise UsageError(f"There is no folder {str(source)!r}. --repo_dir names a folder of repositories.")
    found = [
        one
        for one in sorted(source.iterdir())
        if one.is_dir() and not one.is_symlink() and one.name[0] != "."
    ]
    for entry in found:
        if target.resolve().is_relative_to(entry.resolve()):
            raise UsageError(f"The copies would go into {str(entry)!r}, which is being copied.")
    return found


def filter_repositories(
    source: Path, target: Path, *, compat: Compat = "fixed"
) -> tuple[int, int, Counter[str]]:
    """Copy the suitable files of every sub-folder; how many repositories and files, and how many entries were
    left out, by reason. Links and special files are never followed; there is no recursion: a tree may be
    deeper than Python's stack."""
    repositories = to_copy(source, target)
    tracking.writes(target)  # beside it: a file in there could be taken for a repository
    files, left_out = 0, Counter[str]()
    waiting = [(entry, target / entry.name) for entry in repositories]
    while waiting:
        folder, copy = waiting.pop()
        try:
            copy.mkdir(parents=True, exist_ok=True)
            for here in sorted(folder.iterdir()):
                there = copy / here.name
                if reason := why_left_out(here, compat=compat):
                    left_out[reason] += 1
                elif here.is_dir():
                    waiting.append((here, there))
                else:
                    shutil.copyfile(here, there, follow_symlinks=False)
                    files += 1
        except OSError as error:
            raise StorageError(f"Cannot copy {str(folder)!r} to {str(copy)!r}: {error.strerror}.") from error
    return len(repositories), files, left_out


def why_left_out(path: Path, *, compat: Compat = "fixed") -> str:
    """Why an entry is not copied, "" when it is. A folder with a dot in its name never is: it is no readable
    text."""
    name = path.name
    if name.startswith((".", "_")):
        return "hidden"
    has_ci = "ci" in name if compat == "published" else re.search(r"(?<![A-Za-z0-9])ci(?![A-Za-z0-9])", name)
    if has_ci or any(word in name for word in _WORDS):
        return "name"
    if not name.isascii():
        return "name not ASCII"
    if compat == "fixed" and not name.isprintable():
        return "control character in name"
    if path.is_symlink() or not (path.is_dir() or path.is_file()):
        return "link or special file"
    if "." not in name:
        return ""
    if not is_allowed(name):
        return "suffix"
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return "not UTF-8 text"
    if len(text) < 10:
        return "too short"
    return "" if len(text.encode("ascii", "ignore")) >= 0.9 * len(text) else "mostly not ASCII"


MAX_TOKENS: Final = 2000
"""What a teacher is shown of a file."""

MAX_BYTES: Final = 1 << 22
"""What is read of a file; questions are about a part of it anyway."""

ALL_QUESTIONS: Final = "data.json"
"""The file with those of all repositories."""

_NOT_ASKED_ABOUT: Final = tuple(map(re.compile, (r".*out.*", r".*\.git.*", r".*test.*", r"__init__.py")))


class SourceFile(NamedTuple):
    """A file that questions are asked about: `path` is relative to the repository, in POSIX form."""

    repository: str
    path: str


def plan_questions(source: Path, *, seed: int = 1, compat: Compat = "fixed") -> dict[str, SourceFile]:
    """The files that are asked about, by a name for each: of each repository, in a drawn order, at most 100 that may
    be opened, none deeper than two folders."""
    if not source.is_dir():
        raise UsageError(f"There is no folder {str(source)!r}; filter_repo makes one.")
    names = sorted(entry.name for entry in source.iterdir() if entry.is_dir() and entry.name[0] != ".")
    random.Random(seed).shuffle(names)
    planned: dict[str, SourceFile] = {}
    for name in names:
        repository, draws, asked = scan(source / name), random.Random(derive_seed(seed, name)), Counter[str]()
        above = f"{repository.root}/" if compat == "published" else ""  # there patterns see the whole path
        files = [
            path
            for path in repository.files()
            if is_allowed(path) and not any(pattern.match(above + path) for pattern in _NOT_ASKED_ABOUT)
        ]
        count = min(100, len(files))
        drawn = (
            draws.choices(files, k=count) if compat == "published" and files else draws.sample(files, count)
        )
        for path in drawn:
            if path.count("/") <= 2:
                repeat = f"#{asked[path]}" if asked[path] else ""  # as published a file can be drawn again
                planned[f"{name}/{path}{repeat}"] = SourceFile(name, path)
                asked[path] += 1
    return planned


def block_of(
    text: str,
    draws: random.Random,
    count_tokens: Callable[[str], int],
    *,
    max_tokens: int = MAX_TOKENS,
    compat: Compat = "fixed",
) -> str:
    """The part of a file that a teacher is shown, "" of one that is too short: all of it, or a random run of
    lines that never begins so late that fewer than `max_tokens` are left."""
    total = count_tokens(text)
    if total < 50:
        return ""
    lines = text.splitlines(keepends=True)
    if total > max_tokens:
        tokens = [count_tokens(line) for line in lines]
        last, left = len(lines), 0
        while last > 0 and left < max_tokens:
            last -= 1
            left += tokens[last]
        start = draws.randint(0, last)
        taken = takewhile(lambda sum_: sum_ <= max_tokens, accumulate(tokens[start:]))
        lines = lines[start : start + len(list(taken))]
    return ("\n" if compat == "published" else "").join(lines)


async def ask_about(
    job: Job[SourceFile],
    teacher: Teacher,
    *,
    source: Path,
    count_tokens: Callable[[str], int],
    seed: int = 1,
    compat: Compat = "fixed",
) -> Done:
    """Let the teacher ask about one file: task records, none for a short file; a reply without a pair is a
    failure."""
    repository, path = job.item
    try:
        data, whole = read_file(source / repository, path, MAX_BYTES)
        text = codecs.getincrementaldecoder("utf-8")().decode(data, final=whole)
    except (OSError, UnicodeDecodeError) as error:
        return Done(None, (Failure("unreadable_file", str(error)),))
    block = block_of(text, random.Random(derive_seed(seed, job.key)), count_tokens, compat=compat)
    if not block:
        return Done([])
    kind = kind_of(path) if kind_of(path) in {"text", "data"} else "code"
    if kind == "data":
        block = "".join(block.splitlines(keepends=True)[:20])

    def known(draws: random.Random) -> str:
        ask = import_module("sweet_rl.mini.repository_teacher").known_questions
        return str(ask(repository, path, text, draws))

    user = fill(load_prompt(f"gen_task_{kind}"), NAME=path, CONTENT=block)
    messages = [Message("system", packaged_text("gen_task_system")), Message("user", user)]
    try:
        reply = await teacher.say(Asked(messages, known, derive_seed(seed, job.key, job.attempt)))
    except RequestFailed as error:
        return Done(None, (error.failure,))
    pairs = extract_questions(reply, compat=compat)
    if not pairs and teacher.name != "embedded":
        return Done(None, (Failure("malformed_reply", reply),))
    more: Json = {"optimal_path": optimal_path(path, compat=compat), "filename": path, "root": repository}
    more |= {"n_level": path.count("/"), "model": teacher.name}
    return Done([{"question": question, "answer": answer, **more} for question, answer in pairs])


def extract_questions(text: str, *, compat: Compat = "fixed") -> list[tuple[str, str]]:
    """The questions and answers of a reply: of lines whose first 10 characters hold QUERY or ANSWER, without
    their numbers."""

    def behind(line: str, word: str) -> str:
        rest = line.partition(word)[2]
        number = None if compat == "published" else re.match(r"\s*+\d*+\s*+:", rest)
        return (rest[number.end() :] if number else rest.lstrip("0123456789: ")).strip()

    found: list[tuple[str, str]] = []
    query = ""
    for line in text.splitlines():
        if "QUERY" in line[:10]:
            query = behind(line, "QUERY")
        elif "ANSWER" in line[:10] and query:
            found.append((query, behind(line, "ANSWER")))
    return found


def write_questions(
    folder: Path, planned: Mapping[str, SourceFile], results: Mapping[str, Sequence[Json]]
) -> int:
    """Write the tasks of each repository, and all of them to `ALL_QUESTIONS`; returns their number."""
    by_repository: dict[str, list[Json]] = {}
    for key, file in planned.items():
        by_repository.setdefault(file.repository, []).extend(results.get(key, ()))
    for name, tasks in by_repository.items():
        if (own := f"{name}.json") != ALL_QUESTIONS:
            write_list(folder / own, tasks)
    every = [task for name in sorted(by_repository) for task in by_repository[name]]
    write_list(folder / ALL_QUESTIONS, every)
    return len(every)


_LEFTOVERS: Final = frozenset(
    ["copilot_cmds", "reasons", "reason", "commands_reason", "commands_copilot_cmds", "commands"]
)
"""Fields of older files that nothing reads."""


def clean_tasks(
    tasks: Iterable[Mapping[str, Json]], repositories: Path, *, compat: Compat = "fixed"
) -> tuple[list[dict[str, Json]], Counter[str]]:
    """Drop what cannot be asked, bring paths into the form that is played, join duplicates; the tasks that
    stay, and how many went, by reason. Where one question was asked about several files of a repository,
    all are right: each task then lists them in `targets`."""
    dropped = Counter[str]()
    first: dict[tuple[str, str, str], dict[str, Json]] = {}
    same: dict[tuple[str, str], list[dict[str, Json]]] = {}
    for given in tasks:
        if reason := why_dropped(given, repositories, compat=compat):
            dropped[reason] += 1
            continue
        task = {name: value for name, value in given.items() if name not in _LEFTOVERS}
        task["optimal_path"] = played_path(task["optimal_path"], compat=compat)
        root, question = str(task["root"]), str(task["question"])
        kept = first.setdefault((root, str(task["filename"]), question), task)
        if kept is task:
            same.setdefault((root, " ".join(question.casefold().split())), []).append(task)
            continue
        dropped["twice"] += 1
        there = kept.setdefault("trajectories", [])
        for trajectory in task.get("trajectories") or []:  # under the next free numbers of their kind
            kind = "positive" if str(trajectory.get("info", "")).startswith("positive") else "negative"
            number = sum(str(other.get("info", "")).startswith(kind) for other in there)
            there.append({**trajectory, "info": f"{kind}{number}"})
        if not there:
            del kept["trajectories"]
    for alike in same.values() if compat == "fixed" else ():
        for task in alike if len(alike) > 1 else ():
            task["targets"] = [one["filename"] for one in alike]
    return list(first.values()), dropped


def why_dropped(task: Mapping[str, Json], repositories: Path, *, compat: Compat = "fixed") -> str:
    """The reason why a task cannot stay, in a word or two; "" when it can."""

    def inside(path: str) -> bool:
        """Whether a relative path stays below where it begins."""
        parts = PurePosixPath(path).parts
        return bool(parts) and not path.startswith("/") and ".." not in parts

    if not str(task.get("question") or "").strip():
        return "no question"
    root, name, path = task.get("root"), task.get("filename"), task.get("optimal_path")
    if not isinstance(root, str) or not isinstance(name, str) or not isinstance(path, list):
        return "not a task"
    if not inside(root) or not (repositories / root).is_dir():
        return "no such repository"
    if not inside(name) or not (repositories / root / name).is_file():
        return "no such file"
    return why_unplayable([str(command) for command in path], compat=compat)


def played_path(commands: Iterable[Any], *, compat: Compat = "fixed") -> list[str]:
    """Commands as they are offered: no `ls`, names quoted where that is needed, `id` behind a last `cat`."""
    path = []
    for command in commands:
        verb, _, rest = str(command).strip().partition(" ")
        words = split_command(rest)
        target = (
            unwrap(words[0] or "") if len(words) == 1 else rest.strip()
        )  # a name with blanks may stand there bare
        if verb != "ls":
            path.append(f"{verb} {wrap(target, compat=compat)}" if target else verb)
    if path and path[-1].startswith("cat "):
        path.append(f"id {path[-1].removeprefix('cat ')}")
    return path


SHARES: Final[dict[str, int]] = {"train": 7, "validate": 2, "test": 1}
"""File name to share, in tenths."""


def split_tasks(
    tasks: Sequence[Mapping[str, Json]], *, seed: int = 0, by_repo: bool = False, compat: Compat = "fixed"
) -> dict[str, list[Mapping[str, Json]]]:
    """Give every task with a question to one of the three parts; within a part the order stays."""
    asked = [task for task in tasks if str(task.get("question") or "").strip()]
    draws = random.Random(seed)
    whole = {name: divmod(tenths * len(asked), 10) for name, tenths in SHARES.items()}
    sizes = {name: size for name, (size, _) in whole.items()}
    for name in sorted(SHARES, key=lambda name: -whole[name][1])[: len(asked) - sum(sizes.values())]:
        sizes[name] += 1  # the largest remainders get what is left
    if compat == "published":
        parts = [draws.choices(list(SHARES), list(SHARES.values()))[0] for _ in asked]
    elif by_repo:
        counts = Counter(str(task["root"]) for task in asked)
        names = sorted(counts)
        draws.shuffle(names)  # equally large ones come in any order
        part: dict[str, str] = {}
        for place, name in enumerate(sorted(names, key=lambda name: -counts[name])):
            empty = [one for one in SHARES if one not in part.values()]
            open_parts = empty if len(names) - place <= len(empty) else list(SHARES)
            part[name] = max(open_parts, key=sizes.__getitem__)
            sizes[part[name]] -= counts[name]
        parts = [part[str(task["root"])] for task in asked]
    else:
        parts = [part for part, size in sizes.items() for _ in range(size)]
        draws.shuffle(parts)
    return {name: [task for task, part in zip(asked, parts, strict=True) if part == name] for name in SHARES}
