"""Charts as inline SVG, without any script: rows on a common axis, and small panels with lines or columns.

Rows stretch with the window: their positions are percentages and their height is fixed, so text keeps its
size on a telephone. Panels have a fixed view box and are laid out side by side as room allows. Colours are
classes (`c0`, `c1`, ...): the page's policy allows no style attributes, and dark screens change them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from sweet_rl.studies.report.markup import Markup, tag

Series = Sequence[tuple[float, float]]

PANEL_WIDTH, PANEL_HEIGHT = 320, 180
_LEFT, _RIGHT, _TOP, _BOTTOM = 44, 46, 16, 36
_MOST_POINTS = 600
"""More points than a panel has pixels for only make the page heavy."""


@dataclass(frozen=True, slots=True)
class Axis:
    """A linear axis from `low` to `high`; `write` turns a tick into its label."""

    low: float
    high: float
    ticks: tuple[float, ...]
    write: Callable[[float], str]

    def share(self, value: float) -> float:
        """Where `value` lies between the ends, 0 to 1; values beyond an end lie at it."""
        return min(1.0, max(0.0, (value - self.low) / (self.high - self.low)))


def axis(
    values: Sequence[float], write: Callable[[float], str], *, zero: bool = False, count: int = 5
) -> Axis:
    """An axis with round ends and about `count` steps that holds all `values` (and zero, where asked)."""
    held = [*values, 0.0] if zero else list(values)
    low, high = min(held, default=0.0), max(held, default=1.0)
    if low == high:
        low, high = (low, low + 1.0) if zero else (low - 0.5, high + 0.5)
    step = _round_step((high - low) / count)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    ticks = tuple(index * step for index in range(first, last + 1))
    return Axis(ticks[0], ticks[-1], ticks, write)


def _round_step(rough: float) -> float:
    """The smallest of 1, 2, 2.5, 5 times a power of ten that is not below `rough`."""
    power = 10.0 ** math.floor(math.log10(rough))
    return next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= rough * (1 - 1e-9))


def percent(value: float) -> str:
    """A share as a tick's label."""
    return f"{100 * value:.0f} %"


def plain(value: float) -> str:
    """A number with three digits, as it is said: `0.379`, `1200`, and minus with its own sign."""
    if value and not 1e-4 <= abs(value) < 1e6:
        mantissa, exponent = f"{value:.1e}".split("e")
        written = f"{mantissa.removesuffix('.0')}e{int(exponent)}"
    else:
        digits = 2 - math.floor(math.log10(abs(value))) if value else 0
        written = f"{value:.{max(0, digits)}f}"
        written = written.rstrip("0").rstrip(".") if "." in written else written
    return written.replace("-", "\u2212")


# ---- rows: one SVG for each row, all with the same axis, so that the browser does the layout


def track(along: Axis, *marks: Markup | None, label: str, height: int = 40) -> Markup:
    """One row's drawing: grid lines of `along` behind `marks` (from `bar`, `dot`, ...)."""
    grid = [
        tag("line", class_="grid", x1=_at(along, tick), x2=_at(along, tick), y1=0, y2="100%")
        for tick in along.ticks
    ]
    return tag("svg", grid, marks, class_="track", height=height, role="img", aria_label=label)


def ticks(along: Axis, title: str) -> Markup:
    """The axis under rows: labels at the ticks, then what the axis measures."""
    labels = [
        tag("text", along.write(tick), class_="tick", x=_at(along, tick), y=14, text_anchor="middle")
        for tick in along.ticks
    ]
    name = tag("text", title, class_="axis-title", x="50%", y=34, text_anchor="middle")
    return tag("svg", labels, name, class_="track", height=40, aria_hidden="true")


def bar(along: Axis, start: float, end: float, *, height: float, colour: str) -> Markup:
    """A bar from `start` to `end`, whichever is greater, in the middle of its row."""
    left, right = sorted((along.share(start), along.share(end)))
    return tag(
        "rect",
        class_=f"fill {colour}",
        x=f"{100 * left:.2f}%",
        y="50%",
        width=f"{100 * (right - left):.2f}%",
        height=height,
        rx=2,
        transform=f"translate(0 {-height / 2:g})",
    )


def whisker(along: Axis, low: float | None, high: float | None, *, y: float, colour: str) -> Markup | None:
    """An interval drawn as a line with caps at both ends; None without both bounds."""
    if low is None or high is None:
        return None
    left, right = _at(along, low), _at(along, high)
    lines = [(left, right, y, y), (left, left, y - 6, y + 6), (right, right, y - 6, y + 6)]
    return tag(
        "g",
        [tag("line", x1=x1, x2=x2, y1=y1, y2=y2) for x1, x2, y1, y2 in lines],
        class_=f"whisker {colour}",
    )


def dot(along: Axis, value: float, *, y: float, radius: float, tone: str, tip: str) -> Markup:
    """A dot with classes `tone`; `tip` is shown when it is pointed at."""
    return tag("circle", class_=f"dot {tone}", cx=_at(along, value), cy=y, r=radius, data_tip=tip)


def rail() -> Markup:
    """A faint line along the row's middle, where bars on both sides of zero would float."""
    return tag("line", class_="grid", x1=0, x2="100%", y1="50%", y2="50%")


def reference(along: Axis, value: float) -> Markup:
    """A dashed line through the row: what the others are compared with."""
    return tag("line", class_="reference", x1=_at(along, value), x2=_at(along, value), y1=0, y2="100%")


def _at(along: Axis, value: float) -> str:
    return f"{100 * along.share(value):.2f}%"


# ---- panels


def line_panel(points: Series, title: str, up: Axis, *, colour: str, chance: float | None = None) -> Markup:
    """A metric over updates: a smoothed line over the faint raw one, its last value written at its end."""
    along = _between([x for x, _ in points])
    smooth = smoothed(points)
    end_x, end_y = _place(along, up, smooth[-1])
    return _panel(
        along,
        up,
        title,
        "update",
        tag("path", class_=f"raw {colour}", d=_path(along, up, _thinned(points))),
        None if chance is None else _level(up, chance, "chance", beside=end_y),
        tag("path", class_=f"line {colour}", d=_path(along, up, _thinned(smooth))),
        tag("circle", class_=f"dot {colour}", cx=end_x, cy=end_y, r=3.5),
        tag("text", up.write(smooth[-1][1]), class_="end", x=end_x + 7, y=end_y + 4),
    )


def bundle_panel(lines: Sequence[Series], title: str, below: str, up: Axis, *, colour: str) -> Markup:
    """Lines of equal length, faint, and their mean, strong, with its last value at its end."""
    mean = [(points[0][0], sum(y for _, y in points) / len(points)) for points in zip(*lines, strict=True)]
    along = _between([x for x, _ in mean])
    end_x, end_y = _place(along, up, mean[-1])
    return _panel(
        along,
        up,
        title,
        below,
        *(tag("path", class_=f"raw {colour}", d=_path(along, up, line)) for line in lines),
        tag("path", class_=f"line {colour}", d=_path(along, up, mean)),
        *(_dot_at(_place(along, up, point), colour) for point in mean),
        tag("text", up.write(mean[-1][1]), class_="end", x=end_x + 7, y=end_y + 4),
    )


def _between(updates: Sequence[float]) -> Axis:
    """An axis that ends where `updates` do, so that the last one lies at the panel's edge."""
    low, high = min(updates), max(updates)
    if low == high:
        return Axis(low - 0.5, high + 0.5, (low,), plain)
    rounded = axis(updates, plain, count=4).ticks
    return Axis(low, high, tuple(x for x in rounded if low <= x <= high and x == round(x)), plain)


def column_panel(
    columns: Sequence[tuple[int, int, int]], turns: tuple[int, int], up: Axis, *, colour: str
) -> Markup:
    """How episodes end, by (turns, episodes, successes); `turns` are the axis's first and last.

    A column is as high as its share of all episodes and filled as far as they succeeded; above it stands the
    share of successes among its own.
    """
    every = math.ceil((turns[1] - turns[0] + 1) / 12)
    along = Axis(turns[0] - 0.5, turns[1] + 0.5, tuple(range(turns[0], turns[1] + 1, every)), plain)
    width = min(32.0, 0.7 * (PANEL_WIDTH - _LEFT - _RIGHT) / (turns[1] - turns[0] + 1))
    total = sum(episodes for _, episodes, _ in columns)
    floor = PANEL_HEIGHT - _BOTTOM
    drawn = []
    for after, episodes, successes in columns:
        x, top = _place(along, up, (after, episodes / total))
        _, filled = _place(along, up, (after, successes / total))
        left = x - width / 2
        rate = percent(successes / episodes)
        marks = [
            tag("rect", class_=f"rest {colour}", x=left, y=top, width=width, height=floor - top),
            tag("rect", class_=f"fill {colour}", x=left, y=filled, width=width, height=floor - filled),
        ]
        if width > 26:  # else the numbers would run into each other
            marks.append(tag("text", rate, class_="end", x=x, y=top - 4, text_anchor="middle"))
        tip = f"{after} turns: {episodes} episodes, {successes} succeeded ({rate})"
        drawn.append(tag("g", marks, data_tip=tip))
    return _panel(along, up, "share of episodes", "turns of the agent", *drawn, margin=6)


def _dot_at(place: tuple[float, float], colour: str) -> Markup:
    return tag("circle", class_=f"dot {colour}", cx=place[0], cy=place[1], r=3.5)


def smoothed(points: Series) -> list[tuple[float, float]]:
    """Each value replaced by the mean of its neighbourhood: a fifteenth of the curve, half of it at the ends.

    A curve of under eight points stays as it is.
    """
    reach = 0 if len(points) < 8 else max(1, len(points) // 30)
    sums = [0.0, *accumulate(y for _, y in points)]
    means = []
    for index, (x, _) in enumerate(points):
        first, end = max(0, index - reach), min(len(points), index + reach + 1)
        means.append((x, (sums[end] - sums[first]) / (end - first)))
    return means


def _thinned(points: Series) -> Series:
    """At most about `_MOST_POINTS` of them, the last one always."""
    every = math.ceil(len(points) / _MOST_POINTS)
    return [*points[:-1:every], points[-1]]


def _panel(
    along: Axis, up: Axis, title: str, below: str, *marks: Markup | None, margin: float = _RIGHT
) -> Markup:
    """A panel with both axes; `title` says what goes up. At the right `margin` is left free for labels."""
    right, floor = PANEL_WIDTH - _RIGHT, PANEL_HEIGHT - _BOTTOM
    drawn: list[Markup] = []
    for tick in up.ticks:
        _, y = _place(along, up, (along.low, tick))
        drawn += [
            tag("line", class_="grid", x1=_LEFT, x2=right, y1=y, y2=y),
            tag("text", up.write(tick), class_="tick", x=_LEFT - 6, y=y + 4, text_anchor="end"),
        ]
    for tick in along.ticks:
        x, _ = _place(along, up, (tick, up.low))
        drawn.append(tag("text", along.write(tick), class_="tick", x=x, y=floor + 15, text_anchor="middle"))
    middle = (_LEFT + right) / 2
    drawn.append(tag("text", below, class_="axis-title", x=middle, y=PANEL_HEIGHT - 5, text_anchor="middle"))
    view = f"0 0 {PANEL_WIDTH - _RIGHT + margin:g} {PANEL_HEIGHT}"
    picture = tag("svg", drawn, marks, class_="panel-plot", viewBox=view, role="img", aria_label=title)
    return tag("figure", tag("figcaption", title), picture, class_="plot")


def _level(up: Axis, value: float, name: str, *, beside: float) -> Markup:
    """A dashed line with its name at its end, moved out of the way of a label at the height `beside`."""
    y = _TOP + (1 - up.share(value)) * (PANEL_HEIGHT - _TOP - _BOTTOM)
    right = PANEL_WIDTH - _RIGHT
    free = y if abs(y - beside) >= 14 else beside + math.copysign(14, y - beside)
    return tag(
        "g",
        tag("line", class_="reference", x1=_LEFT, x2=right, y1=y, y2=y),
        tag("text", name, class_="tick", x=right + 7, y=free + 4),
    )


def _place(along: Axis, up: Axis, point: tuple[float, float]) -> tuple[float, float]:
    x = _LEFT + along.share(point[0]) * (PANEL_WIDTH - _LEFT - _RIGHT)
    y = _TOP + (1 - up.share(point[1])) * (PANEL_HEIGHT - _TOP - _BOTTOM)
    return x, y


def _path(along: Axis, up: Axis, points: Series) -> str:
    places = (_place(along, up, point) for point in points)
    return "M" + "L".join(f"{x:.1f},{y:.1f}" for x, y in places)
