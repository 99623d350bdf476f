"""Input of a Reflect-RL study's report, as checked dataclasses, and what follows from its numbers.

Anything may be missing or null. Something of a wrong kind is refused by its dotted name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from sweet_rl.errors import DataError
from sweet_rl.studies.report.fields import Fields
from sweet_rl.studies.report.online_numbers import Difference, mean_of, paired
from sweet_rl.studies.report.report_data import Points, ReportHead, read_head, read_points
from sweet_rl.types import Json

Verdict: TypeAlias = Literal["holds", "reversed", "open", "unknown"]
"""Whether an ordering holds at this size: by an interval that excludes 0, the other way round, by none."""

VERDICTS: Mapping[Verdict, str] = {
    "holds": "holds here",
    "reversed": "is the other way round here",
    "open": "not settled here",
    "unknown": "one seed does not settle it",
}
"""What is said of a claim."""


@dataclass(frozen=True, slots=True)
class SeedRun:
    """One run of a method.

    `success` is that of the policy it made, on games that nothing was learned from; `levels` the same by
    level. `curve` is (episodes played, share of them that succeeded), in rising order.
    """

    seed: int
    success: float | None
    levels: Mapping[str, float]
    curve: Points


@dataclass(frozen=True, slots=True)
class Method:
    """One way to make a policy, and its runs in the order of their seeds."""

    key: str
    name: str
    description: str
    seeds: tuple[SeedRun, ...]

    @property
    def success(self) -> float | None:
        """Success, as the mean over the method's seeds; None without any."""
        return mean_of([run.success for run in self.seeds])

    def level(self, name: str) -> float | None:
        """Mean success on one level over seeds."""
        return mean_of([run.levels.get(name) for run in self.seeds])


@dataclass(frozen=True, slots=True)
class Ordering:
    """A claim that one method is better than another, and what was found."""

    claim: str
    better: Method
    worse: Method

    @property
    def lead(self) -> Difference | None:
        """Success of the one minus that of the other, paired over the seeds that both have."""
        return ahead(self.better, self.worse)

    @property
    def verdict(self) -> Verdict:
        """What the numbers say of the claim; one seed never settles it."""
        found = self.lead
        if found is None or found.low is None or found.high is None:
            return "unknown"
        if found.low > 0:
            return "holds"
        return "reversed" if found.high < 0 else "open"


@dataclass(frozen=True, slots=True)
class World:
    """One world: its levels in their order, what was tried in it, and which orderings are claimed."""

    name: str
    text: str
    levels: tuple[str, ...]
    methods: tuple[Method, ...]
    orderings: tuple[Ordering, ...]


@dataclass(frozen=True, slots=True)
class ReflectReport:
    """All data of the report page."""

    head: ReportHead
    worlds: tuple[World, ...]


def ahead(method: Method, other: Method) -> Difference | None:
    """Success of one method minus that of the other, paired over the seeds that both have."""
    ours, theirs = ({run.seed: run.success for run in each.seeds} for each in (method, other))
    return paired(ours, theirs)


def read_reflect_report(study: Mapping[str, Json]) -> ReflectReport:
    """The study with its kinds checked.

    Raises:
        DataError: a value is of another kind than the page needs; names the field.
    """
    fields = Fields(study, "")
    return ReflectReport(
        head=read_head(fields),
        worlds=tuple(map(_world, fields.rows("worlds"))),
    )


def _world(row: Fields) -> World:
    methods = tuple(map(_method, row.rows("methods")))
    by_key = {method.key: method for method in methods}
    orderings = [_ordering(claim, by_key) for claim in row.rows("orderings")]
    levels = dict.fromkeys(name for method in methods for run in method.seeds for name in run.levels)
    return World(row.title(), row.text("text"), tuple(levels), methods, tuple(orderings))


def _ordering(row: Fields, by_key: Mapping[str, Method]) -> Ordering:
    sides = []
    for side in ("better", "worse"):
        key = row.text(side)
        if key not in by_key:
            raise DataError("must be the key of a method", field=f"{row.name}.{side}", value=key)
        sides.append(by_key[key])
    return Ordering(row.text("claim"), *sides)


def _method(row: Fields) -> Method:
    return Method(row.text("key"), row.title(), row.text("description"), row.by_seed("seeds", _run))


def _run(seed: int, row: Fields) -> SeedRun:
    return SeedRun(seed, row.number("success"), row.fields("levels").numbers(), read_points(row, "curve"))
