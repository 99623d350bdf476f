"""The viewer for functions: answers beside hidden functions, test by test results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields

from sweet_rl.grading.extraction import published_code
from sweet_rl.types import Json, TestResult, Trajectory
from sweet_rl.viewer.content import Contents, Kind, entry_of, numbers, row_of, text_of


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
