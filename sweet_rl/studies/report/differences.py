"""Differences over seeds, drawn: a row for each, with its mean, its interval and the single seeds."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from sweet_rl.studies.report import charts
from sweet_rl.studies.report.markup import Markup, tag
from sweet_rl.studies.report.online_numbers import Difference
from sweet_rl.studies.report.parts import row

Write = Callable[[float], str]


def values_of(found: Iterable[Difference]) -> list[float]:
    """All numbers that are drawn, for an axis that holds them."""
    return [
        value
        for each in found
        for value in (each.mean, each.low, each.high, *(one for _, one in each.each))
        if value is not None
    ]


def interval(found: Difference, write: Write) -> str:
    """`+1.25 (+0.50 to +2.00)`, without the bracket where nothing is known of it."""
    if found.low is None or found.high is None:
        return write(found.mean)
    return f"{write(found.mean)} ({write(found.low)} to {write(found.high)})"


def difference_row(
    label: str, found: Difference, along: charts.Axis, *, colour: str, of: str, says: str, write: Write
) -> Markup:
    """A mean with its interval, and below it the seeds.

    Args:
        label: on the left.
        found: is drawn.
        along: the axis that all rows share.
        colour: its class.
        of: what is subtracted from what, for those who point at it.
        says: what follows from the interval; stands below the number on the right.
        write: a difference as it is said.
    """
    seeds = [
        charts.dot(along, value, y=33, radius=3, tone=f"seed {colour}", tip=f"seed {seed}: {write(value)}")
        for seed, value in found.each
    ]
    said = f"{of}: {interval(found, write)}"
    drawing = charts.track(
        along,
        charts.reference(along, 0.0),
        charts.whisker(along, found.low, found.high, y=17, colour=colour),
        charts.dot(along, found.mean, y=17, radius=6.5, tone=colour, tip=said),
        *seeds,
        label=said,
    )
    value = [tag("span", write(found.mean), class_="value"), " ", tag("span", says, class_="interval")]
    return row(label, drawing, value)
