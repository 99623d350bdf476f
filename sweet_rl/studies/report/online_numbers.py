"""Numbers of an online study: differences paired over seeds with their intervals, curves on a common grid."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Literal

from sweet_rl.studies.report.online_data import OnlineMethod
from sweet_rl.studies.report.report_data import Points

GRID = 41
"""Points of a mean curve."""

_T_975 = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
)
"""Student's t at 97.5 % for 1, 2, ... degrees of freedom."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A mean difference over seeds with Student's 95 % interval; `each` is (seed, difference)."""

    mean: float
    low: float | None
    high: float | None
    each: tuple[tuple[int, float], ...]

    @property
    def includes_zero(self) -> bool | None:
        """Whether 0 lies in the interval; None where there is no interval."""
        if self.low is None or self.high is None:
            return None
        return self.low <= 0 <= self.high

    def times(self, factor: float) -> Difference:
        """In another unit; `factor` is positive."""
        low, high = (None if end is None else factor * end for end in (self.low, self.high))
        each = tuple((seed, factor * value) for seed, value in self.each)
        return Difference(factor * self.mean, low, high, each)


def t_975(freedom: int) -> float:
    """Student's t at 97.5 %; beyond twenty degrees of freedom a little too wide."""
    return _T_975[min(freedom, len(_T_975)) - 1]


def difference(each: Sequence[tuple[int, float]]) -> Difference | None:
    """Mean and interval of (seed, difference); None without any, no interval with one."""
    values = [value for _, value in each]
    if not values:
        return None
    mean = fmean(values)
    if len(values) == 1:
        return Difference(mean, None, None, tuple(each))
    half = t_975(len(values) - 1) * stdev(values) / math.sqrt(len(values))
    return Difference(mean, mean - half, mean + half, tuple(each))


def paired(ours: Mapping[int, float | None], theirs: Mapping[int, float | None]) -> Difference | None:
    """The values of the one minus those of the other, over the seeds that both have."""
    pairs = [(seed, value, theirs.get(seed)) for seed, value in ours.items()]
    return difference([(seed, a - b) for seed, a, b in pairs if a is not None and b is not None])


def gained(method: OnlineMethod) -> Difference | None:
    """End minus start, paired over seeds."""
    return paired(_returns(method, "end"), _returns(method, "start"))


def ahead(method: OnlineMethod, other: OnlineMethod) -> Difference | None:
    """The end of one method minus that of the other, paired over the seeds that both have."""
    return paired(_returns(method, "end"), _returns(other, "end"))


def _returns(method: OnlineMethod, when: Literal["start", "end"]) -> dict[int, float | None]:
    """Mean returns by seed."""
    return {run.seed: getattr(run, when).mean_return for run in method.seeds}


def mean_of(values: Sequence[float | None]) -> float | None:
    """The mean of the values that are not None; None without any."""
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


@dataclass(frozen=True, slots=True)
class Band:
    """Curves of several seeds on a common grid: their mean, and one standard error around it."""

    mean: Points
    low: Points
    high: Points


def band(curves: Sequence[Points]) -> Band | None:
    """The mean of curves over the range that all of them cover; straight lines between their points.

    The standard error of a single curve is 0.
    """
    drawn = [curve for curve in curves if curve]
    if not drawn:
        return None
    first, last = max(curve[0][0] for curve in drawn), min(curve[-1][0] for curve in drawn)
    if last < first:
        return None
    places = (
        [first + (last - first) * index / (GRID - 1) for index in range(GRID)] if last > first else [first]
    )
    columns = [[at(curve, x) for curve in drawn] for x in places]
    means = [fmean(column) for column in columns]
    errors = [stdev(column) / math.sqrt(len(column)) if len(column) > 1 else 0.0 for column in columns]
    triples = list(zip(places, means, errors, strict=True))
    return Band(
        mean=tuple((x, y) for x, y, _ in triples),
        low=tuple((x, y - error) for x, y, error in triples),
        high=tuple((x, y + error) for x, y, error in triples),
    )


def at(curve: Points, x: float) -> float:
    """The height of a curve at `x`; beyond an end, that of the end."""
    for (left, low), (right, high) in itertools.pairwise(curve):
        if left <= x <= right:
            return low if right == left else low + (high - low) * (x - left) / (right - left)
    return curve[0][1] if x < curve[0][0] else curve[-1][1]
