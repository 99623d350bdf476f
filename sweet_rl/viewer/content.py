"""The data of the viewer: an index, one row in full, its pictures, as plain JSON and bytes.

`code`, `game` and `design` say it for the kinds of trajectories, `turns` and `pairs` for other rows; server
and export know only `Contents`. The index is small enough for a hundred thousand rows; a row is made when it
is looked at. Nothing is escaped here: the page inserts every text as text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, fields
from typing import Generic, Literal, TypeVar

from sweet_rl.grading.extraction import published_code
from sweet_rl.types import AgentTurn, Failure, Json, TestResult, Trajectory

Kind = Literal["code", "game", "design", "turns", "pairs"]

Item = TypeVar("Item")
"""A row as its kind reads it: a trajectory, or the object itself."""

SUMMARY_LENGTH = 180
"""Characters of a task's description that the list can show."""

OUTPUT_MARKER = "OUTPUT:"
_BLANKS = re.compile(r"\s+")


class Contents(Generic[Item]):
    """A file of rows as a viewer shows it. Rows go by their position in the file, from 0.

    Args:
        items: the rows, in the order in which they are to be listed.
        title: what window and page are called, usually the name of the file.
    """

    kind: Kind
    """Which of the viewer's scripts show it."""

    def __init__(self, items: Sequence[Item], title: str) -> None:
        self.title = title
        self.items = items

    def __len__(self) -> int:
        """How many rows there are."""
        return len(self.items)

    @classmethod
    def entry(cls, item: Item) -> dict[str, Json]:
        """What list, filters and summary need of a row, by name: `task`, its `summary`, `repeat` and more."""
        raise NotImplementedError

    @classmethod
    def text(cls, item: Item) -> str:
        """The text that a search looks through.

        The page does the same with an exported row (`searchableText` in static/source.js).
        """
        raise NotImplementedError

    def index(self) -> dict[str, Json]:
        """One entry for each row, with the tasks in order of first appearance."""
        entries = (self.entry(item) for item in self.items)
        return index_of(((one["task"], one["repeat"] or 0, one) for one in entries), self.title, self.kind)

    async def prepare(self, position: int) -> None:
        """Do what a row needs before `row` and `picture` are asked; a second time costs nothing."""

    def row(self, position: int) -> dict[str, Json]:
        """Everything the page shows of one trajectory."""
        raise NotImplementedError

    def picture(self, position: int, name: str) -> bytes | None:
        """The PNG that a prepared row calls by this name; None where there is none."""
        del position, name
        return None

    def pictures(self, position: int) -> Iterator[str]:
        """The names of a prepared row's pictures; none where trajectories are texts."""
        del position
        return iter(())

    async def close(self) -> None:
        """Free what `prepare` needed; nothing is prepared afterwards."""


def index_of(
    entries: Iterable[tuple[str, int, Mapping[str, Json]]], title: str, kind: Kind
) -> dict[str, Json]:
    """The index of a file from the entries of its rows, in file order; rows as columns, which is smaller.

    A row's `task` is a position in `tasks`, and a task has the summary of its first row.

    Args:
        entries: task, repeat, and what is shown of each row.
        title: of the window.
        kind: of the rows.
    """
    positions: dict[str, int] = {}
    tasks: list[dict[str, str]] = []
    columns: dict[str, list[Json]] = {"task": [], "repeat": []}
    for count, (task, repeat, shown) in enumerate(entries):
        if task not in positions:
            positions[task] = len(tasks)
            tasks.append({"id": task, "summary": shown["summary"]})
        for name, value in {**shown, "task": positions[task], "repeat": repeat}.items():
            if name != "summary":
                columns.setdefault(name, [None] * count).append(value)
    return {"title": title, "kind": kind, "tasks": tasks, "columns": columns}


def entry_of(trajectory: Trajectory) -> dict[str, Json]:
    """The entry of a trajectory of any kind."""
    return {
        "task": trajectory.task.task_id,
        "summary": summary_of(trajectory.task.problem_description),
        "repeat": trajectory.sample_index,
        "reward": trajectory.reward,
        "stop": trajectory.stop_reason,
        "turns": sum(message.role == "assistant" for message in trajectory.dialogue_history),
        "failures": len(trajectory.failures) + (trajectory.error is not None),
    }


def row_of(trajectory: Trajectory) -> dict[str, Json]:
    """The viewer's data of trajectories of any kind."""
    return {
        "task_id": trajectory.task.task_id,
        "repeat": trajectory.sample_index,
        "description": trajectory.task.problem_description,
        "messages": _messages(trajectory),
        "reward": trajectory.reward,
        "grades": numbers(trajectory.extra.get("grades")),
        "stop": trajectory.stop_reason,
        "error": failure_of(trajectory.error) if trajectory.error else None,
        "failures": [failure_of(failure) for failure in trajectory.failures],
        "provenance": dict(trajectory.provenance),
    }


def text_of(trajectory: Trajectory) -> str:
    """The task, its messages and thoughts."""
    parts = [trajectory.task.task_id, trajectory.task.problem_description]
    for message in trajectory.dialogue_history:
        parts.append(message.content)
        if isinstance(message, AgentTurn) and (message.output != message.content or message.thoughts):
            parts.append(_thoughts(message) or message.output)
        if isinstance(message, AgentTurn) and message.reflection:
            parts.append(message.reflection)
    return "\n".join(parts)


def numbers(values: Json) -> dict[str, float]:
    """The numbers of an object by name. Other people's files may hold anything under our names."""
    if not isinstance(values, Mapping):
        return {}
    return {
        str(name): value
        for name, value in values.items()
        if isinstance(value, (int, float)) and not isinstance(value, bool)
    }


def failure_of(failure: Failure) -> dict[str, Json]:
    """A failure as the page shows it."""
    return asdict(failure)


def summary_of(description: str) -> str:
    """A text on one line, short enough for the list."""
    text = _BLANKS.sub(" ", description[: 2 * SUMMARY_LENGTH]).strip()
    return text if len(text) <= SUMMARY_LENGTH else f"{text[: SUMMARY_LENGTH - 1].rstrip()}…"


def _messages(trajectory: Trajectory) -> list[dict[str, Json]]:
    """The dialogue. A prompt that continues the previous one is written as `more`, what it adds to that.

    Every prompt holds the whole conversation, so that a file's size would grow with the square of its turns.
    `thoughts` are what an agent wrote before what the human saw; `output` is the raw text where it is
    neither that nor what the human saw; `reflection` is what a reflection model wrote before the turn.
    """
    shown: list[dict[str, Json]] = []
    previous = ""
    for message in trajectory.dialogue_history:
        entry: dict[str, Json] = {"role": message.role, "content": message.content}
        if isinstance(message, AgentTurn):
            thoughts = _thoughts(message)
            if thoughts:
                entry["thoughts"] = thoughts
            elif thoughts is None and message.output != message.content:
                entry["output"] = message.output
            if message.reflection:
                entry["reflection"] = message.reflection
            if message.finish_reason is not None:
                entry["finish"] = message.finish_reason
            if previous and message.input.startswith(previous):
                entry["more"] = message.input[len(previous) :]
            else:
                entry["input"] = message.input
            previous = message.input
            if message.reward is not None:
                entry["reward"] = message.reward
        shown.append(entry)
    return shown


def _thoughts(message: AgentTurn) -> str | None:
    """What the model thought, or what stands before the marker; None where the raw text is neither."""
    if message.thoughts is not None:
        return message.thoughts
    visible = OUTPUT_MARKER + message.content
    if not message.content or not message.output.endswith(visible):
        return None
    return message.output[: -len(visible)].strip()


class CodeContents(Contents[Trajectory]):
    """Trajectories whose answers are code; see `content.Contents`."""

    kind: Kind = "code"

    @classmethod
    def entry(cls, item: Trajectory) -> dict[str, Json]:
        """As in the contract; `published` is a row's grade under published grading, where known."""
        return entry_of(item) | {"published": numbers(item.extra.get("grades")).get("published")}

    @classmethod
    def text(cls, item: Trajectory) -> str:
        """The dialogue and the answer of one trajectory."""
        return f"{text_of(item)}\n{item.answer or ''}"

    def row(self, position: int) -> dict[str, Json]:
        """As in the contract.

        `answer` is as it was handed in, `code` is what the grader takes from it. `tests` are the graded
        tests, or, of an ungraded row, the bare expressions.
        """
        trajectory = self.items[position]
        answer = trajectory.answer
        return row_of(trajectory) | {
            "answer": answer,
            "code": None if answer is None else published_code(answer).strip("\n"),
            "hidden": trajectory.task.ground_truth.strip("\n"),
            "tests": _tests(trajectory),
            "grading_notes": _grading_notes(trajectory),
        }


def _grading_notes(trajectory: Trajectory) -> dict[str, str]:
    """What evaluation has to say about each grade, by the name of the grading (`fixed_note` and the like)."""
    details = trajectory.extra.get("grading_details")
    if not isinstance(details, Mapping):
        return {}
    return {
        str(name).removesuffix("_note"): str(note)
        for name, note in details.items()
        if str(name).endswith("_note") and note
    }


def _tests(trajectory: Trajectory) -> list[dict[str, str]]:
    """Test results as evaluation wrote them. Other people's files may hold anything under that name."""
    results = trajectory.extra.get("test_results")
    if not isinstance(results, list):
        cases = trajectory.task.test_cases
        return [{"name": name, "expression": expression} for name, expression in cases.items()]
    names = [field.name for field in fields(TestResult)]
    return [
        {name: str(result[name]) for name in names if result.get(name) is not None}
        for result in results
        if isinstance(result, Mapping)
    ]


class GameContents(Contents[Trajectory]):
    """Trajectories whose turns carry rewards; see `content.Contents`."""

    kind: Kind = "game"

    @classmethod
    def entry(cls, item: Trajectory) -> dict[str, Json]:
        """As in the contract; `truncated` says whether a row was cut short, None where that is unknown.

        A task goes by its `name_of`: descriptions are often the same in all of them.
        """
        return entry_of(item) | {
            "summary": summary_of(name_of(item)),
            "truncated": None if item.stop_reason is None else item.stop_reason.truncated,
        }

    @classmethod
    def text(cls, item: Trajectory) -> str:
        """The dialogue, the name and the answer of one trajectory."""
        return f"{text_of(item)}\n{name_of(item)}\n{item.answer or ''}"

    def row(self, position: int) -> dict[str, Json]:
        """As in the contract; `name` is the task's, `answer` what the agent ended with, if anything."""
        trajectory = self.items[position]
        return row_of(trajectory) | {"name": name_of(trajectory), "answer": trajectory.answer}


def rewards_turns(trajectories: Sequence[Trajectory]) -> bool:
    """Whether any of them comes from a world that rewards turns."""
    return any(
        isinstance(message, AgentTurn) and message.reward is not None
        for trajectory in trajectories
        for message in trajectory.dialogue_history
    )


def name_of(trajectory: Trajectory) -> str:
    """The title of a task: the errand, or the hidden information; without either, the description."""
    task = trajectory.task
    errand = task.row.get("instruction") or trajectory.extra.get("instruction")
    for text in (errand, task.row.get("hidden_information")):
        if isinstance(text, str) and text.strip():
            return text
    return f"{task.task_id}: {task.problem_description}"


def kind_of_trajectories(trajectories: Sequence[Trajectory]) -> Kind:
    """The kind that shows them."""
    if rewards_turns(trajectories):
        return "game"
    return "design" if has_pictures(trajectories) else "code"


def has_pictures(trajectories: Sequence[Trajectory]) -> bool:
    """Whether any row names a picture: of the target, of a draft, or as its answer (published rows)."""
    return any(
        "target_image" in one.extra or "drafts" in one.extra or (one.answer or "").endswith(".png")
        for one in trajectories
    )
