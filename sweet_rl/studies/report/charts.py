"""The charts of a report: drawn by matplotlib as SVG, the same bytes for the same numbers.

Colours are names of the page's palette, so that they change with a dark screen; letters are the page's.
"""

from __future__ import annotations

import functools
import hashlib
import io
import math
import re
import textwrap
import warnings
from collections.abc import Callable, Sequence
from itertools import cycle
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, NamedTuple

import matplotlib as mpl
import numpy as np
from markupsafe import Markup
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from sweet_rl.studies.report import words
from sweet_rl.studies.report.words import Write
from sweet_rl.studies.results import Axes, Points
from sweet_rl.viewer.export import static_text

_FILE = Path(__file__).parent / "static/charts.mplstyle"
_NAMES = (*(f"c{number}" for number in range(10)), "text", "muted", "line", "line-strong", "surface")
_LIGHT = static_text("palette.css").partition("@media")[0]
_HEX = {name: re.search(rf"--{name}: (#\w+);", _LIGHT)[1] for name in _NAMES}  # type: ignore[index]
_HEX["ink"] = _HEX["muted"]  # of what is nobody's rival; as a class of the page
_COLOURS = {
    **dict.fromkeys(("axes.titlecolor", "axes.labelcolor", "xtick.color"), _HEX["muted"]),
    **dict.fromkeys(("text.color", "ytick.labelcolor"), _HEX["text"]),
    "axes.edgecolor": _HEX["line-strong"],
    "grid.color": _HEX["line"],
}
_STYLE: Any = {**mpl.rc_params_from_file(_FILE, use_default_template=False), **_COLOURS}
_DASHES = ("--", ":", "-.", (0, (1, 4)), (0, (8, 3)))  # Of lines across a chart, in their order
_MARKS = "os^Dv<>"  # Of the points of curves, in their order, where there are so few that each can be told
_FEW_POINTS = 12
_LEADER = {
    "arrowstyle": "-",
    "relpos": (0, 0.5),
    "shrinkA": 1,
    "shrinkB": 0,
}  # From the end of a line to its name
_BELOW = "\N{DOWNWARDS ARROW} "
WIDE, HALF, _NARROW = 1000, 500, 360
"""Pixels: a chart is drawn for both kinds of windows, so that its letters keep their size; one of two beside each other has half."""


class Series(NamedTuple):
    title: str
    colour: str
    curves: Sequence[Points]


class Row(NamedTuple):
    """What is `found`, a mean with its interval; of single `seeds`, and of the full study."""

    title: str
    colour: str
    found: Any
    seeds: Sequence[float]
    label: str
    full: float | None = None


def learning(
    label: str, series: Sequence[Series], levels: Sequence[tuple[str, float]], shown: Axes, wide: int = WIDE
) -> Markup:
    """Means over a standard error to each side; `levels` are lines across. Names stand at the ends of their lines."""
    write, bands = words.writer(shown.unit), [band(each.curves) for each in series]
    named = [f"{each.title} {write(mean[-1])}" for each, (_, mean, _) in zip(series, bands, strict=True)]
    last = max(steps[-1] for steps, _, _ in bands)
    means = sorted([*np.concatenate([mean for _, mean, _ in bands]), *(value for _, value in levels)])
    # A floor far below all others would press them together: its name says that it is further down.
    far = means[0] if means[0] >= 0 or len(levels) < 2 else means[1] - (means[-1] - means[1]) / 2

    def draw(axes: Any, width: int) -> None:
        ends: list[Any] = []
        for mark, each, (steps, mean, error), name in zip(cycle(_MARKS), series, bands, named, strict=False):
            colour, order = _HEX[each.colour], 3 - len(ends) / 100  # the first on top
            if len(each.curves) > 1:
                axes.fill_between(steps, mean - error, mean + error, color=colour, alpha=0.16, linewidth=0)
            marker = mark if len(steps) <= _FEW_POINTS else None
            axes.plot(steps, mean, color=colour, lw=2, marker=marker, ms=5, zorder=order, clip_on=False)
            ends.append((mean[-1], steps[-1], name, colour, "-"))
        low = axes.dataLim.ymin
        for dashes, (title, value) in zip(cycle(_DASHES), levels, strict=False):
            if value >= far:
                axes.axhline(value, color=_HEX["muted"], linestyle=dashes, linewidth=1)
            name = f"{'' if value >= far else _BELOW}{title} {write(value)}"
            ends.append((value, last, name, _HEX["muted"], dashes))
        for begin, name in shown.changes:
            axes.axvline(begin, color=_HEX["line-strong"], linewidth=1)
            top = {"xycoords": axes.get_xaxis_transform(), "textcoords": "offset points", "va": "top"}
            axes.annotate(name, (begin, 1), (3, -1), **top, color=_HEX["muted"])
        axes.set(xlabel=shown.along, title=shown.title)
        if shown.log:
            axes.set_xscale("log", base=2)
            axes.set_xticks(bands[0][0], [f"{step:g}" for step in bands[0][0]])
        axes.set_xlim(right=last)
        if low >= 0:
            axes.set_ylim(0, axes.dataLim.ymax * (1.13 if shown.changes else 1.05) or 1)
        _ticks(axes.yaxis, words.tick(shown.unit))
        _name(axes, sorted(ends, key=lambda each: each[0]), 40 if width == WIDE else 19)

    described, lines = f"{label}: {shown.title}: {'; '.join(named)}", len(series) + len(levels)
    return _both(draw, described, lambda width: max(340, 80 + (17 if width == WIDE else 31) * lines), wide)


def _name(axes: Any, ends: Sequence[tuple[float, float, str, str, Any]], most: int) -> None:
    """Write names (y and x of an end, its name, colour, dashes) beside ends, moved as little as none covers another."""
    texts = [textwrap.fill(name, most, break_on_hyphens=False) for _, _, name, _, _ in ends]
    width, height = axes.figure.get_size_inches() * 100
    room = 6 * max(len(line) for text in texts for line in text.split("\n")) + 28
    left, bottom, across, up = 42, 40, width - 42 - room, height - 40 - 26
    axes.figure.set_layout_engine("none")
    axes.set_position((left / width, bottom / height, across / width, up / height))
    low, high = axes.get_ylim()
    tall = np.array([14 * (text.count("\n") + 1) + 3 for text in texts])
    middles = np.cumsum(tall) - tall / 2  # of names without gaps; what is above them has to rise, too
    above = np.clip([(end[0] - low) / (high - low) * up for end in ends], 0, up) - middles
    rising = (np.maximum.accumulate(above) + np.minimum.accumulate(above[::-1])[::-1]) / 2
    placed = middles + np.clip(rising, -tall[0] / 2, max(up - tall.sum() + tall[-1] / 2, 0))
    for text, place, (y, x, _, colour, dashes) in zip(texts, placed, ends, strict=True):
        line = {**_LEADER, "color": colour, "linestyle": dashes}
        beside = {"xytext": (1 + 18 / across, place / up), "textcoords": "axes fraction", "va": "center"}
        axes.annotate(text, (x, np.clip(y, low, high)), **beside, arrowprops=line, annotation_clip=False)


def band(curves: Sequence[Points]) -> tuple[Any, Any, Any]:
    """Steps that all curves share (else those of the first), with mean and standard error."""
    common = sorted(set.intersection(*({step for step, _ in curve} for curve in curves)))
    if not common:
        return band(curves[:1])
    columns = [[dict(curve)[step] for curve in curves] for step in common]
    error = [stdev(column) / math.sqrt(len(column)) if len(column) > 1 else 0.0 for column in columns]
    return np.array(common), np.array([fmean(column) for column in columns]), np.array(error)


def intervals(label: str, rows: Sequence[Row], level: float | None, along: str, write: Write) -> Markup:
    """Rows on a common axis: a large dot for the mean, a line for its interval, small dots for seeds, a diamond for `full`."""

    def draw(axes: Any, width: int) -> None:
        for place, row in enumerate(rows):
            colour = _HEX[row.colour]
            found = row.found
            if found.low is not None and found.high is not None:
                span = [[found.mean - found.low], [found.high - found.mean]]
                axes.errorbar(found.mean, place, xerr=span, color=colour, capsize=4, linewidth=1.6)
            if row.full is not None:
                axes.plot(row.full, place, "D", markersize=6, markeredgecolor=colour, markerfacecolor="none")
            axes.plot(found.mean, place, "o", color=colour, markersize=7, markeredgecolor=_HEX["surface"])
            axes.plot(row.seeds, [place + 0.3] * len(row.seeds), "o", color=colour, alpha=0.65, markersize=3)
            axes.text(1.02, place, row.label, transform=axes.get_yaxis_transform(), va="center")
        if level is not None:
            axes.axvline(level, color=_HEX["muted"], linestyle="--", linewidth=1)
            axes.update_datalim([(level, 0)])
            axes.autoscale_view(scaley=False)
        if width > _NARROW:
            axes.set_yticks(range(len(rows)), [row.title for row in rows])
        else:
            axes.set_yticks([])
            box = {"facecolor": _HEX["surface"], "edgecolor": "none", "pad": 1}
            for place, row in enumerate(rows):
                title = textwrap.fill(row.title, 52)
                axes.text(0, place - 0.3, title, va="bottom", transform=axes.get_yaxis_transform(), bbox=box)
        axes.set_ylim(len(rows) - 0.4, -0.6)
        axes.grid(axis="y", visible=False)
        axes.set_xlabel(along)
        _ticks(axes.xaxis, write, 8 if width > _NARROW else 3)

    described = "; ".join(f"{row.title}: {row.label}" for row in rows)
    return _both(draw, f"{label}: {described}", lambda width: 62 + (28 if width == WIDE else 54) * len(rows))


def panel(label: str, curve: Points, shown: Axes, colour: str) -> Markup:
    """One curve: every point faint, a mean over a fifteenth of it strong, its last value at its end."""
    steps, values = (np.array(each) for each in zip(*curve, strict=True))
    reach = 0 if len(values) < 8 else max(1, len(values) // 30)
    smooth = [fmean(values[max(0, at - reach) : at + reach + 1]) for at in range(len(values))]

    def draw(axes: Any) -> None:
        axes.plot(steps, values, color=_HEX[colour], alpha=0.28, linewidth=0.8)
        axes.plot(steps, smooth, color=_HEX[colour], linewidth=1.8)
        last = words.writer(shown.unit)(smooth[-1])
        axes.annotate(last, (steps[-1], smooth[-1]), (4, 0), textcoords="offset points", va="center")
        axes.set(title=shown.title, xlabel=shown.along)
        _ticks(axes.yaxis, words.tick(shown.unit), 4)
        axes.xaxis.set_major_locator(MaxNLocator(4, integer=True))

    return _svg(draw, f"{label}: {shown.title}", 320, 180)


def _ticks(axis: Any, write: Write, count: int = 6) -> None:
    axis.set_major_locator(MaxNLocator(count, steps=[1, 2, 2.5, 5, 10]))
    axis.set_major_formatter(FuncFormatter(lambda value, _: write(value)))


def _both(draw: Callable[..., None], label: str, height: Callable[[int], int], wide: int = WIDE) -> Markup:
    both = Markup()
    for name, width in (("wide-only", wide), ("narrow-only", _NARROW)):
        drawn = _svg(functools.partial(draw, width=width), label, width, height(width))
        both += Markup('<div class="{}">{}</div>').format(name, drawn)
    return both


def _svg(draw: Callable[[Any], None], label: str, width: int, height: int) -> Markup:
    figure = Figure(figsize=(width / 100, height / 100), layout="constrained")
    out = io.StringIO()
    with mpl.rc_context(_STYLE), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of letters and lengths: the page has its own fonts
        axes = figure.add_subplot()
        draw(axes)
        axes.patch.set_visible(False)
        figure.patch.set_visible(False)
        figure.savefig(out, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    # No wider than it was drawn, or nearly: letters keep their size.
    head = Markup('<svg class="chart" style="max-width: {}px" role="img" aria-label="{}" ')
    return head.format(width + width // 10, label) + _for_a_page(out.getvalue(), label)


def _for_a_page(text: str, label: str) -> Markup:
    """An SVG file from its first attribute on: no names of its own but those it refers to, no colours."""
    text = text[text.index("<svg ") + 5 :]
    text = re.sub(
        r"(?s)<metadata>.*?(?:</metadata>|\Z)|<style .*?(?:</style>|\Z)|<!--.*?(?:-->|\Z)", "", text
    )
    text = re.sub(r'(?:xmlns|xmlns:xlink|width|height|version)="[^"]*" ?', "", text, count=5)
    text = re.sub(r' id="\w+_\d+"', "", text)
    own = hashlib.sha256((label + text).encode()).hexdigest()[:8]
    text = re.sub(r'( id="|url\(#|href="#)', rf"\1c{own}", text)
    for name, colour in _HEX.items():
        text = text.replace(colour, f"var(--{name})")
    return Markup(text)  # noqa: S704 - matplotlib escapes its texts
