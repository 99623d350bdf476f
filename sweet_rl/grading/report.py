"""Means of grades with 95 % intervals, best of k, and the floor beside them; and which grader made a number.

Layout; what a grade is and how it came about is decided in `sweet_rl.grading.code`.
"""

from __future__ import annotations

import hashlib
import inspect
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Final

from sweet_rl.statistics import Estimate, mean_over_tasks, share_over_tasks
from sweet_rl.types import Json
from sweet_rl.version import __version__

_HERE: Final = Path(__file__).parent
_CODE: Final[Mapping[str, tuple[str, ...]]] = {
    "tests": ("code.py", "divider.py", "hidden_tests.py", "sandbox/**/*.py"),
    "pages": ("pages/*.py",),
}
"""The files that decide about the grades of ours."""


@cache
def _digest(grader: str) -> str:
    return _of_files(sorted(path for pattern in _CODE[grader] for path in _HERE.glob(pattern)))


def graded_with(grader: str, settings: Mapping[str, Json]) -> dict[str, Json]:
    """What rows say of a grader of ours, "tests" or "pages", and its settings."""
    return {"grader": grader, "sweet_rl": __version__, "digest": _digest(grader), **settings}


def graded_with_own(name: str, grader: object) -> dict[str, Json]:
    """What rows say of a grader from outside; without a digest where its source is in no file."""
    known: dict[str, Json] = {"grader": name, "sweet_rl": __version__}
    try:
        source = inspect.getsourcefile(type(grader))
        return known | ({"digest": _of_files([Path(source)])} if source else {})
    except (TypeError, OSError):
        return known


def _of_files(paths: list[Path]) -> str:
    return hashlib.sha256(b"".join(path.read_bytes() for path in paths)).hexdigest()[:16]


_SHOWN_REASONS = 5


@dataclass(frozen=True, slots=True)
class Column:
    """One way of grading: tests passed and success over all rows, and over the best repeat of each task."""

    tests_passed: Estimate
    success: Estimate
    best_of_k_tests_passed: Estimate
    best_of_k_success: Estimate
    not_graded: int
    rows: int = 0
    """What the means are over."""


@dataclass(frozen=True, slots=True)
class Report:
    """What `evaluate_code` prints and writes; `failed` of the trajectories are in no number."""

    trajectories: int
    tasks: int
    k: int | None
    columns: Mapping[str, Column]
    counts: Mapping[str, int] = field(default_factory=dict)
    protection: str = ""
    not_gradable: Mapping[str, str] = field(default_factory=dict)
    """Why, by `task_id`, no answer to a task can be graded."""
    failed: int = 0

    def to_json(self) -> dict[str, Json]:
        """All numbers as a JSON object; fractions are in [0, 1]."""
        return asdict(self)

    def to_text(self, title: str) -> str:
        """The table that is printed; numbers in percent."""
        size = f"{self.trajectories} trajectories, {self.tasks} tasks{repeats_words(self.k)}"
        lines = [f"{title}: {size}{failed_words(self.failed)}", ""]
        rows = {"tests passed": "tests_passed", "success": "success"}
        if self.k is not None and self.k > 1:
            rows |= {f"{label}, best of {self.k}": f"best_of_k_{name}" for label, name in rows.items()}
        width = max(map(len, rows)) + 4
        table = {"%, with 95 % interval": list[object](self.columns)}
        for label, name in rows.items():
            values = self.columns.values()
            table[label] = [getattr(column, name) if column.rows else "none" for column in values]
        if self.failed:
            table["rows in the means"] = [column.rows for column in self.columns.values()]
        lines += [
            f"{label:<{width}}" + "".join(f"{cell!s:>24}" for cell in cells) for label, cells in table.items()
        ]
        lines += ["", *(f"{count:>6}  {label}" for label, count in self.counts.items() if count)]
        if self.not_gradable:
            lines.append(f"{len(self.not_gradable):>6}  tasks that cannot be graded, in no mean:")
            lines += shown(self.not_gradable)
        if self.protection:
            lines.append(f"Answers ran under: {self.protection}.")
        return "\n".join(lines)


def summarise(
    values: Sequence[float | None], groups: Sequence[Sequence[int]], *, none_is_zero: bool = False
) -> Column:
    """Fold one grade for each row into a column.

    Args:
        values: grades in [0, 1]; None (no grade) is in no mean and is reported.
        groups: row indices of each task's repeats. Intervals treat tasks, not rows, as independent.
        none_is_zero: None is an answer's fault and counts as 0, and is reported all the same.
    """
    known = [0.0 if value is None and none_is_zero else value for value in values]
    graded = [[value for row in group if (value := known[row]) is not None] for group in groups]
    by_task = [task for task in graded if task]
    best = [[max(task)] for task in by_task]
    right, best_right = ([[float(value == 1) for value in task] for task in some] for some in (by_task, best))
    return Column(
        tests_passed=mean_over_tasks(by_task, low=0, high=1),
        success=share_over_tasks(right),
        best_of_k_tests_passed=mean_over_tasks(best, low=0, high=1),
        best_of_k_success=share_over_tasks(best_right),
        not_graded=sum(values[row] is None for group in groups for row in group),
        rows=sum(map(len, by_task)),
    )


def shown(reasons: Mapping[str, str]) -> list[str]:
    """Some of the tasks that cannot be graded, a line each."""
    lines = [f"{'':8}{task}: {why}" for task, why in itertools.islice(reasons.items(), _SHOWN_REASONS)]
    return [*lines, f"{'':8}and {len(reasons) - len(lines)} more"] if len(lines) < len(reasons) else lines


def repeats_words(k: int | None) -> str:
    """What the title of a table says of the tasks' repeats."""
    return f", k = {k}" if k is not None else " with repeats of different number"


def failed_words(failed: int) -> str:
    """What the title of a table says of episodes that are in none of its numbers."""
    return f"; {failed} failed and are in no number" if failed else ""
