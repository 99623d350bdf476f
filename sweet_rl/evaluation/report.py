"""The report on one run: its numbers, why episodes are no success, who played, answered and graded, and what it has cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field

from sweet_rl.evaluation.episodes import (
    CUT_OFF,
    EMPTY,
    NOT_GRADABLE,
    REFUSED,
    TOOL_CALL,
    Episode,
    Episodes,
    Measure,
    measures_of,
    passes,
)
from sweet_rl.statistics import Estimate
from sweet_rl.types import Json

FORMAT = "sweet_rl.eval/1"

_LONGEST = 60
"""Characters of a cell at most."""

_MUCH = 0.05
"""A larger share of turns that are cut off is said first of all."""

_NAMED = 10
"""So many tasks that cannot be graded are printed."""

_EXAMPLES = 3

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
class Category:
    """A reason why episodes are no success, with those that it is the first reason of, and their share of all."""

    name: str
    episodes: Sequence[Episode]
    share: float

    def to_json(self) -> dict[str, Json]:
        """As the report has it."""
        examples = [{"task": one.task, "sample": one.sample, "why": one.why} for one in self.episodes]
        return {"episodes": len(self.episodes), "share": self.share, "examples": examples[:_EXAMPLES]}


@dataclass(frozen=True, slots=True)
class Report:
    """What came out.

    Attributes:
        title: world, tasks and agent in a line.
        tasks: how many.
        played: episodes in the file.
        failed: of them, for want of a service; in no number.
        lines: the numbers.
        categories: of the episodes that are no success, each of which is in one; the largest first.
        turns: of the agent, in all episodes.
        flaws: of these, how many were cut off, refused, a tool call or empty.
        not_gradable: why, by the tasks that allow no grade.
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
    categories: Sequence[Category] = ()
    turns: int = 0
    flaws: Mapping[str, int] = field(default_factory=dict)
    not_gradable: Mapping[str, str] = field(default_factory=dict)
    families: Mapping[str, Line] = field(default_factory=dict)
    bounds: Mapping[str, Sequence[Line]] = field(default_factory=dict)
    about: Mapping[str, Json] = field(default_factory=dict)
    usage: Mapping[str, Mapping[str, Mapping[str, Json]]] = field(default_factory=dict)
    cost: Mapping[str, Json] | None = None
    problems: Sequence[str] = ()

    @property
    def warnings(self) -> list[str]:
        """What has to be known before any number."""
        cut = self.flaws.get(CUT_OFF, 0)
        if cut <= _MUCH * self.turns:
            return []
        limit = (self.about.get("agent") or {}).get("max_tokens")
        return [
            f"{100 * cut / self.turns:.1f} % of the agent's turns ({cut:,} of {self.turns:,}) were cut off by the token "
            f"limit{'' if limit is None else f' of {limit}'}: raise --max_tokens. The numbers are of what was left."
        ]

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
            "warnings": self.warnings,
            "title": self.title,
            "tasks": self.tasks,
            "episodes": self.played,
            "failed": self.failed,
            "measures": {line.name: line.to_json() for line in self.lines},
            "categories": {each.name: each.to_json() for each in self.categories},
            "agent_turns": {"all": self.turns, **self.flaws},
            "not_gradable": dict(self.not_gradable),
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
        lines = [f"Warning: {warning}" for warning in self.warnings]
        lines += [self.title, f"{self.tasks} tasks, {self.played} episodes{failed}", ""]
        rows: list[Sequence[str]] = [("", "mean", "error", "95 % interval", "tasks", "episodes")]
        rows += [_cells(line.name, line) for line in self.lines]
        if self.families:
            what = self.lines[0].name
            rows += [_cells(f"{what}: {name}", line) for name, line in self.families.items()]
        for name, several in self.bounds.items():
            rows += [_cells(f"{line.name} of {name}", line) for line in several]
        lines += aligned(rows)
        if self.categories:
            rows = [(self.why_heading, "episodes", "%", "for example")]
            rows += [
                (each.name, f"{len(each.episodes):,}", f"{100 * each.share:.1f}", each.episodes[0].task)
                for each in self.categories
            ]
            lines += ["", *aligned(rows)]
        lines += ["", *self._facts(), *(f"Note: {problem}." for problem in self.problems)]
        return "\n".join(lines)

    @property
    def why_heading(self) -> str:
        """What stands above the categories."""
        has_success = any(line.unit == "success" for line in self.lines)
        return "why episodes are no success" if has_success else "what went wrong"

    def _facts(self) -> Iterator[str]:
        if any(self.flaws.values()):
            found = [f"{name} {number:,}" for name, number in self.flaws.items() if number]
            yield f"agent's turns: {self.turns:,}, of them {', '.join(found)}"
        if self.not_gradable:
            yield f"{len(self.not_gradable)} tasks cannot be graded, and are in no mean of grades:"
            named = list(self.not_gradable.items())
            yield from (f"  {one_line(task)}: {' '.join(why.split())[:300]}" for task, why in named[:_NAMED])
            if len(named) > _NAMED:
                yield f"  ... {len(named) - _NAMED} more are in the report's file"
        elif not any(line.name not in {"turns", "questions"} for line in self.lines):
            yield "no episode has a grade"
        for role in ("agent", "human", "grader"):
            known = self.about.get(role) or {}
            said = {
                name: value for name, value in known.items() if value != "" and not isinstance(value, list)
            }
            if said and role != "agent":
                yield f"{role}: " + ", ".join(f"{name} {value}" for name, value in said.items())
            yield from (
                f"{role}: {one}" for value in known.values() if isinstance(value, list) for one in value
            )
        yield from self.used()

    def used(self) -> Iterator[str]:
        """What models used and cost, in a line for each."""
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


def report_of(
    found: Episodes,
    title: str,
    *,
    bounds: Mapping[str, Sequence[Line]] | None = None,
    about: Mapping[str, Json] | None = None,
    usage: Mapping[str, Mapping[str, Mapping[str, Json]]] | None = None,
    cost: Mapping[str, Json] | None = None,
    problems: Sequence[str] = (),
) -> Report:
    """The report on the episodes of a run; what is not in them is given, as in `Report`."""
    episodes, first = found.episodes, measures_of([found])[0]
    names = sorted({one.family for one in episodes if one.family})
    families = {
        name: _line(first.name, first, values)
        for name in names
        if len(names) > 1 and (values := first.by_task(one for one in episodes if one.family == name))
    }
    by_category: dict[str, list[Episode]] = {}
    for one in episodes:
        by_category.setdefault(one.category, []).append(one)
    by_category.pop("", None)
    flaws = Counter(flaw for one in episodes for flaw in one.flaws)
    return Report(
        title,
        len(found.contents),
        len(episodes),
        sum(one.failed for one in episodes),
        lines_of(found),
        [
            Category(name, several, len(several) / len(episodes))
            for name, several in sorted(by_category.items(), key=lambda each: -len(each[1]))
        ],
        sum(one.turns for one in episodes),
        {flaw: flaws[flaw] for flaw in (CUT_OFF, REFUSED, TOOL_CALL, EMPTY)},
        {one.task: one.why for one in by_category.get(NOT_GRADABLE, ())},
        families,
        bounds or {},
        about or {},
        usage or {},
        cost,
        [*found.problems, *problems],
    )


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
