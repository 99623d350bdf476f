"""Means of page grades with 95 % intervals, best of k, and floors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field

from sweet_rl.grading.pages.grader import FLOORS
from sweet_rl.grading.pages.metrics import METRICS
from sweet_rl.grading.report import failed_words, repeats_words
from sweet_rl.statistics import Estimate, mean_over_tasks
from sweet_rl.types import Json


@dataclass(frozen=True, slots=True)
class MetricLine:
    """One metric over all graded rows, over the best repeat of each task, and the floors over tasks."""

    mean: Estimate
    best_of_k: Estimate
    floors: Mapping[str, float]
    rows: int


@dataclass(frozen=True, slots=True)
class PageReport:
    """What `evaluate_html` prints and writes. `rewards` is about what the rows hold as reward."""

    trajectories: int
    tasks: int
    k: int | None
    metric: str
    rewards: MetricLine
    metrics: Mapping[str, MetricLine]
    counts: Mapping[str, int] = field(default_factory=dict)
    failed: int = 0

    def to_json(self) -> dict[str, Json]:
        """All numbers as a JSON object; fractions are in [0, 1]."""
        return asdict(self)

    def to_text(self, title: str) -> str:
        """The table that is printed; numbers in percent."""
        size = f"{self.trajectories} trajectories, {self.tasks} tasks{repeats_words(self.k)}"
        lines = [f"{title}: {size}{failed_words(self.failed)}; the reward is {self.metric}", ""]
        best = f"best of {self.k}" if self.k is not None and self.k > 1 else ""
        header = f"{'%, with 95 % interval':<24}{'mean':>22}" + (f"{best:>22}" if best else "")
        lines.append(header + "".join(f"{floor:>16}" for floor in FLOORS))
        shown = {"reward": self.rewards} | dict(self.metrics)
        for name, line in shown.items():
            row = f"{name:<24}{line.mean!s:>22}" + (f"{line.best_of_k!s:>22}" if best else "")
            row += "".join(f"{100 * line.floors[floor]:>16.1f}" for floor in FLOORS if floor in line.floors)
            lines.append(row)
        lines += ["", *(f"{count:>6}  {label}" for label, count in self.counts.items() if count)]
        return "\n".join(lines).rstrip()


def page_report(
    rows: Sequence[Mapping[str, Json]],
    groups: Sequence[Sequence[int]],
    *,
    k: int | None,
    metric: str,
    failed: int = 0,
) -> PageReport:
    """Fold graded rows into a report; rows without a number are left out."""
    lines = {}
    for name in METRICS:
        values = [(row.get("grades") or {}).get(name) for row in rows]
        if any(value is not None for value in values):
            lines[name] = _line(values, groups, _floors(rows, groups, name))
    floors = lines[metric].floors if metric in lines else {}
    rewards = _line([row.get("reward") for row in rows], groups, floors)
    counts = _counts([rows[row] for group in groups for row in group])
    return PageReport(len(rows), len(groups), k, metric, rewards, lines, counts, failed)


def _line(
    values: Sequence[float | None], groups: Sequence[Sequence[int]], floors: Mapping[str, float]
) -> MetricLine:
    by_task = [[value for row in group if (value := values[row]) is not None] for group in groups]
    known = [task for task in by_task if task]
    return MetricLine(
        mean_over_tasks(known, low=0, high=1),
        mean_over_tasks([[max(task)] for task in known], low=0, high=1),
        floors,
        sum(map(len, known)),
    )


def _floors(
    rows: Sequence[Mapping[str, Json]], groups: Sequence[Sequence[int]], metric: str
) -> dict[str, float]:
    """Mean over tasks of what each floor scores; every repeat of a task has the same."""
    means = {}
    for floor in FLOORS:
        values = [
            value
            for group in groups
            if (value := ((rows[group[0]].get("floors") or {}).get(floor) or {}).get(metric)) is not None
        ]
        if values:
            means[floor] = sum(values) / len(values)
    return means


def _counts(rows: Sequence[Mapping[str, Json]]) -> dict[str, int]:
    """How many rows have what a reader of the table should know."""
    details = [row.get("grading_details") or {} for row in rows]
    kinds = [{failure["kind"] for failure in detail.get("failures") or []} for detail in details]
    shown = [detail.get("picture") for detail in details]
    scored = [row.get("reward") is not None for row in rows]
    return {
        "rows without a reward: their target gives no picture; they are in no number above": scored.count(
            False
        ),
        "rows with a stored reward of unknown grading": sum(
            known and not row.get("grades") for known, row in zip(scored, rows, strict=True)
        ),
        "dialogues without a picture: a black one replaces it": shown.count("none"),
        "pictures that are missing at the path in the row: black as well": shown.count("missing"),
        "pictures that cannot be decoded: black as well": shown.count("broken"),
        "pictures without a page in the dialogue: text and layout are 0": sum(
            "no_html" in kind for kind in kinds
        ),
        "pictures whose page could not be rendered again: text and layout are 0": sum(
            any(name.startswith("answer_") for name in kind) for kind in kinds
        ),
        "dialogues with a failed request": sum(bool(row.get("failures") or row.get("error")) for row in rows),
    }
