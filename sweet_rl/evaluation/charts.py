"""Two small drawings of a comparison: an interval around 0, and curves of several runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from markupsafe import Markup, escape

from sweet_rl.evaluation.comparison import Row
from sweet_rl.evaluation.measures import Unit
from sweet_rl.viewer.documents import MOST_POINTS, Curve

_WIDE, _HIGH, _LEFT, _BELOW = 320.0, 130.0, 58.0, 18.0


def interval(row: Row, rows: Sequence[Row], write: Callable[[float | None, Unit], str]) -> Markup:
    """The difference of a row on the axis of all rows of its unit, which 0 is in the middle of.

    Args:
        row: that is drawn.
        rows: of the same axis; those of other units are left out.
        write: a number as a text.
    """
    each = row.difference
    ends = [
        abs(end)
        for one in rows
        if (one.unit == "number") == (row.unit == "number") and (row.unit != "number" or one is row)
        for end in (one.difference.low, one.difference.high, one.difference.mean)
        if end is not None
    ]
    most = max(ends, default=0.0) or 1.0

    def at(number: float) -> str:
        return f"{50 + 46 * number / most:.2f}%"

    label = escape(f"{row.name}: {write(each.mean, row.unit)}")
    parts = [f'<svg class="interval {row.verdict or "plain"}" role="img" aria-label="{label}">']
    parts.append('<line class="zero" x1="50%" x2="50%" y1="0" y2="100%"/>')
    if each.low is not None and each.high is not None:
        parts.append(f'<line class="span" x1="{at(each.low)}" x2="{at(each.high)}" y1="50%" y2="50%"/>')
    parts.append(f'<circle cx="{at(each.mean)}" cy="50%" r="4.5"/></svg>')
    return Markup("".join(parts))  # noqa: S704 - numbers, and a label that is escaped


def curves(several: Sequence[Curve], name: str) -> Markup:
    """Numbers by their steps, of several runs on the same axes; no point is made up."""
    steps = [step for curve in several for step, _ in curve]
    numbers = [number for curve in several for _, number in curve]
    first, last, low, high = min(steps), max(steps), min(numbers), max(numbers)
    if low == high:
        low, high = min(low, 0.0), max(high, 0.0) or 1.0

    def point(step: float, number: float) -> str:
        x = _LEFT + (_WIDE - _LEFT - 8) * (step - first) / ((last - first) or 1)
        y = 8 + (_HIGH - _BELOW - 16) * (1 - (number - low) / (high - low))
        return f"{x:.1f},{y:.1f}"

    parts = [f'<svg class="curves" viewBox="0 0 {_WIDE:g} {_HIGH:g}" role="img" aria-label="{escape(name)}">']
    for value in (low, high):
        y = point(first, value).partition(",")[2]
        parts.append(f'<line class="grid" x1="{_LEFT:g}" x2="{_WIDE - 8:g}" y1="{y}" y2="{y}"/>')
        parts.append(f'<text x="{_LEFT - 6:g}" y="{float(y) + 4:.1f}" text-anchor="end">{value:.3g}</text>')
    parts.append(f'<text x="{_LEFT:g}" y="{_HIGH - 3:g}">{first:,g}</text>')
    parts.append(f'<text x="{_WIDE - 8:g}" y="{_HIGH - 3:g}" text-anchor="end">{last:,g}</text>')
    for run, curve in enumerate(several):
        points = [point(*each) for each in curve[:: -(-len(curve) // MOST_POINTS) or 1]]
        if len(points) > 1:
            parts.append(f'<polyline class="c{run + 1}" points="{" ".join(points)}"/>')
        elif points:
            x, _, y = points[0].partition(",")
            parts.append(f'<circle class="c{run + 1}" cx="{x}" cy="{y}" r="3"/>')
    return Markup("".join([*parts, "</svg>"]))  # noqa: S704 - numbers, and a name that is escaped
