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
from pathlib import Path
from typing import Any, TypeVar, cast

from sweet_rl.errors import DataError
from sweet_rl.types import (
    AgentTurn,
    Failure,
    FinishReason,
    Json,
    Message,
    Role,
    StopReason,
    Task,
    Trajectory,
    digest,
)

T = TypeVar("T")

_TRAJECTORY_FIELDS = (
    "task", "dialogue_history", "answer", "reward", "task_id", "sample_index", "stop_reason", "error", "failures",
    "provenance",
)  # fmt: skip

_OF_TURNS = (
    "token_ids", "logprobs", "finish_reason", "reward", "reflection", "reflection_input", "thoughts",
)  # fmt: skip
"""What a row says of a turn where it is known, in this order."""


@dataclass(frozen=True, slots=True)
class Reader:
    """One row with its place, handing out checked fields."""

    row: Mapping[str, Json]
    path: str | Path | None
    line: int | None
    prefix: str = ""

    def fail(self, field: str, problem: str, repair: str) -> DataError:
        """The error for `field` of this row; the caller raises it."""
        value = self.row.get(field, "nothing")
        return DataError(
            problem, path=self.path, line=self.line, field=self.prefix + field, value=value, repair=repair
        )

    def get(self, field: str, kind: type[T], what: str, repair: str) -> T:
        """A field that must be there and of `kind`."""
        value = self.row.get(field)
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise self.fail(field, f"must be {what}", repair)
        return value

    def get_or(self, field: str, kind: type[T], what: str, default: T | None, repair: str) -> T | None:
        """A field that may be missing or null."""
        return default if self.row.get(field) is None else self.get(field, kind, what, repair)

    def identity(self, field: str, repair: str) -> str | None:
        """A name that may be missing; public data sets count with integers."""
        value = self.row.get(field)
        if type(value) is int:
            return str(value)
        return self.get_or(field, str, "a string or an integer", None, repair)

    def inner(self, value: Json, name: str, what: str, repair: str) -> Reader:
        """A reader of the object `value` at `name` in this row."""
        if not isinstance(value, dict):
            raise DataError(
                f"must be {what}",
                path=self.path,
                line=self.line,
                field=self.prefix + name,
                value=value,
                repair=repair,
            )
        return Reader(value, self.path, self.line, f"{self.prefix}{name}.")


def task_from_row(row: Json, *, path: str | Path | None = None, line: int | None = None) -> Task:
    """Check and read one task object.

    Raises:
        DataError: names the field that is missing or of the wrong type.
    """
    return _read_task(_reader(row, path, line))


def _read_task(reader: Reader) -> Task:
    description = reader.get(
        "problem_description", str, "a string", "It is the request that the agent is shown."
    )
    ground_truth = reader.get(
        "ground_truth", str, "a string", "It is the source of the hidden function or page."
    )
    tests = reader.get_or(
        "test_cases",
        dict,
        "an object of name to Python expression",
        {},
        'For example {"test1": "add(1, 2)"}; leave it out where there are none.',
    )
    for name, expression in (tests or {}).items():
        if not isinstance(expression, str):
            raise DataError(
                "must be a Python expression in a string",
                path=reader.path,
                line=reader.line,
                field=f"{reader.prefix}test_cases.{name}",
                value=expression,
                repair=f'Write it as {{"{name}": "function(arguments)"}}.',
            )
    hidden = reader.get_or(
        "hidden_information", str, "a string", ground_truth, "Leave it out to use ground_truth."
    )
    task_id = reader.identity("task_id", "Leave it out to use a digest of the task.") or digest(reader.row)
    return Task(
        task_id=task_id,
        problem_description=description,
        ground_truth=ground_truth,
        hidden_information=cast(str, hidden),
        test_cases=cast("dict[str, str]", tests),
        row=reader.row,
    )


def unique_tasks(tasks: Iterable[Task]) -> list[Task]:
    """The same tasks, the second and later copies of one renamed `id#2`, `id#3`: each has an identity."""
    seen: Counter[str] = Counter()
    result = []
    for task in tasks:
        seen[task.task_id] += 1
        count = seen[task.task_id]
        result.append(task if count == 1 else replace(task, task_id=f"{task.task_id}#{count}"))
    return result


def trajectory_from_row(row: Json, *, path: str | Path | None = None, line: int | None = None) -> Trajectory:
    """Check and read one trajectory object, ours or a published one.

    `sample_index` is 0 where the row has none; `trajectories_from_rows` counts it instead.

    Raises:
        DataError: names the field that is missing or of the wrong type.
    """
    reader = _reader(row, path, line)
    task = _read_task(
        reader.inner(
            reader.row.get("task"), "task", "the task object", "A trajectory row carries its whole task."
        )
    )
    if task_id := reader.identity("task_id", "Leave it out to use the task's own."):
        task = replace(task, task_id=task_id)
    history = reader.get(
        "dialogue_history", list, "a list of messages", 'For example [{"role": "user", "content": "..."}].'
    )
    counts = "It counts the repeats of one task."
    index = reader.get_or("sample_index", int, "an integer from 0", 0, counts) or 0
    if not 0 <= index < 2**63:
        what = "must be an integer from 0"
        raise DataError(what, path=path, line=line, field="sample_index", value=index, repair=counts)
    failures = reader.get_or("failures", list, "a list", [], "Leave it out where nothing failed.") or []
    return Trajectory(
        task=task,
        dialogue_history=tuple(
            _read_message(reader, entry, f"dialogue_history[{position}]")
            for position, entry in enumerate(history)
        ),
        answer=reader.get_or(
            "answer", str, "a string or null", None, "It is the text that the agent handed in."
        ),
        sample_index=index,
        stop_reason=_read_enum(reader, "stop_reason", StopReason),
        reward=_read_reward(reader),
        error=_read_failure(reader, reader.row.get("error"), "error"),
        failures=tuple(
            failure
            for position, entry in enumerate(failures)
            if (failure := _read_failure(reader, entry, f"failures[{position}]"))
        ),
        provenance=reader.get_or("provenance", dict, "an object", {}, "Leave it out where unknown.") or {},
        extra={key: value for key, value in reader.row.items() if key not in _TRAJECTORY_FIELDS},
    )


def message_from_row(row: Json, name: str = "message") -> Message:
    """Check and read one message of a dialogue.

    Args:
        row: as it stands in a trajectory's `dialogue_history`.
        name: where it stands, for errors.

    Raises:
        DataError: names the field that is missing or of the wrong type.
    """
    return _read_message(Reader({}, None, None), row, name)


def trajectories_from_rows(
    rows: Sequence[tuple[int, Json]], *, path: str | Path | None = None
) -> list[Trajectory]:
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
        row["error"] = _compact(asdict(trajectory.error))
    if trajectory.failures:
        row["failures"] = [_compact(asdict(failure)) for failure in trajectory.failures]
    if trajectory.provenance:
        row["provenance"] = dict(trajectory.provenance)
    return row | dict(trajectory.extra)


def _reader(row: Json, path: str | Path | None, line: int | None) -> Reader:
    if not isinstance(row, dict):
        raise DataError(
            "the line must hold one JSON object",
            path=path,
            line=line,
            value=row,
            repair="A JSON Lines file has one {...} a line.",
        )
    return Reader(row, path, line)


def _read_message(reader: Reader, entry: Json, name: str) -> Message:
    if isinstance(entry, dict):  # quick for what most files consist of; what is wrong is told below
        said, role = entry.get("content"), entry.get("role")
        if isinstance(said, str) and role in ("system", "user"):
            return Message(cast(Role, role), said)
    inner = reader.inner(
        entry, name, "an object with role and content", 'Like {"role": "user", "content": "..."}.'
    )
    role = inner.row.get("role")
    if role not in ("system", "user", "assistant"):  # a tuple: role may be unhashable
        raise inner.fail("role", "must be system, user or assistant", "Other roles have no meaning here.")
    content = inner.get("content", str, "a string", "It is what the participants see.")
    if role != "assistant" or "input" not in inner.row:
        return Message(cast(Role, role), content)
    return AgentTurn(
        role="assistant",
        content=content,
        input=inner.get("input", str, "a string", "It is the exact prompt that the model was given."),
        output=inner.get_or("output", str, "a string", content, "It is the raw text of the model.") or "",
        token_ids=_read_numbers(inner, "token_ids", int),
        logprobs=_read_numbers(inner, "logprobs", float),
        finish_reason=_read_enum(inner, "finish_reason", FinishReason),
        reward=_read_reward(inner),
        reflection=_read_aside(inner, "reflection"),
        reflection_input=_read_aside(inner, "reflection_input"),
        thoughts=_read_aside(inner, "thoughts"),
    )


def _read_aside(reader: Reader, field: str) -> str | None:
    return reader.get_or(field, str, "a string", None, "Leave it out where there is none.")


def _read_numbers(reader: Reader, field: str, kind: type[T]) -> tuple[T, ...] | None:
    values = reader.get_or(field, list, "a list of numbers", None, "Leave it out where unknown.")
    if values is None:
        return None
    numbers = (int,) if kind is int else (int, float)
    if not all(isinstance(value, numbers) and not isinstance(value, bool) for value in values):
        raise reader.fail(field, "must hold numbers only", "Leave it out where unknown.")
    return tuple(values)


def _read_enum(reader: Reader, field: str, kind: type[T]) -> T | None:
    value = reader.row.get(field)
    if value is None:
        return None
    try:
        return kind(value)  # type: ignore[call-arg]
    except ValueError:
        options = ", ".join(str(member) for member in kind)  # type: ignore[attr-defined]
        raise reader.fail(field, f"must be one of {options}", "Leave it out where unknown.") from None


def _read_reward(reader: Reader) -> float | None:
    value = reader.row.get("reward")
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise reader.fail("reward", "must be a finite number", "Remove it where it is unknown.")
    return value


def _read_failure(reader: Reader, value: Json, name: str) -> Failure | None:
    if value is None:
        return None
    inner = reader.inner(value, name, "an object with kind and detail", "Leave it out where nothing failed.")
    return Failure(
        kind=inner.get("kind", str, "a string", "A short word for what went wrong."),
        detail=inner.get_or("detail", str, "a string", "", "") or "",
        status=inner.get_or("status", int, "an integer", None, ""),
        attempts=inner.get_or("attempts", int, "an integer", 1, "") or 1,
        turn=inner.get_or("turn", int, "an integer", None, ""),
    )


def _message_to_row(message: Message) -> dict[str, Json]:
    row: dict[str, Json] = {"role": message.role, "content": message.content}
    if isinstance(message, AgentTurn):
        row |= {"input": message.input, "output": message.output}
        for name in _OF_TURNS:
            value = getattr(message, name)
            if isinstance(value, tuple):
                value = list(value)
            elif isinstance(value, FinishReason):
                value = value.value
            if value is not None:
                row[name] = value
    return row


def _compact(row: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in row.items() if value not in (None, "")}


def group_by_task(trajectories: Sequence[Trajectory], k: int, *, path: str | None = None) -> list[list[int]]:
    """Row indices of each task, in order of the tasks' first rows, its `k` repeats in order.

    Args:
        trajectories: all rows of a file.
        k: repeats of each task.
        path: the file, for the error.

    Raises:
        DataError: the rows do not form groups of `k`; names the first task that has another number of rows.
    """
    rows = len(trajectories)
    if k < 1 or rows % k:
        raise DataError(
            f"holds {rows} rows, which is not a multiple of k",
            path=path,
            value=k,
            repair="Give --k the number of repeats (--repeats) that the file was made with.",
        )
    if _in_published_order(trajectories, k):
        num_tasks = rows // k
        return [list(range(task, rows, num_tasks)) for task in range(num_tasks)]
    groups = group_by_identity(trajectories)
    for members in groups:
        if len(members) != k:
            first = min(members)
            raise DataError(
                f"has {len(members)} rows for one task where k = {k} are expected",
                path=path,
                line=first + 1,
                field="task",
                value=trajectories[first].task.task_id,
                repair="Give --k the number of repeats, or finish the run with --to_continue.",
            )
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


def _in_published_order(trajectories: Sequence[Trajectory], k: int) -> bool:
    """The published check: each row has the description of the row `num_tasks` before it."""
    num_tasks = len(trajectories) // k
    return all(
        earlier.task.problem_description == later.task.problem_description
        for earlier, later in zip(trajectories, trajectories[num_tasks:], strict=False)
    )
