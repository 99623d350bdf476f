"""The report on one run: its numbers, why episodes are no success, who played, answered and graded, and what it has cost."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, field
from typing import Any, Literal

from sweet_rl.evaluation.episodes import CUT_OFF, EMPTY, NOT_GRADABLE, REFUSED, TOOL_CALL, Episode, Episodes
from sweet_rl.statistics import Estimate, mean_over_tasks, pass_all, pass_at, share_over_tasks
from sweet_rl.types import Json

FORMAT = "sweet_rl.eval/1"

_LONGEST = 60  # characters of a cell at most
_MUCH = 0.05  # a larger share of turns that are cut off is said first of all
_NAMED = 10  # tasks that cannot be graded are printed
_EXAMPLES = 3
_UNITS = {"prompt_tokens": "tokens in", "completion_tokens": "tokens out", "requests": "requests"}


Unit = Literal["success", "share", "number"]

ByTask = Mapping[str, Sequence[float]]
"""The values of each task's repeats; tasks without any are not there."""


@dataclass(frozen=True, slots=True)
class Line:
    """A number of the report: its estimate, and of how many tasks and episodes it is."""

    name: str
    unit: Unit
    estimate: Estimate
    tasks: int
    episodes: int

    @property
    def shown(self) -> tuple[str, str, str]:
        """Mean, error and interval in words, shares in percent."""
        mean, low, high, error = (value(one, self.unit) for one in astuple(self.estimate))
        return mean, error, f"[{low}, {high}]" if low and high else ""

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
    """What came out."""

    title: str  # world, tasks and agent in a line
    tasks: int
    played: int  # episodes in the file
    failed: int  # of them, because a service could not be used; in no number
    lines: Sequence[Line]  # the numbers
    categories: Sequence[Category] = ()  # of the episodes that are no success, each in one; the largest first
    turns: int = 0  # of the agent, in all episodes
    flaws: Mapping[str, int] = field(default_factory=dict)  # turns cut off, refused, a tool call or empty
    not_gradable: Mapping[str, str] = field(default_factory=dict)  # why, by the tasks that allow no grade
    families: Mapping[str, Line] = field(default_factory=dict)  # the first number of each kind of task
    bounds: Mapping[str, Sequence[Line]] = field(default_factory=dict)  # of floors and ceilings, by name
    about: Mapping[str, Json] = field(default_factory=dict)  # who played, answered and graded, and what
    usage: Mapping[str, Mapping[str, Mapping[str, Json]]] = field(default_factory=dict)  # by role, by model
    cost: Mapping[str, Json] | None = None  # in dollars by role; None without prices
    problems: Sequence[str] = ()  # of the file

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
            "bounds": {name: {one.name: one.to_json() for one in each} for name, each in self.bounds.items()},
            **self.about,
            "usage": self.usage,
            "cost": self.cost,
            "problems": list(self.problems),
        }

    def __str__(self) -> str:
        """The table that is printed."""
        failed = f", {self.failed} failed and are in no number" if self.failed else ""
        lines = [f"Warning: {warning}" for warning in self.warnings]
        lines += [self.title, f"{self.tasks} tasks, {self.played} episodes{failed}", ""]
        rows: list[Sequence[str]] = [("", "mean", "error", "95 % interval", "tasks", "episodes")]
        named = [(line.name, line) for line in self.lines]
        named += [(f"{self.lines[0].name}: {name}", line) for name, line in self.families.items()]
        named += self.of_bounds()
        for name, line in named:
            percent = "" if line.unit == "number" else ", %"
            rows.append((f"{name}{percent}", *line.shown, f"{line.tasks:,}", f"{line.episodes:,}"))
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

    def of_bounds(self) -> list[tuple[str, Line]]:
        """The numbers of floors and ceilings, each with the name of both."""
        return [(f"{one.name} of {name}", one) for name, several in self.bounds.items() for one in several]

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
            said = {name: one for name, one in known.items() if one != "" and not isinstance(one, list)}
            if said and role != "agent":
                yield f"{role}: " + ", ".join(f"{name} {value}" for name, value in said.items())
            sentences = (one for value in known.values() if isinstance(value, list) for one in value)
            yield from (f"{role}: {one}" for one in sentences)
        yield from self.used()

    def used(self) -> Iterator[str]:
        """What models used and cost, in a line for each."""
        for role, models in self.usage.items():
            who = "human" if role == "user" else role
            for model, used in models.items():
                known = ((used.get(name), unit) for name, unit in _UNITS.items())
                parts = [f"{number:,} {unit}" for number, unit in known if number is not None]
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
        lines.append(_line(measure, values))
        most = max(map(len, values.values()), default=0) if measure.unit == "success" else 1
        for k in sorted({k for k in (2, 4, 8, 16, 32, 64, most) if 1 < k <= most}):
            enough = [task for task in values.values() if len(task) >= k]
            size = len(enough), sum(map(len, enough))
            some, every = passes(values, k)
            lines += [Line(f"pass@{k}", "share", some, *size), Line(f"pass^{k}", "share", every, *size)]
    return lines


def report_of(found: Episodes, title: str, *, problems: Sequence[str] = (), **given: Any) -> Report:
    """The report on the episodes of a run; what is not in them is given: bounds, about, usage, cost, as in `Report`."""
    episodes, first = found.episodes, measures_of([found])[0]
    names = sorted({one.family for one in episodes if one.family})
    families = {
        name: _line(first, values)
        for name in names
        if len(names) > 1 and (values := first.by_task(one for one in episodes if one.family == name))
    }
    by_category: dict[str, list[Episode]] = {}
    for one in episodes:
        by_category.setdefault(one.category, []).append(one)
    by_category.pop("", None)
    flaws = Counter(flaw for one in episodes for flaw in one.flaws)
    largest = sorted(by_category.items(), key=lambda each: -len(each[1]))
    counts = len(found.contents), len(episodes), sum(one.failed for one in episodes)
    categories = [Category(name, several, len(several) / len(episodes)) for name, several in largest]
    turns = sum(one.turns for one in episodes)
    counted = {flaw: flaws[flaw] for flaw in (CUT_OFF, REFUSED, TOOL_CALL, EMPTY)}
    no_grade = {one.task: one.why for one in by_category.get(NOT_GRADABLE, ())}
    given["problems"] = [*found.problems, *problems]
    return Report(title, *counts, lines_of(found), categories, turns, counted, no_grade, families, **given)


def _line(measure: Measure, values: ByTask) -> Line:
    size = len(values), sum(map(len, values.values()))
    return Line(measure.name, measure.unit, measure.estimate(values), *size)


def value(number: float | None, unit: Unit) -> str:
    """A mean; a share in percent."""
    if number is None:
        return ""
    return f"{number:.2f}" if unit == "number" else f"{100 * number:.1f}"


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


# ---- the numbers of an episode, and their means over tasks


@dataclass(frozen=True, slots=True)
class Measure:
    """A number that episodes have."""

    name: str
    field: Literal["success", "reward", "turns", "questions"]
    unit: Unit  # success (0 or 1), a share from 0 to 1, or any number
    better: Literal["more", "fewer", ""] = "more"  # which direction is good; empty where neither is
    low: float | None = 0.0  # no value is lower,
    high: float | None = None  # or higher

    def by_task(self, episodes: Iterable[Episode]) -> dict[str, list[float]]:
        """The values of each task's repeats that have one."""
        values: dict[str, list[float]] = {}
        for episode in episodes:
            value = None if episode.failed else getattr(episode, self.field)
            if value is not None:
                values.setdefault(episode.task, []).append(value)
        return values

    def estimate(self, values: ByTask) -> Estimate:
        """The mean over tasks, with its error and its interval."""
        tasks = list(values.values())
        if self.unit == "success":
            return share_over_tasks(tasks)
        return mean_over_tasks(tasks, low=self.low, high=self.high)


def measures_of(several: Sequence[Episodes]) -> list[Measure]:
    """What all of these have in common, the most telling first."""
    found: list[Measure] = []
    if all(any(each.success is not None for each in one.episodes) for one in several):
        found.append(Measure("success", "success", "success", high=1.0))
    worlds = {None if one.world is None else one.world.name: one.world for one in several}
    world = next(iter(worlds.values()))
    if all(any(each.reward is not None for each in one.episodes) for one in several):
        title = "reward" if world is None or len(worlds) > 1 else world.scores.name
        rewards = [each.reward for one in several for each in one.episodes if each.reward is not None]
        share = all(0 <= reward <= 1 for reward in rewards)
        names = {json.loads(text).get("grader") for one in several for text in one.graders}
        others = names.isdisjoint({None, "tests", "pages"})  # and not the one that the world names
        graded = len(rewards) == sum(sum(one.graders.values()) for one in several)
        if graded and (share if title == "return" else others):
            title = "grade"  # a grader's, and no sum of rewards
        share = share and title != "return"
        lows, highs = zip(*(one.bounds for one in several), strict=True)
        low = 0.0 if share else None if None in lows or min(rewards) < min(lows) else min(lows)
        high = 1.0 if share else None if None in highs or max(rewards) > max(highs) else max(highs)
        found.append(Measure(title, "reward", "share" if share else "number", "more", low, high))
    limit = max(one.max_turns or math.inf for one in several)
    most = max(each.turns for one in several for each in one.episodes)
    high = limit if most <= limit < math.inf else None
    found.append(Measure("turns", "turns", "number", "", 0.0, high))
    if any(each is None or each.user.by != "world" for each in worlds.values()):
        found.append(Measure("questions", "questions", "number", "", 0.0, high))
    return found


def passes(values: ByTask, k: int) -> tuple[Estimate, Estimate]:
    """pass@k and pass^k of success, over the tasks that have k repeats: of one at least."""
    enough = [task for task in values.values() if len(task) >= k]
    some, every = ([[how(k, round(sum(one)), len(one))] for one in enough] for how in (pass_at, pass_all))
    return mean_over_tasks(some, low=0.0, high=1.0), mean_over_tasks(every, low=0.0, high=1.0)
