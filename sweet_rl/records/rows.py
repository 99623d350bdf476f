"""JSON objects to dataclasses and back, with errors that name file, line, field, value and repair; which rows are repeats of a task.

Published files and ours are read by the same functions: what a published row lacks (`task_id`,
`sample_index`, `stop_reason`, ...) is derived or left empty, what it has beyond that is carried along.

Published behaviour: docs/published/sweet_rl.md#files.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any, TypeAlias, TypeVar, cast

from sweet_rl.errors import DataError
from sweet_rl.types import AgentTurn, Failure, FinishReason, Json, Message, Role, StopReason, Task, Trajectory
from sweet_rl.types import digest as digest_of

E = TypeVar("E", bound=Enum)
Place: TypeAlias = str | Path | None

_TRAJECTORY_FIELDS = (
    "task", "dialogue_history", "answer", "reward", "task_id", "sample_index", "stop_reason", "error", "failures",
    "provenance",
)  # fmt: skip
_OF_TURNS = ("token_ids", "logprobs", "finish_reason", "reward", "reflection", "reflection_input", "thoughts")
"""What a row says of a turn where it is known, in this order."""
_KINDS: Any = {str: "a string", int: "an integer", dict: "an object", list: "a list"}
_UNKNOWN = "Leave it out where unknown."


@dataclass(frozen=True, slots=True)
class Reader:
    """One row with its place, handing out checked fields."""

    row: Mapping[str, Json]
    path: Place
    line: int | None
    prefix: str = ""

    def fail(self, field: str, problem: str, repair: str, value: Json = ...) -> DataError:
        """The error for `field` of this row; the caller raises it."""
        value = (
            self.row.get(field, f"nothing (the row has {', '.join(map(str, self.row))})")
            if value is ...
            else value
        )
        where: Any = {"path": self.path, "line": self.line, "field": self.prefix + field}
        return DataError(problem, **where, value=value, repair=repair)

    def get(self, field: str, kind: Any, repair: str = _UNKNOWN, *, or_: Any = ..., what: str = "") -> Any:
        """A field of `kind`; with `or_` it may be missing or null. `what` says the kind otherwise than `_KINDS`."""
        value = self.row.get(field)
        if value is None and or_ is not ...:
            return or_
        if not isinstance(value, kind) or isinstance(value, bool):
            raise self.fail(field, f"must be {what or _KINDS[kind]}", repair)
        return value

    def numbers(self, field: str, *kinds: type) -> tuple[Any, ...] | None:
        """A list of numbers of these kinds."""
        values = self.get(field, list, or_=None, what="a list of numbers")
        if values is None:
            return None
        if not all(isinstance(value, kinds) and not isinstance(value, bool) for value in values):
            raise self.fail(field, "must hold numbers only", _UNKNOWN)
        return tuple(values)

    def enum(self, field: str, kind: type[E]) -> E | None:
        """A member of `kind` by its value."""
        value = self.row.get(field)
        try:
            return None if value is None else kind(value)
        except ValueError:
            raise self.fail(field, f"must be one of {', '.join(map(str, kind))}", _UNKNOWN) from None

    def reward(self) -> float | None:
        """A finite reward."""
        value = self.row.get("reward")
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
            raise self.fail("reward", "must be a finite number", "Remove it where it is unknown.")
        return value

    def inner(self, value: Json, name: str, what: str, repair: str) -> Reader:
        """A reader of the object `value` at `name` in this row."""
        if not isinstance(value, dict):
            raise self.fail(name, f"must be {what}", repair, value)
        return Reader(value, self.path, self.line, f"{self.prefix}{name}.")

    def task_id(self, repair: str) -> str | None:
        """The name of a task, which may be missing; public data sets count with integers."""
        found = self.get("task_id", (str, int), repair, or_=None, what="a string or an integer")
        return None if found is None else str(found)


def task_from_row(row: Json, *, path: Place = None, line: int | None = None) -> Task:
    """Check and read one task object; DataError names the field that is missing or of the wrong type."""
    return _read_task(_reader(row, path, line))


def _read_task(reader: Reader) -> Task:
    description = reader.get("problem_description", str, "It is the request that the agent is shown.")
    ground_truth = reader.get("ground_truth", str, "It is the hidden solution: graders and critics read it.")
    example = 'For example {"test1": "add(1, 2)"}; leave it out where there are none.'
    tests = reader.get("test_cases", dict, example, or_={}, what="an object of name to Python expression")
    for name, expression in tests.items():
        if not isinstance(expression, str):
            repair = f'Write it as {{"{name}": "function(arguments)"}}.'
            problem = "must be a Python expression in a string"
            raise reader.fail(f"test_cases.{name}", problem, repair, expression)
    hidden = reader.get("hidden_information", str, "Leave it out to use ground_truth.", or_=ground_truth)
    task_id = reader.task_id("Leave it out to use a digest of the task.") or digest_of(reader.row)
    return Task(task_id, description, ground_truth, hidden, tests, reader.row)


def unique_tasks(tasks: Iterable[Task]) -> list[Task]:
    """The same tasks, the second and later copies of one renamed `id#2`, `id#3`: each has an identity."""
    seen: Counter[str] = Counter()
    result = []
    for task in tasks:
        seen[task.task_id] += 1
        count = seen[task.task_id]
        result.append(task if count == 1 else replace(task, task_id=f"{task.task_id}#{count}"))
    return result


def trajectory_from_row(row: Json, *, path: Place = None, line: int | None = None) -> Trajectory:
    """Check and read one trajectory object, ours or a published one; DataError names a field that is wrong.

    `sample_index` is 0 where the row has none; `trajectories_from_rows` counts it instead.
    """
    reader = _reader(row, path, line)
    carries = "A trajectory row carries its whole task."
    task = _read_task(reader.inner(reader.row.get("task"), "task", "the task object", carries))
    if task_id := reader.task_id("Leave it out to use the task's own."):
        task = replace(task, task_id=task_id)
    example = 'For example [{"role": "user", "content": "..."}].'
    history = reader.get("dialogue_history", list, example, what="a list of messages")
    counts, from_zero = "It counts the repeats of one task.", "an integer from 0"
    index = reader.get("sample_index", int, counts, or_=0, what=from_zero)
    if not 0 <= index < 2**63:
        raise reader.fail("sample_index", f"must be {from_zero}", counts)
    failures = reader.get("failures", list, "Leave it out where nothing failed.", or_=[])
    read = (_read_failure(reader, entry, f"failures[{place}]") for place, entry in enumerate(failures))
    handed_in = "It is the text that the agent handed in."
    return Trajectory(
        task=task,
        dialogue_history=tuple(
            _read_message(reader, entry, f"dialogue_history[{place}]") for place, entry in enumerate(history)
        ),
        answer=reader.get("answer", str, handed_in, or_=None, what="a string or null"),
        sample_index=index,
        stop_reason=reader.enum("stop_reason", StopReason),
        reward=reader.reward(),
        error=_read_failure(reader, reader.row.get("error"), "error"),
        failures=tuple(failure for failure in read if failure),
        provenance=reader.get("provenance", dict, or_={}),
        extra={key: value for key, value in reader.row.items() if key not in _TRAJECTORY_FIELDS},
    )


def message_from_row(row: Json, name: str = "message") -> Message:
    """Check and read one message as it stands in a `dialogue_history`; DataError names it by `name` and its field."""
    return _read_message(Reader({}, None, None), row, name)


def trajectories_from_rows(rows: Sequence[tuple[int, Json]], *, path: Place = None) -> list[Trajectory]:
    """Read numbered rows; those without `sample_index` get the count of earlier rows of the same task."""
    seen: Counter[str] = Counter()
    result = []
    for line, row in rows:
        trajectory = trajectory_from_row(row, path=path, line=line)
        task_id = trajectory.task.task_id
        if row.get("sample_index") is None:
            trajectory = replace(trajectory, sample_index=seen[task_id])
        seen[task_id] += 1
        result.append(trajectory)
    return result


def trajectory_to_row(trajectory: Trajectory) -> dict[str, Json]:
    """The published fields first, then ours; unknown ones are left out."""
    row: dict[str, Json] = {
        "task": dict(trajectory.task.row),
        "dialogue_history": [_message_to_row(message) for message in trajectory.dialogue_history],
        "answer": trajectory.answer,
    }
    if trajectory.reward is not None:
        row["reward"] = trajectory.reward
    row["task_id"] = trajectory.task.task_id
    row["sample_index"] = trajectory.sample_index
    if trajectory.stop_reason is not None:
        row["stop_reason"] = trajectory.stop_reason.value
    if trajectory.error is not None:
        row["error"] = _failure_to_row(trajectory.error)
    if trajectory.failures:
        row["failures"] = list(map(_failure_to_row, trajectory.failures))
    if trajectory.provenance:
        row["provenance"] = dict(trajectory.provenance)
    return row | dict(trajectory.extra)


def _reader(row: Json, path: Place, line: int | None) -> Reader:
    if not isinstance(row, dict):
        problem, repair = "the line must hold one JSON object", "A JSON Lines file has one {...} a line."
        raise DataError(problem, path=path, line=line, value=row, repair=repair)
    return Reader(row, path, line)


def _read_message(reader: Reader, entry: Json, name: str) -> Message:
    if isinstance(entry, dict):  # quick for what most files consist of; what is wrong is told below
        said, role = entry.get("content"), entry.get("role")
        if isinstance(said, str) and role in ("system", "user"):
            return Message(cast(Role, role), said)
    example = 'Like {"role": "user", "content": "..."}.'
    inner = reader.inner(entry, name, "an object with role and content", example)
    role = inner.row.get("role")
    if role not in ("system", "user", "assistant"):  # a tuple: role may be unhashable
        raise inner.fail("role", "must be system, user or assistant", "Other roles have no meaning here.")
    content = inner.get("content", str, "It is what the participants see.")
    if role != "assistant" or "input" not in inner.row:
        return Message(cast(Role, role), content)
    return AgentTurn(
        role="assistant",
        content=content,
        input=inner.get("input", str, "It is the exact prompt that the model was given."),
        output=inner.get("output", str, "It is the raw text of the model.", or_=content),
        token_ids=inner.numbers("token_ids", int),
        logprobs=inner.numbers("logprobs", int, float),
        finish_reason=inner.enum("finish_reason", FinishReason),
        reward=inner.reward(),
        reflection=inner.get("reflection", str, or_=None),
        reflection_input=inner.get("reflection_input", str, or_=None),
        thoughts=inner.get("thoughts", str, or_=None),
    )


def _read_failure(reader: Reader, value: Json, name: str) -> Failure | None:
    if value is None:
        return None
    repair = "Leave it out where nothing failed."
    inner = reader.inner(value, name, "an object with kind and detail", repair)
    return Failure(
        kind=inner.get("kind", str, "A short word for what went wrong."),
        detail=inner.get("detail", str, or_=""),
        status=inner.get("status", int, or_=None),
        attempts=inner.get("attempts", int, or_=1),
        turn=inner.get("turn", int, or_=None),
    )


def _message_to_row(message: Message) -> dict[str, Json]:
    row: dict[str, Json] = {"role": message.role, "content": message.content}
    if isinstance(message, AgentTurn):
        row |= {"input": message.input, "output": message.output}
        for name in _OF_TURNS:
            value = getattr(message, name)
            if value is not None:
                plain = value.value if isinstance(value, FinishReason) else value
                row[name] = list(plain) if isinstance(plain, tuple) else plain
    return row


def _failure_to_row(failure: Failure) -> dict[str, Json]:
    return {key: value for key, value in asdict(failure).items() if value not in (None, "")}


def group_by_task(trajectories: Sequence[Trajectory], k: int, *, path: str | None = None) -> list[list[int]]:
    """Row indices of each task, in order of the tasks' first rows, its `k` repeats in order; else DataError names one."""
    rows = len(trajectories)
    if k < 1 or rows % k:
        problem = f"holds {rows} rows, which is not a multiple of k"
        repair = "Give --k the number of repeats (--repeats) that the file was made with."
        raise DataError(problem, path=path, value=k, repair=repair)
    tasks = rows // k
    asked = [trajectory.task.problem_description for trajectory in trajectories]
    if asked[:-tasks] == asked[tasks:]:  # the published check, and the published order
        return [list(range(task, rows, tasks)) for task in range(tasks)]
    groups = group_by_identity(trajectories)
    for members in groups:
        if len(members) != k:
            first = min(members)
            problem = f"has {len(members)} rows for one task where k = {k} are expected"
            where: Any = {"path": path, "line": first + 1, "field": "task"}
            repair = "Give --k the number of repeats, or finish the run with --to_continue."
            raise DataError(problem, **where, value=trajectories[first].task.task_id, repair=repair)
    return groups


def group_by_identity(trajectories: Sequence[Trajectory]) -> list[list[int]]:
    """Row indices of each task, in order of the tasks' first rows, as many repeats as there are, in order."""
    groups: dict[str, list[int]] = {}
    for index, trajectory in enumerate(trajectories):
        groups.setdefault(trajectory.task.task_id, []).append(index)
    return [sorted(members, key=lambda i: trajectories[i].sample_index) for members in groups.values()]


def repeats_of(groups: Sequence[Sequence[int]]) -> int | None:
    """How many repeats every task has; None where they differ."""
    sizes = {len(group) for group in groups}
    return sizes.pop() if len(sizes) == 1 else None
