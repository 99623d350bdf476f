"""Trajectories to scores. Knows nothing of rollouts, so that old runs can be graded again.

`GRADERS` are those of other packages, for any world.
"""

from collections.abc import Mapping

from sweet_rl.plugins import Registry
from sweet_rl.types import Json, Score

GRADERS = Registry("sweet_rl.graders", "grader", parts=("grade",))
"""An object, or a class or factory that takes nothing or the world."""


def fields_by(grader: str, score: Score, row: Mapping[str, Json]) -> dict[str, Json]:
    """The fields that a grader gives a row; its reward before the first grading stays among the grades.

    Args:
        grader: its name.
        score: of the row.
        row: as it was; `reward`, `grades` and `grading_details` are looked at.
    """
    grades = dict(row.get("grades") or {})
    if not grades and row.get("reward") is not None:
        grades["as played"] = row["reward"]
    details = dict(score.details) | ({f"{grader}_note": score.note} if score.note else {})
    return {
        "reward": score.value,
        "grades": grades | {grader: score.value},
        "grading_details": dict(row.get("grading_details") or {}) | details,
    }
