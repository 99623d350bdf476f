"""Estimates over tasks: means, shares, pass@k, and paired differences.

Repeats of a task are not independent of each other, tasks are: every standard error is clustered by task.
Formulas and their sources: docs/evaluate.md. The functions are few and short, and the light installation
has neither numpy nor scipy, so they are written out; tests hold each of them to scipy and statsmodels.
"""

from __future__ import annotations

import math
import operator
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from random import Random
from statistics import NormalDist, fmean, stdev
from typing import Any, Final, TypeVar

Key = TypeVar("Key")


Z: Final = 1.959964
"""97.5th percentile of the normal distribution."""

DRAWS: Final = 10_000
_MOST_DRAWN: Final = 5_000_000
"""Resamples of a bootstrap, and values drawn for all of them at most."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over tasks, 95 % interval and standard error, clustered by task; one task has neither."""

    mean: float
    low: float | None = None
    high: float | None = None
    error: float | None = None

    def __str__(self) -> str:
        """In percent."""
        text = f"{100 * self.mean:5.1f}"
        if self.low is None or self.high is None:
            return text
        return f"{text} [{100 * self.low:.1f}, {100 * self.high:.1f}]"


@dataclass(frozen=True, slots=True)
class Share(Estimate):
    """A share of tasks: its interval always has two ends."""

    low: float = 0.0
    high: float = 1.0


Tasks = Sequence[Sequence[float]]
"""The values of each task's repeats; of every task at least one."""


def mean_of(
    values: Sequence[float], *, among: int = 1, low: float | None = None, high: float | None = None
) -> Estimate:
    """The mean of independent values with Student's interval; 0 where there are none.

    Values that are all the same do not tell their spread. The interval then allows for others that were not
    drawn: the share that Wilson's interval leaves them, all at a bound. Without bounds (`low`, `high`) there is none;
    fewer than two values have all between them. `among` so many intervals all are right together with 95 % (Bonferroni).
    """
    if len(values) < 2:
        return Estimate(values[0] if values else 0.0, low, high)
    mean = fmean(values)
    if math.isclose(min(values), max(values), rel_tol=1e-9, abs_tol=1e-12):
        if low is None or high is None:
            return Estimate(mean, error=0.0)
        z = NormalDist().inv_cdf(1 - 0.025 / among)
        others = z**2 / (len(values) + z**2)
        return Estimate(mean, mean - others * (mean - low), mean + others * (high - mean), 0.0)
    error = stdev(values) / math.sqrt(len(values))
    half = student(len(values) - 1, 0.05 / among) * error
    return Estimate(
        mean,
        mean - half if low is None else max(low, mean - half),
        mean + half if high is None else min(high, mean + half),
        error,
    )


def mean_over_tasks(tasks: Tasks, *, low: float | None = None, high: float | None = None) -> Estimate:
    """The mean of the tasks' means: every task counts as one, however many of its repeats failed.

    Without both bounds the interval is that of `mean_of`. Between two it is Wilson's, of as many values at a
    bound as have the same standard error, and so never leaves them.
    """
    found = mean_of([fmean(task) for task in tasks], low=low, high=high)
    if low is None or high is None or not found.error:
        return found
    width = high - low
    ends = _wilson((found.mean - low) / width, len(tasks), found.error / width)
    return replace(found, low=low + width * ends[0], high=low + width * ends[1])


def share_over_tasks(tasks: Tasks) -> Share:
    """The mean of the tasks' shares, of values 0 and 1, with Wilson's interval; honest also at 0 and at 1.

    Wilson's interval is that of as many independent episodes as have the clustered standard error: not fewer
    than tasks, and not more than episodes.
    """
    found = mean_of([fmean(task) for task in tasks])
    if not tasks:
        return Share(found.mean)
    low, high = _wilson(found.mean, len(tasks), found.error, sum(map(len, tasks)))
    return Share(found.mean, low, high, found.error)


def _wilson(mean: float, tasks: int, error: float | None, most: float = math.inf) -> tuple[float, float]:
    """Wilson's interval of p (1 - p) / error^2 independent values of 0 and 1.

    That error is itself an estimate: Student's t takes the place of z, as in Korn and Graubard 1998. No mean
    of values between 0 and 1 varies more than one of as many tasks that are each 0 or 1.
    """
    spread, alike = mean * (1 - mean), 0.0
    if error:
        alike = spread / error**2 * (Z / student(tasks - 1)) ** 2
    elif spread and error == 0:  # all tasks have the same share
        alike = most
    count = min(most, max(float(tasks), alike))
    scale = 1 + Z**2 / count
    centre = (mean + Z**2 / (2 * count)) / scale
    half = Z * math.sqrt(spread / count + Z**2 / (4 * count**2)) / scale
    low, high = max(0.0, centre - half), min(1.0, centre + half)
    return low if mean else 0.0, high if mean < 1 else 1.0


def pass_at(k: int, successes: int, repeats: int) -> float:
    """pass@k of one task: the chance that of k repeats, drawn without replacement, one or more succeed."""
    return 1 - _all_among(k, repeats - successes, repeats)


def pass_all(k: int, successes: int, repeats: int) -> float:
    """pass^k of one task: the chance that of k repeats, drawn without replacement, all succeed."""
    return _all_among(k, successes, repeats)


def _all_among(k: int, some: int, repeats: int) -> float:
    if not 1 <= k <= repeats:
        raise ValueError(f"k must be from 1 to {repeats}, got {k}")
    return math.comb(some, k) / math.comb(repeats, k)


# ---- differences


@dataclass(frozen=True, slots=True)
class Difference:
    """The difference of two agents over the tasks that both were given: the first minus the second.

    `mean` is of the differences of the tasks' means, `low` to `high` its 95 % interval: None without bounds with
    one task, or where all tasks differ by the same. `p` is of no difference, two-sided, by `test`: "McNemar" (exact)
    where every task has one repeat with 0 or 1, "sign" (exact) where all tasks differ by the same, else "t"; None
    where there is none. `among` so many comparisons intervals are right together. The first agent is better in
    `wins` tasks, the second in `losses`.
    """

    tasks: int
    mean: float
    low: float | None
    high: float | None
    error: float | None
    p: float | None
    test: str
    wins: int
    losses: int
    ties: int
    among: int = 1

    @property
    def sign(self) -> int:
        """1 or -1 where the interval, or the test where it is alone, settles which is larger; else 0."""
        if self.low is None or self.high is None:
            settled = self.p is not None and self.p < 0.05 / self.among
        else:
            settled = self.low > 0 or self.high < 0
        return (1 if self.mean > 0 else -1) if settled else 0


def difference(
    ours: Tasks,
    theirs: Tasks,
    *,
    among: int = 1,
    bootstrap: bool = False,
    low: float | None = None,
    high: float | None = None,
) -> Difference:
    """Compare two agents task by task: the same tasks in the same order, at least one.

    `among` so many comparisons all intervals are right together with 95 % (Bonferroni); they end at `low` and `high`.
    `bootstrap`: the interval is a paired bootstrap's over tasks, not Student's, where not all tasks differ by the same.
    """
    each = [round(fmean(one) - fmean(other), 12) for one, other in zip(ours, theirs, strict=True)]
    found = mean_of(each, among=among, low=low, high=high)
    wins, losses = sum(value > 0 for value in each), sum(value < 0 for value in each)
    test, p = "t", None
    if found.error:
        p = max(0.0, 1 - _within(abs(found.mean) / found.error, len(each) - 1))
        if bootstrap:
            ends = bootstrapped(each, among=among)
            found = replace(found, low=ends[0], high=ends[1])
    elif found.error == 0:
        test, p = "sign", mcnemar(wins, losses)
    if all(len(task) == 1 and task[0] in {0, 1} for task in (*ours, *theirs)):
        test, p = "McNemar", mcnemar(wins, losses)
    estimate = (found.mean, found.low, found.high, found.error)
    return Difference(len(each), *estimate, p, test, wins, losses, len(each) - wins - losses, among)


def mcnemar(only_ours: int, only_theirs: int) -> float:
    """The exact two-sided p-value of McNemar's test: pairs that differ fall to either side by a fair coin."""
    number, fewer = only_ours + only_theirs, min(only_ours, only_theirs)
    if number >= 1000:  # whole numbers of many digits take long
        log_of = (
            math.lgamma(number + 1) - math.lgamma(place + 1) - math.lgamma(number - place + 1)
            for place in range(fewer + 1)
        )
        return min(1.0, 2 * math.fsum(math.exp(log - number * math.log(2)) for log in log_of))
    tail = sum(math.comb(number, place) for place in range(fewer + 1))
    return min(1.0, float(2 * tail / 2**number))


def bootstrapped(
    tasks: Sequence[Any], of: Callable[[Sequence[Any]], float | None] = fmean, *, among: int = 1, draws: int = DRAWS
) -> tuple[float, float]:  # fmt: skip
    """The percentile interval of a number `of` tasks, by so many draws (of very many tasks by fewer); see `difference`."""
    random, number = Random(0), len(tasks)
    draws = max(min(draws, 1000), min(draws, _MOST_DRAWN // number))
    drawn = (of(random.choices(tasks, k=number)) for _ in range(draws))
    found, outside = sorted(one for one in drawn if one is not None), 0.025 / among
    return found[int(outside * len(found))], found[math.ceil((1 - outside) * len(found)) - 1]


# ---- Student's t


@lru_cache(maxsize=1000)
def student(freedom: int, outside: float = 0.05) -> float:
    """What Student's t with these degrees of freedom exceeds, to either side, with probability `outside`.

    To three places, as printed tables have it.
    """
    low, high = 0.0, 1.0
    while 1 - _within(high, freedom) > outside:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if 1 - _within(middle, freedom) > outside else (low, middle)
    return round(high, 3)


def _within(t: float, freedom: int) -> float:
    """The probability that Student's t lies between -t and t: a finite sum for whole degrees of freedom."""
    angle = math.atan(t / math.sqrt(freedom))
    odd = freedom % 2
    term = math.cos(angle) if odd else 1.0
    total = 0.0
    for step in range(1 + odd, freedom, 2):
        total += term
        term *= step / (step + 1) * math.cos(angle) ** 2
    total *= math.sin(angle)
    return 2 / math.pi * (angle + total) if odd else total


def area_under_curve(good: Sequence[float], bad: Sequence[float]) -> float:
    """The chance that a good one scores above a bad one, ties counted half."""
    ordered = sorted(bad)
    wins = sum(bisect_left(ordered, one) + bisect_right(ordered, one) for one in good) / 2
    return wins / (len(good) * len(bad))


def other_places(keys: Sequence[Key], other: Callable[[Key, Key], bool] = operator.ne) -> list[int]:
    """For every place one whose key is another: whose input to try in its stead, in a swap test.

    The first one from half way round on, as neighbours are often of one task, or alike. Where there is no
    other (by `other`) everyone keeps its own place.
    """
    count = len(keys)
    return [
        next(
            (at for step in range(count) if other(key, keys[at := (place + count // 2 + step) % count])),
            place,
        )
        for place, key in enumerate(keys)
    ]
