"""The report on one run: its numbers, who played, answered and graded, and what it has cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field

from sweet_rl.evaluation.episodes import Episodes
from sweet_rl.evaluation.measures import Measure, measures_of, passes
from sweet_rl.statistics import Estimate
from sweet_rl.types import Json

FORMAT = "sweet_rl.eval/1"

_LONGEST = 60
"""Characters of a cell at most."""

_UNITS = {"prompt_tokens": "tokens in", "completion_tokens": "tokens out", "requests": "requests"}


@dataclass(frozen=True, slots=True)
class Line:
    """A number of the report: its estimate, and of how many tasks and episodes it is."""

    name: str
    unit: str
    estimate: Estimate
    tasks: int
    episodes: int

    def to_json(self) -> dict[str, Json]:
        """As the report has it."""
        return {"unit": self.unit, **asdict(self.estimate), "tasks": self.tasks, "episodes": self.episodes}


@dataclass(frozen=True, slots=True)
class Report:
    """What came out.

    Attributes:
        title: world, tasks and agent in a line.
        tasks: how many.
        played: episodes in the file.
        failed: of them, for want of a service; in no number.
        lines: the numbers.
        families: the first number of each kind of task.
        bounds: the first numbers of floors and ceilings, by their names.
        about: who played, answered and graded, and what was played, as JSON.
        usage: of models, by role, then by model.
        cost: in dollars by role; None without prices.
        problems: of the file.
    """

    title: str
    tasks: int
    played: int
    failed: int
    lines: Sequence[Line]
    families: Mapping[str, Line] = field(default_factory=dict)
    bounds: Mapping[str, Sequence[Line]] = field(default_factory=dict)
    about: Mapping[str, Json] = field(default_factory=dict)
    usage: Mapping[str, Mapping[str, Mapping[str, Json]]] = field(default_factory=dict)
    cost: Mapping[str, Json] | None = None
    problems: Sequence[str] = ()

    def __str__(self) -> str:
        return self.to_text()

    def means(self) -> dict[str, float]:
        """The means alone, shares as fractions; those of floors and ceilings as NAME.MEASURE."""
        named = {f"{name}.": lines for name, lines in self.bounds.items()} | {"": self.lines}
        return {before + line.name: line.estimate.mean for before, lines in named.items() for line in lines}

    def to_json(self) -> dict[str, Json]:
        """Everything, shares as fractions."""
        return {
            "format": FORMAT,
            "title": self.title,
            "tasks": self.tasks,
            "episodes": self.played,
            "failed": self.failed,
            "measures": {line.name: line.to_json() for line in self.lines},
            "families": {name: line.to_json() for name, line in self.families.items()},
            "bounds": {
                name: {line.name: line.to_json() for line in lines} for name, lines in self.bounds.items()
            },
            **self.about,
            "usage": self.usage,
            "cost": self.cost,
            "problems": list(self.problems),
        }

    def to_text(self) -> str:
        """The table that is printed."""
        failed = f", {self.failed} failed and are in no number" if self.failed else ""
        lines = [self.title, f"{self.tasks} tasks, {self.played} episodes{failed}", ""]
        rows: list[Sequence[str]] = [("", "mean", "error", "95 % interval", "tasks", "episodes")]
        rows += [_cells(line.name, line) for line in self.lines]
        if self.families:
            what = self.lines[0].name
            rows += [_cells(f"{what}: {name}", line) for name, line in self.families.items()]
        for name, several in self.bounds.items():
            rows += [_cells(f"{line.name} of {name}", line) for line in several]
        lines += aligned(rows)
        lines += ["", *self._facts(), *(f"Note: {problem}." for problem in self.problems)]
        return "\n".join(lines)

    def _facts(self) -> Iterator[str]:
        graded = next((line for line in self.lines if line.name not in {"turns", "questions"}), None)
        if graded is not None and (missing := self.played - self.failed - graded.episodes):
            yield f"{missing} episodes have no grade, which their tasks do not allow: in no mean of grades"
        for role in ("human", "grader"):
            if known := self.about.get(role):
                yield f"{role}: " + ", ".join(
                    f"{name} {value}" for name, value in known.items() if value != ""
                )
        for role, models in self.usage.items():
            who = "human" if role == "user" else role
            for model, used in models.items():
                parts = [
                    f"{used[name]:,} {unit}" for name, unit in _UNITS.items() if used.get(name) is not None
                ]
                if used.get("prompt_tokens") is None:
                    parts.append("the server does not count tokens")
                if sent := used.get("retries"):
                    parts.append(f"{sent:,} sent again")
                dollars = self._dollars(role) if len(models) == 1 else ""
                yield f"{who} {model}: {', '.join(parts)}{dollars}"
            if len(models) > 1 and self.cost is not None:
                yield f"{who}, all models{self._dollars(role)}"

    def _dollars(self, role: str) -> str:
        if self.cost is None:
            return ""
        dollars = self.cost.get(f"{role}_usd")
        return "; its price is unknown" if dollars is None else f", ${dollars:.4f}"


def lines_of(found: Episodes) -> list[Line]:
    """All numbers of a run, pass@k and pass^k behind success where tasks have repeats."""
    lines = []
    for measure in measures_of([found]):
        values = measure.by_task(found.episodes)
        lines.append(_line(measure.name, measure, values))
        most = max(map(len, values.values()), default=0) if measure.unit == "success" else 1
        for k in _some(most):
            enough = [task for task in values.values() if len(task) >= k]
            size = len(enough), sum(map(len, enough))
            some, every = passes(values, k)
            lines += [Line(f"pass@{k}", "share", some, *size), Line(f"pass^{k}", "share", every, *size)]
    return lines


def _some(most: int) -> list[int]:
    """Numbers of repeats that are worth a line: 2, 4, 8 and so on, and all of them."""
    return sorted({k for k in (2, 4, 8, 16, 32, 64, most) if 1 < k <= most})


def families_of(found: Episodes) -> dict[str, Line]:
    """The first number of each kind of task, where there are several kinds."""
    names = sorted({episode.family for episode in found.episodes if episode.family})
    measure = measures_of([found])[0]
    if len(names) < 2:
        return {}
    by_name = {name: measure.by_task(one for one in found.episodes if one.family == name) for name in names}
    return {name: _line(measure.name, measure, values) for name, values in by_name.items() if values}


def counts_of(found: Episodes) -> tuple[int, int, int]:
    """Tasks, episodes, and episodes that failed."""
    failed = Counter(episode.failed for episode in found.episodes)[True]
    return len(found.contents), len(found.episodes), failed


def _line(name: str, measure: Measure, values: Mapping[str, Sequence[float]]) -> Line:
    return Line(name, measure.unit, measure.estimate(values), len(values), sum(map(len, values.values())))


def _cells(name: str, line: Line) -> tuple[str, ...]:
    found, share = line.estimate, line.unit != "number"
    write = _percent if share else _number
    span = "" if found.low is None or found.high is None else f"[{write(found.low)}, {write(found.high)}]"
    error = "" if found.error is None else write(found.error)
    return (
        f"{name}{', %' if share else ''}",
        write(found.mean),
        error,
        span,
        f"{line.tasks:,}",
        f"{line.episodes:,}",
    )


def _percent(value: float) -> str:
    return f"{100 * value:.1f}"


def _number(value: float) -> str:
    return f"{value:.2f}"


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """A table as lines: the first column to the left, numbers to the right."""
    rows = [[one_line(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            f"{cell:<{width}}" if place == 0 else f"{cell:>{width}}"
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def one_line(name: str) -> str:
    """A name as a line of a table has room for it: kinds of tasks and tasks are called by who made them."""
    line = " ".join(name.split())
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 3]}..."
