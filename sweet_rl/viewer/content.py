"""What the viewer shows of trajectories, as plain JSON: a light index, and one row in full.

The index is small enough for a file of tens of thousands of rows; a row is made when somebody looks at it.
Nothing is escaped here: the page inserts every text as text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields

from sweet_rl.grading.extraction import published_code
from sweet_rl.types import AgentTurn, Failure, Json, Message, TestResult, Trajectory

SUMMARY_LENGTH = 180
"""Characters of a task's description that the list can show."""

_BLANKS = re.compile(r"\s+")


def make_index(trajectories: Sequence[Trajectory], title: str) -> dict[str, Json]:
    """What list, filters and summary need: tasks in order of first appearance, rows in file order.

    A row's `task` is a position in `tasks`; `published` is its grade under published grading, where known.
    """
    positions: dict[str, int] = {}
    tasks: list[dict[str, str]] = []
    rows: list[dict[str, Json]] = []
    for trajectory in trajectories:
        task = trajectory.task
        if task.task_id not in positions:
            positions[task.task_id] = len(tasks)
            tasks.append({"id": task.task_id, "summary": _summary(task.problem_description)})
        rows.append(
            {
                "task": positions[task.task_id],
                "repeat": trajectory.sample_index,
                "reward": trajectory.reward,
                "published": _grades(trajectory).get("published"),
                "stop": trajectory.stop_reason,
                "turns": sum(message.role == "assistant" for message in trajectory.dialogue_history),
                "failures": len(trajectory.failures) + (trajectory.error is not None),
            }
        )
    return {"title": title, "tasks": tasks, "rows": rows}


def make_row(trajectory: Trajectory) -> dict[str, Json]:
    """Everything the page shows of one trajectory.

    `answer` is as it was handed in, `code` is what the grader takes from it. `tests` are the graded tests,
    or, of an ungraded row, the bare expressions.
    """
    task = trajectory.task
    return {
        "task_id": task.task_id,
        "repeat": trajectory.sample_index,
        "description": task.problem_description,
        "messages": _messages(trajectory.dialogue_history),
        "answer": trajectory.answer,
        "code": None if trajectory.answer is None else published_code(trajectory.answer).strip("\n"),
        "hidden": task.ground_truth.strip("\n"),
        "tests": _tests(trajectory),
        "reward": trajectory.reward,
        "grades": _grades(trajectory),
        "grading_notes": _grading_notes(trajectory),
        "stop": trajectory.stop_reason,
        "error": _failure(trajectory.error) if trajectory.error else None,
        "failures": [_failure(failure) for failure in trajectory.failures],
        "provenance": dict(trajectory.provenance),
    }


def searchable_text(trajectory: Trajectory) -> str:
    """The text that a search looks through, in lower case: what was said and thought, task, answer.

    The page does the same with an exported row (`searchableText` in static/source.js).
    """
    parts = [trajectory.task.task_id, trajectory.task.problem_description]
    for message in trajectory.dialogue_history:
        parts.append(message.content)
        if isinstance(message, AgentTurn) and message.output != message.content:
            parts.append(message.output)
    parts.append(trajectory.answer or "")
    return "\n".join(parts).lower()


def _summary(description: str) -> str:
    text = _BLANKS.sub(" ", description[: 2 * SUMMARY_LENGTH]).strip()
    return text if len(text) <= SUMMARY_LENGTH else f"{text[: SUMMARY_LENGTH - 1].rstrip()}…"


def _messages(history: Sequence[Message]) -> list[dict[str, Json]]:
    """The dialogue. A prompt that continues the previous one is written as `more`, what it adds to that.

    Every prompt holds the whole conversation, so that a file's size would grow with the square of its turns.
    """
    shown: list[dict[str, Json]] = []
    previous = ""
    for message in history:
        entry: dict[str, Json] = {"role": message.role, "content": message.content}
        if isinstance(message, AgentTurn):
            if message.output != message.content:
                entry["output"] = message.output
            if message.finish_reason is not None:
                entry["finish"] = message.finish_reason
            if previous and message.input.startswith(previous):
                entry["more"] = message.input[len(previous) :]
            else:
                entry["input"] = message.input
            previous = message.input
        shown.append(entry)
    return shown


def _grades(trajectory: Trajectory) -> dict[str, float]:
    grades = trajectory.extra.get("grades")
    if not isinstance(grades, Mapping):
        return {}
    return {
        str(name): value
        for name, value in grades.items()
        if isinstance(value, (int, float)) and not isinstance(value, bool)
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


def _failure(failure: Failure) -> dict[str, Json]:
    return asdict(failure)
