"""Cleans task records: no unanswerable ones, no duplicates.

Published behaviour: docs/published/reflect_rl.md#data-of-autoexplore, #deviations.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Final

from sweet_rl.types import Compat, Json
from sweet_rl.worlds.auto_explore.commands import split_command, unwrap, wrap
from sweet_rl.worlds.auto_explore.tasks import why_unplayable

_LEFTOVERS: Final = (
    "copilot_cmds",
    "reasons",
    "reason",
    "commands_reason",
    "commands_copilot_cmds",
    "commands",
)
"""Fields of older files that nothing reads."""


@dataclass(slots=True)
class Cleaned:
    """The tasks that stay, and how many went, by reason."""

    tasks: list[dict[str, Json]] = field(default_factory=list)
    dropped: Counter[str] = field(default_factory=Counter)


def clean_tasks(
    tasks: Iterable[Mapping[str, Json]], repositories: Path, *, compat: Compat = "fixed"
) -> Cleaned:
    """Drop what cannot be asked, bring the paths into the form that is played, and join duplicates.

    A later task with the repository, file and question of an earlier one only adds its trajectories to it.
    Where one question was asked about several files of a repository, all of them are right: each task then
    lists them in `targets`.
    """
    cleaned = Cleaned()
    first: dict[tuple[str, str, str], dict[str, Json]] = {}
    for given in tasks:
        reason = why_dropped(given, repositories, compat=compat)
        if reason:
            cleaned.dropped[reason] += 1
            continue
        task = {name: value for name, value in given.items() if name not in _LEFTOVERS}
        task["optimal_path"] = played_path(task["optimal_path"], compat=compat)
        key = (str(task["root"]), str(task["filename"]), str(task["question"]))
        if key in first:
            cleaned.dropped["twice"] += 1
            _add_trajectories(first[key], task.get("trajectories") or [])
            continue
        first[key] = task
        cleaned.tasks.append(task)
    if compat == "fixed":
        _list_targets(cleaned.tasks)
    return cleaned


def _list_targets(tasks: Sequence[dict[str, Json]]) -> None:
    files: dict[tuple[str, str], list[str]] = {}
    for task in tasks:
        files.setdefault(_asked(task), []).append(task["filename"])
    for task in tasks:
        if len(files[_asked(task)]) > 1:
            task["targets"] = files[_asked(task)]


def _asked(task: Mapping[str, Json]) -> tuple[str, str]:
    """The question of a task, however it is spelled."""
    return str(task["root"]), " ".join(str(task["question"]).casefold().split())


def why_dropped(task: Mapping[str, Json], repositories: Path, *, compat: Compat = "fixed") -> str:
    """The reason why a task cannot stay, in a word or two; "" when it can."""
    if not str(task.get("question") or "").strip():
        return "no question"
    root, name, path = task.get("root"), task.get("filename"), task.get("optimal_path")
    if not isinstance(root, str) or not isinstance(name, str) or not isinstance(path, list):
        return "not a task"
    if not _inside(root) or not (repositories / root).is_dir():
        return "no such repository"
    if not _inside(name) or not (repositories / root / name).is_file():
        return "no such file"
    return why_unplayable([str(command) for command in path], compat=compat)


def played_path(commands: Iterable[str], *, compat: Compat = "fixed") -> list[str]:
    """Commands as they are offered: no `ls`, names quoted where that is needed, `id` behind a last `cat`."""
    path = []
    for command in commands:
        word, target = _command(command)
        if word != "ls":
            path.append(f"{word} {wrap(target, compat=compat)}" if target else word)
    if path and path[-1].startswith("cat "):
        path.append(f"id {path[-1].removeprefix('cat ')}")
    return path


def _command(line: Any) -> tuple[str, str]:
    """A command's word and its file name, without quotes; a name with blanks may stand there bare."""
    word, _, rest = str(line).strip().partition(" ")
    words = [part for part in split_command(rest) if part is not None]
    return word, unwrap(words[0]) if len(words) == 1 else rest.strip()


def _inside(path: str) -> bool:
    """Whether a relative path stays below where it begins."""
    parts = PurePosixPath(path).parts
    return bool(parts) and not path.startswith("/") and ".." not in parts


def _add_trajectories(task: dict[str, Json], more: Iterable[Mapping[str, Json]]) -> None:
    """Append trajectories under the next free numbers of their kind."""
    there: list[Json] = list(task.get("trajectories") or [])
    for trajectory in more:
        kind = "positive" if str(trajectory.get("info", "")).startswith("positive") else "negative"
        number = sum(str(other.get("info", "")).startswith(kind) for other in there)
        there.append({**trajectory, "info": f"{kind}{number}"})
    if there:
        task["trajectories"] = there


SHARES: Final[dict[str, int]] = {"train": 7, "validate": 2, "test": 1}
"""File name to share, in tenths."""

Rows = list[Mapping[str, Json]]


def split_tasks(
    tasks: Sequence[Mapping[str, Json]], *, seed: int = 0, by_repo: bool = False, compat: Compat = "fixed"
) -> dict[str, Rows]:
    """Give every task with a question to one of the three parts; within a part the order stays."""
    asked = [task for task in tasks if str(task.get("question") or "").strip()]
    draws = random.Random(seed)
    if compat == "published":
        parts = [draws.choices(list(SHARES), list(SHARES.values()))[0] for _ in asked]
    elif by_repo:
        parts = _by_repository(asked, draws)
    else:
        parts = [part for part, size in _sizes(len(asked)).items() for _ in range(size)]
        draws.shuffle(parts)
    return {name: [task for task, part in zip(asked, parts, strict=True) if part == name] for name in SHARES}


def _sizes(total: int) -> dict[str, int]:
    """Whole numbers next to the shares that add up to `total`; the largest remainders get what is left."""
    sizes = {name: tenths * total // 10 for name, tenths in SHARES.items()}
    remainders = sorted(SHARES, key=lambda name: -(SHARES[name] * total % 10))
    for name in remainders[: total - sum(sizes.values())]:
        sizes[name] += 1
    return sizes


def _by_repository(tasks: Sequence[Mapping[str, Json]], draws: random.Random) -> list[str]:
    counts: dict[str, int] = {}
    for task in tasks:
        counts[str(task["root"])] = counts.get(str(task["root"]), 0) + 1
    names = sorted(counts)
    draws.shuffle(names)  # equally large ones come in any order
    missing = _sizes(len(tasks))
    part: dict[str, str] = {}
    for i, name in enumerate(sorted(names, key=lambda name: -counts[name])):
        empty = [part_name for part_name in SHARES if part_name not in part.values()]
        open_parts = empty if len(names) - i <= len(empty) else list(SHARES)
        part[name] = max(open_parts, key=missing.__getitem__)
        missing[part[name]] -= counts[name]
    return [part[str(task["root"])] for task in tasks]
