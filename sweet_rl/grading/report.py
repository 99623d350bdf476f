"""Means of grades with 95 % intervals, best of k, and the floor beside them.

Pure arithmetic and layout; what a grade is and how it came about is decided in `sweet_rl.grading.code`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field

from sweet_rl.types import Json

_Z = 1.959964
"""97.5th percentile of the normal distribution."""

_SHOWN_REASONS = 5


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean and its 95 % confidence interval, all in [0, 1]."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{100 * self.mean:5.1f} [{100 * self.low:.1f}, {100 * self.high:.1f}]"


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
    k: int
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
        size = f"{self.trajectories} trajectories, {self.tasks} tasks, k = {self.k}"
        lines = [f"{title}: {size}{failed_words(self.failed)}", ""]
        rows = [("tests passed", "tests_passed"), ("success", "success")]
        if self.k > 1:
            rows += [
                (f"tests passed, best of {self.k}", "best_of_k_tests_passed"),
                (f"success, best of {self.k}", "best_of_k_success"),
            ]
        width = max(len(label) for label, _ in rows) + 4
        header = "".join(f"{name:>24}" for name in self.columns)
        lines.append(f"{'%, with 95 % interval':<{width}}{header}")
        for label, attribute in rows:
            cells = "".join(f"{getattr(column, attribute)!s:>24}" for column in self.columns.values())
            lines.append(f"{label:<{width}}{cells}")
        if self.failed:
            counts = "".join(f"{column.rows:>24}" for column in self.columns.values())
            lines.append(f"{'rows in the means':<{width}}{counts}")
        lines += ["", *(f"{count:>6}  {label}" for label, count in self.counts.items() if count)]
        if self.not_gradable:
            lines.append(f"{len(self.not_gradable):>6}  tasks that cannot be graded, in no mean:")
            shown = list(self.not_gradable.items())[:_SHOWN_REASONS]
            lines += [f"{'':8}{task}: {why}" for task, why in shown]
            lines += [f"{'':8}..."] * (len(self.not_gradable) > len(shown))
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
    best = [max(task) for task in by_task]
    return Column(
        tests_passed=mean_interval([_mean(task) for task in by_task]),
        success=proportion_interval([_mean([float(value == 1) for value in task]) for task in by_task]),
        best_of_k_tests_passed=mean_interval(best),
        best_of_k_success=proportion_interval([float(value == 1) for value in best]),
        not_graded=sum(values[row] is None for group in groups for row in group),
        rows=sum(map(len, by_task)),
    )


def failed_words(failed: int) -> str:
    """What the title of a table says of episodes that are in none of its numbers."""
    return f"; {failed} failed and are in no number" if failed else ""


def mean_interval(values: Sequence[float]) -> Estimate:
    """Normal interval around the mean of independent values in [0, 1]."""
    mean = _mean(values)
    if len(values) < 2:
        return Estimate(mean, 0.0, 1.0)
    variance = sum((value - mean) ** 2 for value in values) / (len(values) - 1)
    half = _Z * math.sqrt(variance / len(values))
    return Estimate(mean, max(0.0, mean - half), min(1.0, mean + half))


def proportion_interval(values: Sequence[float]) -> Estimate:
    """Wilson interval around the mean of independent values in [0, 1]; honest also at 0 and 1.

    Values between 0 and 1 (a task's share of successes over its repeats) vary less than coin throws, so that
    the interval is then a little too wide, never too narrow.
    """
    count, mean = len(values), _mean(values)
    if not count:
        return Estimate(mean, 0.0, 1.0)
    scale = 1 + _Z**2 / count
    centre = (mean + _Z**2 / (2 * count)) / scale
    half = _Z * math.sqrt(mean * (1 - mean) / count + _Z**2 / (4 * count**2)) / scale
    return Estimate(mean, max(0.0, centre - half), min(1.0, centre + half))


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
