"""The large chart of an online study: returns against environment steps, one band for each method.

It is drawn twice, for wide and for narrow windows, so that its letters keep their size; the style shows one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sweet_rl.studies.report import charts
from sweet_rl.studies.report.markup import Markup, tag
from sweet_rl.studies.report.online_numbers import Band, band
from sweet_rl.studies.report.parts import swatch
from sweet_rl.studies.report.report_data import Points

_LABEL_HEIGHT = 16.0
_TIPS = 8
"""Every so many points of a mean line one can be pointed at."""


@dataclass(frozen=True, slots=True)
class Learning:
    """A method in the chart: its name and colour class, its band, and the curves of its seeds."""

    title: str
    colour: str
    band: Band
    seeds: Sequence[Points]


@dataclass(frozen=True, slots=True)
class Words:
    """What stands above and below the chart, and what its horizontal axis counts."""

    caption: str = "mean return of the games of an iteration"
    along: str = "environment steps (questions asked)"
    unit: str = "steps"
    measure: str = "mean return against environment steps"


_RETURNS = Words()


def bands(methods: Iterable[tuple[str, str, Sequence[Points]]]) -> list[Learning]:
    """What has a mean curve of (title, colour class, curves of the seeds), in the order of the colours."""
    drawn = []
    for title, colour, curves in sorted(methods, key=lambda method: method[1]):
        known = [curve for curve in curves if curve]
        if found := band(known):
            drawn.append(Learning(title, colour, found, known))
    return drawn


def keys(drawn: Sequence[Learning]) -> Markup:
    """The legend: each method's name beside its colour."""
    names = [tag("span", swatch(learning.colour), learning.title, class_="key") for learning in drawn]
    return tag("p", names, class_="keys")


def of_seeds(drawn: Sequence[Learning]) -> str:
    """How to read bands, where there are any."""
    if all(len(learning.seeds) <= 1 for learning in drawn):
        return ""
    return " The band is one standard error over seeds to each side, faint lines are single seeds."


@dataclass(frozen=True, slots=True)
class _Frame:
    """Where the chart is drawn, by which axes, with which words."""

    words: Words
    along: charts.Axis
    up: charts.Axis
    width: float
    height: float
    right: float
    left: float = 46
    top: float = 12
    bottom: float = 44

    @property
    def edge(self) -> float:
        return self.width - self.right

    @property
    def floor(self) -> float:
        return self.height - self.bottom

    def place(self, point: tuple[float, float]) -> tuple[float, float]:
        return (
            self.left + self.along.share(point[0]) * (self.edge - self.left),
            self.top + (1 - self.up.share(point[1])) * (self.floor - self.top),
        )

    def path(self, points: Points) -> str:
        return "M" + "L".join(f"{x:.1f},{y:.1f}" for x, y in map(self.place, points))


def learning_curves(methods: Sequence[Learning], level: float | None, words: Words = _RETURNS) -> Markup:
    """Mean lines over their bands, single seeds faint; `level` is the start, a dashed line.

    Args:
        methods: drawn in this order, the first one on top.
        level: mean return of what all began with; None for no line.
        words: what is drawn.
    """
    curves = [curve for method in methods for curve in method.seeds]
    bands = [line for method in methods for line in (method.band.low, method.band.high)]
    heights = [y for line in (*curves, *bands) for _, y in line] + ([] if level is None else [level])
    furthest = max(x for curve in curves for x, _ in curve)
    up = charts.axis(heights, charts.plain, count=6)
    wide = _Frame(words, _steps_axis(furthest, 8), up, 1000, 420, right=188)
    narrow = _Frame(words, _steps_axis(furthest, 4), up, 360, 300, right=42)
    return tag(
        "figure",
        tag("figcaption", words.caption),
        _drawn(wide, methods, level, name="wide-only", named=True),
        _drawn(narrow, methods, level, name="narrow-only", named=False),
        class_="plot learning",
    )


def _steps_axis(furthest: float, count: int) -> charts.Axis:
    """From 0 to the last step, with round ticks."""
    end = furthest or 1.0
    rounded = charts.axis([0.0, end], _thousands, count=count).ticks
    return charts.Axis(0.0, end, tuple(tick for tick in rounded if tick <= end), _thousands)


def _thousands(value: float) -> str:
    return f"{value:,.0f}".replace(",", "\u202f")


def _tenths(value: float) -> str:
    return f"{value:.1f}".replace("-", "\u2212")


def _drawn(
    frame: _Frame, methods: Sequence[Learning], level: float | None, *, name: str, named: bool
) -> Markup:
    under = [_band(frame, method) for method in reversed(methods)]
    faint = [
        tag("path", class_=f"raw {method.colour}", d=frame.path(curve))
        for method in reversed(methods)
        for curve in method.seeds
        if len(method.seeds) > 1
    ]
    lines = [
        tag("path", class_=f"line {method.colour}", d=frame.path(method.band.mean))
        for method in reversed(methods)
    ]
    return tag(
        "svg",
        _axes(frame),
        under,
        faint,
        None if level is None else _level(frame, level),
        lines,
        [_tips(frame, method) for method in reversed(methods)],
        _ends(frame, methods, level, named=named),
        class_=f"panel-plot {name}",
        viewBox=f"0 0 {frame.width:g} {frame.height:g}",
        role="img",
        aria_label=f"{frame.words.measure}, " + "; ".join(map(_said, methods)),
    )


def _said(method: Learning) -> str:
    (_, first), (_, last) = method.band.mean[0], method.band.mean[-1]
    return f"{method.title} from {charts.plain(first)} to {charts.plain(last)}"


def _axes(frame: _Frame) -> list[Markup]:
    drawn = []
    for tick in frame.up.ticks:
        _, y = frame.place((0, tick))
        drawn += [
            tag("line", class_="grid", x1=frame.left, x2=frame.edge, y1=y, y2=y),
            tag("text", frame.up.write(tick), class_="tick", x=frame.left - 8, y=y + 4, text_anchor="end"),
        ]
    for tick in frame.along.ticks:
        x, _ = frame.place((tick, frame.up.low))
        label = frame.along.write(tick)
        drawn.append(tag("text", label, class_="tick", x=x, y=frame.floor + 18, text_anchor="middle"))
    middle = (frame.left + frame.edge) / 2
    title = frame.words.along
    drawn.append(tag("text", title, class_="axis-title", x=middle, y=frame.height - 6, text_anchor="middle"))
    return drawn


def _band(frame: _Frame, method: Learning) -> Markup | None:
    if len(method.seeds) < 2:
        return None
    there, back = frame.path(method.band.low), frame.path(method.band.high[::-1])
    return tag("path", class_=f"band {method.colour}", d=f"{there}L{back[1:]}Z")


def _level(frame: _Frame, level: float) -> Markup:
    _, y = frame.place((0, level))
    return tag("line", class_="reference", x1=frame.left, x2=frame.edge, y1=y, y2=y)


def _tips(frame: _Frame, method: Learning) -> list[Markup]:
    points = list(zip(method.band.mean, method.band.low, method.band.high, strict=True))
    marks = []
    for (x, y), (_, low), (_, _high) in points[:: -(-len(points) // _TIPS)]:
        left, top = frame.place((x, y))
        error = f" \u00b1 {charts.plain(y - low)}" if len(method.seeds) > 1 else ""
        tip = f"{method.title} after {_thousands(x)} {frame.words.unit}: {charts.plain(y)}{error}"
        marks.append(tag("circle", class_=f"dot {method.colour}", cx=left, cy=top, r=3.5, data_tip=tip))
    return marks


def _ends(frame: _Frame, methods: Sequence[Learning], level: float | None, *, named: bool) -> list[Markup]:
    """Names and last values at the right, moved apart where they would touch."""
    labels = [(frame.place(method.band.mean[-1])[1], method) for method in methods]
    wanted = [y for y, _ in labels] + ([] if level is None else [frame.place((0, level))[1]])
    heights = spread(wanted, _LABEL_HEIGHT, frame.top, frame.floor)
    drawn = []
    for (_, method), y in zip(labels, heights, strict=False):
        value = _tenths(method.band.mean[-1][1])
        end_x, end_y = frame.place(method.band.mean[-1])
        drawn.append(tag("circle", class_=f"dot {method.colour}", cx=end_x, cy=end_y, r=4))
        name = [tag("tspan", f"{method.title} ", class_="name"), value] if named else value
        drawn.append(tag("text", name, class_=f"end toned {method.colour}", x=frame.edge + 10, y=y + 4))
    if level is not None:
        written = _tenths(level)
        said = f"the start {written}" if named else written
        drawn.append(tag("text", said, class_="tick", x=frame.edge + 10, y=heights[-1] + 4))
    return drawn


def spread(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Heights near those wanted, in their order, at least `gap` apart, none below `high`."""
    order = sorted(range(len(wanted)), key=lambda index: wanted[index])
    placed: list[float] = []
    for index in order:
        placed.append(max(wanted[index], placed[-1] + gap if placed else low))
    limit = high
    for place in reversed(range(len(placed))):
        placed[place] = min(placed[place], limit)
        limit = placed[place] - gap
    return [placed[order.index(index)] for index in range(len(wanted))]
