"""Tasks of AutoExplore: published records of questions about files, and the embedded ones.

A record holds `question`, `answer`, `optimal_path`, `filename`, `root`, `n_level`, `model`, where other files say
where the answer is, their paths as `clues`, and, once there are examples of finding the file, `trajectories`.

Published behaviour: docs/published/reflect_rl.md#data-of-autoexplore, #file-formats, #deviations,
#autoexplore.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from sweet_rl.command_line.listing import written_by
from sweet_rl.errors import DataError, UsageError
from sweet_rl.tracking import is_record
from sweet_rl.types import Compat, Json
from sweet_rl.worlds.auto_explore import STAGES
from sweet_rl.worlds.auto_explore.repositories import is_allowed
from sweet_rl.worlds.auto_explore.repositories.made import make_repository, repository_names
from sweet_rl.worlds.auto_explore.repositories.quoting import unwrap

Record = dict[str, Json]

TRAIN_REPOSITORIES: Final = 40
TEST_REPOSITORIES: Final = 10
"""Embedded repositories; those held out are other ones, not other questions."""

_HOPS: Final = {"": 1, "hops=1": 1, "hops=2": 2}
"""Hops to an answer, by what stands before a split."""

_NOT_IN_ROWS: Final = frozenset(("question", "trajectories"))
_NEEDED: Final = {"filename": str, "root": str, "optimal_path": list}


def explore_tasks(where: str = "") -> list[Record]:
    """Rows of a task source, as `sweet_rl.records.task_from_row` reads them."""
    variant, _, split = where.rpartition(":")
    if split in {"", "train", "test"} and variant in _HOPS:
        return _embedded_rows(split, _HOPS[variant])
    if variant.startswith("hops=") and split in {"", "train", "test"}:
        raise UsageError(f"{where!r}: hops must be 1 or 2. Write 'hops=2:train', say.")
    rows = task_rows(load_dataset(where))
    if not rows:
        raise UsageError(f"{where!r} holds no task that can be played: none has a question and a file.")
    return rows


def load_dataset(path: str | Path, *, compat: Compat = "fixed") -> list[Record]:
    """Records that can be played: files of the allowed kinds, and nothing hidden on the way."""
    path = Path(path).expanduser()
    files = [path]
    if path.is_dir():
        files = [one for one in sorted(path.glob("*.json")) if not is_record(one)]
    if not files or not all(file.is_file() for file in files):
        raise UsageError(
            f"There are no task records at {str(path)!r}.{written_by(path, STAGES)} Name a .json file with a "
            "list of records, a folder of such files, or 'auto-explore:train' for embedded tasks."
        )
    records = [record for file in files for record in _read(file)]
    return [record for record in records if not why_unplayable(record["optimal_path"], compat=compat)]


def why_unplayable(optimal_path: Sequence[str], *, compat: Compat = "fixed") -> str:
    """Why the game would not offer a command of a path, in a word or two; "" where it would."""
    for command in optimal_path:
        verb, _, written = command.strip().partition(" ")
        name = written if compat == "published" else unwrap(written.strip())
        if (
            verb in {"cd", "cat"}
            and name.startswith(".")
            and (compat == "published" or verb != "cd" or name != "..")
        ):
            return "hidden target"
        if verb == "cat" and not is_allowed(name):
            return "target cannot be opened"
    return ""


def targets_of(record: Mapping[str, Json], *, compat: Compat = "fixed") -> list[str]:
    """The files that count as right: the one asked for, and what successful players handed in."""
    found = [
        trajectory["filename"]
        for trajectory in record.get("trajectories") or ()
        if trajectory.get("filename")
        and (compat == "published" or str(trajectory.get("info", "")).startswith("positive"))
    ]
    if compat == "published" and not found:
        return []
    also = [] if compat == "published" else record.get("targets") or []
    return list(dict.fromkeys([record["filename"], *also, *found]))


def task_rows(records: Sequence[Record], *, easy: bool = False, compat: Compat = "fixed") -> list[Record]:
    """Records as tasks: `task_id` is "auto_explore/0" and so on, the place in the list."""
    rows = []
    for number, record in enumerate(records):
        targets = targets_of(record, compat=compat)
        if targets and (easy or str(record.get("question") or "").strip()):
            rows.append(_row(f"auto_explore/{number}", record, targets))
    return rows


def _embedded_rows(split: str, hops: int) -> list[Record]:
    names = repository_names(TRAIN_REPOSITORIES + TEST_REPOSITORIES, hops=hops)
    cut = {"": (0, None), "train": (0, TRAIN_REPOSITORIES), "test": (TRAIN_REPOSITORIES, None)}[split]
    repositories = [make_repository(name).rows() for name in names[slice(*cut)]]
    longest = max(map(len, repositories))
    return [
        _row(f"auto_explore/{rows[place]['root']}/{place}", rows[place], targets_of(rows[place]))
        for place in range(longest)
        for rows in repositories
        if place < len(rows)
    ]


def _row(task_id: str, record: Record, targets: list[str]) -> Record:
    more = {name: value for name, value in record.items() if name not in _NOT_IN_ROWS}
    answer = f" It says: {record['answer']}" if record.get("answer") else ""
    return {
        "task_id": task_id,
        "problem_description": str(record.get("question") or ""),
        "ground_truth": targets[0],
        "hidden_information": f"The file is {' or '.join(targets)}.{answer}",
        **more,
        "targets": targets,
    }


def _read(file: Path) -> list[Record]:
    """The records of one file, checked."""
    try:
        records = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"is no JSON file that can be read ({error})", path=file) from error
    if not isinstance(records, list):
        raise DataError("must be a list of task records", path=file, value=records)
    for number, record in enumerate(records):
        if not isinstance(record, dict):
            raise DataError("must be an object", path=file, field=f"[{number}]", value=record)
        for name, kind in _NEEDED.items():
            if not isinstance(record.get(name), kind):
                what = "a string" if kind is str else "a list of commands"
                repair = "It is written by gen_task and by make_repositories."
                raise DataError(
                    f"must be {what}",
                    path=file,
                    field=f"[{number}].{name}",
                    value=record.get(name),
                    repair=repair,
                )
        if not all(isinstance(command, str) for command in record["optimal_path"]):
            raise DataError(
                "must be a list of strings",
                path=file,
                field=f"[{number}].optimal_path",
                value=record["optimal_path"],
            )
        for name in ("targets", "clues"):
            paths = record.get(name, [])
            if not isinstance(paths, list) or not all(isinstance(path, str) for path in paths):
                raise DataError("must be a list of paths", path=file, field=f"[{number}].{name}", value=paths)
        played = record.get("trajectories") or []
        if not isinstance(played, list) or not all(map(_is_trajectory, played)):
            raise DataError(
                "must be a list of objects with a 'filename' that is a path or null",
                path=file,
                field=f"[{number}].trajectories",
                value=played,
            )
    return records


def _is_trajectory(value: Json) -> bool:
    return isinstance(value, dict) and isinstance(value.get("filename"), str | None)
