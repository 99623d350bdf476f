"""Trajectories to scores; it knows nothing of rollouts, so that old runs can be graded again.

Begin with `code.py`: an answer's text, the code in it, its hidden tests, a score. `hidden_tests.py` plans what is
called and compared, `sandbox/` runs it, `pages/` grades web pages, `report.py` is the table.
"""

from __future__ import annotations

from collections.abc import Mapping

from sweet_rl.grading.report import graded_with_own
from sweet_rl.plugins import Registry
from sweet_rl.types import Json, Score

GRADERS = Registry("sweet_rl.graders", "grader", parts=("grade",))
"""Those of other packages, for any world: an object, or a class or factory that takes nothing or the world."""


def fields_by(grader: str, judge: object, score: Score, row: Mapping[str, Json]) -> dict[str, Json]:
    """The fields that a grader gives a row; its reward before the first grading stays among the grades."""
    grades = dict(row.get("grades") or {})
    if not grades and row.get("reward") is not None:
        grades["as played"] = row["reward"]
    details = dict(score.details) | ({f"{grader}_note": score.note} if score.note else {})
    return {
        "reward": score.value,
        "grades": grades | {grader: score.value},
        "grading_details": dict(row.get("grading_details") or {}) | details,
        "graded_with": graded_with_own(grader, judge),
    }
