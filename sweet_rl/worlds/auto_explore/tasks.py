"""Tasks of AutoExplore: published records of questions about files, and the embedded ones; and who plays
without a model.

Published behaviour: docs/published/reflect_rl.md#data-of-autoexplore, #file-formats, #deviations,
#autoexplore, #curriculum.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from itertools import chain, zip_longest
from pathlib import Path
from random import Random
from typing import Final

from sweet_rl.chat.reflect_format import offered_commands
from sweet_rl.cli.stage import written_by
from sweet_rl.errors import DataError, UsageError
from sweet_rl.policies.scripted import ScriptedPolicy
from sweet_rl.reflect_data.texts import read_list
from sweet_rl.tracking import is_record
from sweet_rl.types import Compat, Json, Observation, Task, derive_seed
from sweet_rl.worlds.auto_explore.options import ACTION_HEAD, STAGES, Levels
from sweet_rl.worlds.auto_explore.repositories import is_allowed, next_command, unwrap

Record = dict[str, Json]

TRAIN_REPOSITORIES: Final = 40
TEST_REPOSITORIES: Final = 10
"""Embedded repositories; those held out are other ones, not other questions."""


def explore_tasks(where: str = "") -> list[Record]:
    """Rows of a task source; of embedded ones the first question of every repository, then the second, and so
    on."""
    variant, _, split = where.rpartition(":")
    cut = {"": (0, None), "train": (0, TRAIN_REPOSITORIES), "test": (TRAIN_REPOSITORIES, None)}.get(split)
    if cut is None or (variant and not variant.startswith("hops=")):
        rows = task_rows(load_dataset(where))
        if not rows:
            raise UsageError(f"{where!r} holds no task that can be played: none has a question and a file.")
        return rows
    if variant not in {"", "hops=1", "hops=2"}:
        raise UsageError(f"{where!r}: hops must be 1 or 2. Write 'hops=2:train', say.")
    made = import_module("sweet_rl.mini.repositories")
    names = made.repository_names(
        TRAIN_REPOSITORIES + TEST_REPOSITORIES, hops=2 if variant[-1:] == "2" else 1
    )
    repositories = [made.make_repository(name).rows() for name in names[slice(*cut)]]
    return [
        _row(f"auto_explore/{row['root']}/{place}", row, targets_of(row))
        for place, rows in enumerate(zip_longest(*repositories))
        for row in rows
        if row is not None
    ]


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
        up = compat == "fixed" and (verb, name) == ("cd", "..")
        if verb in {"cd", "cat"} and name.startswith(".") and not up:
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


def _row(task_id: str, record: Record, targets: list[str]) -> Record:
    more = {name: value for name, value in record.items() if name not in {"question", "trajectories"}}
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
    records = read_list(file)

    def strings(value: Json) -> bool:
        return isinstance(value, list) and all(isinstance(one, str) for one in value)

    def played(value: Json) -> bool:
        return isinstance(value, list) and all(
            isinstance(one, dict) and isinstance(one.get("filename"), str | None) for one in value
        )

    for number, record in enumerate(records):
        for name, good, what in (
            *((name, isinstance(record.get(name), str), "a string") for name in ("filename", "root")),
            ("optimal_path", strings(record.get("optimal_path")), "a list of commands"),
            *((name, strings(record.get(name, [])), "a list of paths") for name in ("targets", "clues")),
            (
                "trajectories",
                played(record.get("trajectories") or []),
                "a list of objects, each with a 'filename'",
            ),
        ):
            if not good:
                field = f"[{number}].{name}"
                raise DataError(
                    f"must be {what}", path=file, field=field, value=record.get(name),
                    repair="gen_task and make_repositories write such records.",
                )  # fmt: skip
    return records


def levels_of(
    tasks: Iterable[Task], flags: Levels, *, easy: bool = False, compat: Compat = "fixed"
) -> list[list[Task]]:
    """Tasks as they are learned: one level, or levels by the depth of their shallowest files; as published,
    of each of their files. `easy`: tasks without a question stay."""
    asked = [task for task in tasks if easy or task.problem_description.strip()]
    if not flags.depth_curriculum:
        return [asked]
    filed: dict[int, list[Task]] = {}
    for task in asked:
        depths = [str(path).count("/") for path in task.extra["targets"]]
        for depth in depths if compat == "published" else [min(depths, default=0)]:
            filed.setdefault(depth, []).append(task)
    levels = [filed[depth] for depth in sorted(filed)]
    if flags.merge_first_two and len(levels) > 1:
        levels[:2] = [levels[0] + levels[1]]
    first, rest = levels[: flags.merge_after_first_k], levels[flags.merge_after_first_k :]
    return [*first, *([list(chain(*rest))] if rest else [])]


class PlanningExplorer(ScriptedPolicy):
    """Is given the file of every task, goes there, opens it and hands it in: the ceiling."""

    name = "planner"

    def __init__(self, targets: Mapping[str, str], *, system_prompt: str = "") -> None:
        super().__init__(system_prompt)
        self._targets = targets

    def _say(self, observation: Observation) -> str:
        target = self._targets.get(observation.task_id)
        if target is None:
            raise UsageError(
                f"The planner was given no file for the task {observation.task_id!r}; give it those of "
                "exactly the tasks that are played."
            )
        text = observation.messages[-1].content
        where = re.search(r"\n\n# Current working directory\n(.*)\n\n# Files under", text)
        folder, offered = where[1].rstrip("/") if where else "", offered_commands(text, ACTION_HEAD)
        labels = {command: label for label, command in offered.items()}
        command = next_command(folder, target)
        if command.startswith("cat ") and command not in labels:  # no file is opened twice
            command = next_command(folder, target, opened=True)
        return labels.get(command, command)


class Wanderer(ScriptedPolicy):
    """Any of the commands on offer, each as likely; the same episode seed draws the same ones: the floor."""

    name = "wanderer"

    def _say(self, observation: Observation) -> str:
        labels = list(offered_commands(observation.messages[-1].content, ACTION_HEAD)) or ["0"]
        return Random(derive_seed(observation.seed, observation.turn, "wanderer")).choice(labels)
