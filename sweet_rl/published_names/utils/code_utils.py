"""`sweet_rl.utils.code_utils`: answers graded by hidden tests, in the sandbox (docs/published_names.md)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sweet_rl.grading.code import CodeGrader, Way
from sweet_rl.grading.sandbox import Sandbox
from sweet_rl.records import task_from_row
from sweet_rl.types import Trajectory


def code_evaluate(trajectories: Iterable[Mapping[str, Any]], *, grading: Way = "published") -> list[float]:
    """The share of hidden tests that each answer passes.

    Args:
        trajectories: rows with `task` (`ground_truth`, `test_cases`) and `answer`.
        grading: published: comparable with published numbers; fixed, lenient: docs/grading.md.

    Returns:
        Numbers from 0 to 1, in order; 0 where the task cannot be graded, or the answer would have ended the
        published evaluation.

    Raises:
        DataError: a row is no trajectory.
        SandboxError: answers cannot be run safely here.
    """
    played = [
        Trajectory(task_from_row({"problem_description": "", **row["task"]}), (), row["answer"])
        for row in trajectories
    ]
    with Sandbox() as sandbox:
        return [score.value or 0.0 for score in CodeGrader(sandbox, grading=grading).grade(played)]
