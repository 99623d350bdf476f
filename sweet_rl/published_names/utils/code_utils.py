"""`sweet_rl.utils.code_utils`: answers graded by hidden tests, in the sandbox (docs/export_and_credit.md)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sweet_rl.errors import no_such
from sweet_rl.grading.code import WAYS, CodeGrader, Way
from sweet_rl.grading.sandbox import Sandbox
from sweet_rl.records import task_from_row
from sweet_rl.types import Trajectory


def code_evaluate(trajectories: Iterable[Mapping[str, Any]], *, grading: Way = "published") -> list[float]:
    """The share of hidden tests that each answer passes, in the order of the rows (`task` and `answer`).

    0 where the task cannot be graded, or the answer would have ended the published evaluation. `grading`: published, which
    compares with published numbers; fixed, lenient: docs/grading.md.
    """
    if grading not in WAYS:
        raise no_such("way of grading", grading, WAYS)
    played = []
    for number, row in enumerate(trajectories, 1):  # of a row only what is graded is looked at
        graded = {name: row["task"][name] for name in ("ground_truth", "test_cases") if name in row["task"]}
        task = task_from_row({"problem_description": "", **graded}, path="trajectories", line=number)
        played.append(Trajectory(task, (), row["answer"]))
    with Sandbox() as sandbox:
        return [score.value or 0.0 for score in CodeGrader(sandbox, grading=grading).grade(played)]
