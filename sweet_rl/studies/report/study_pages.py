"""The report's pages: designers by metric, the improver's way up, and a few dialogues in pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sweet_rl.studies.report import charts
from sweet_rl.studies.report.markup import Markup, tag
from sweet_rl.studies.report.parts import cell, section, share, table
from sweet_rl.studies.report.study_data import Designer, Frame, Pages, Strip
from sweet_rl.studies.report.study_sections import with_interval

METRICS = {
    "combined": "Combined",
    "ssim": "Structure",
    "colour": "Colour",
    "text": "Text",
    "layout": "Layout",
    "clip": "CLIP",
}
"""Metrics in the order of the table, by the words over their columns."""


def pages_section(pages: Pages) -> Markup:
    """The section of Frontend Design: a table of metrics, the curves, pictures."""
    known = {name for designer in pages.designers for name in designer.metrics}
    columns = [name for name in METRICS if name in known] + sorted(known - METRICS.keys())
    curve = _curve(pages.curves) if any(pages.curves) else None
    return section(
        "pages",
        "Web pages, for a human with eyes",
        f"Frontend Design on {pages.tasks or 'a few'} pages of mini-web. A browser renders each draft, the "
        "human sees the picture beside the page they want and says what differs. These designers need no "
        "model: they bound what one can score. 100 % is the wanted page; combined is the mean of the others.",
        tag("div", _table(pages, columns), curve, class_="pages-head") if pages.designers else curve,
        [_strip(strip) for strip in pages.strips],
    )


def _table(pages: Pages, columns: Sequence[str]) -> Markup:
    heads = ["Designer", *(METRICS.get(name, name) for name in columns)]
    rows = [_designer(designer, columns) for designer in pages.designers]
    rows += [_floor(name, values, columns) for name, values in pages.floors.items()]
    return table(heads, rows, class_="designers")


def _designer(designer: Designer, columns: Sequence[str]) -> Markup:
    name = [tag("strong", designer.title), tag("span", designer.explanation)]
    cells = []
    for column in columns:
        value = designer.metrics.get(column)
        label = METRICS.get(column, column)
        if value is None:
            cells.append(cell(label, tag("span", "\u2013", class_="value")))
        elif column == "combined":
            cells.append(cell(label, *with_interval(value)))
        else:
            cells.append(cell(label, tag("span", share(value.mean), class_="value")))
    return tag("tr", tag("th", name, scope="row"), cells)


def _floor(name: str, values: Mapping[str, float], columns: Sequence[str]) -> Markup:
    cells = [
        cell(METRICS.get(column, column), tag("span", share(values.get(column)), class_="value"))
        for column in columns
    ]
    title = tag("strong", f"floor: {name}")
    return tag("tr", tag("th", title, scope="row"), cells, class_="floor")


def _curve(curves: Sequence[Sequence[tuple[int, float]]]) -> Markup:
    """Each dialogue faint, their mean strong; a dialogue that has ended keeps its last grade."""
    last = max(turn for curve in curves for turn, _ in curve)
    lines = []
    for curve in filter(None, curves):
        known = dict(curve)
        points, grade = [], 0.0
        for turn in range(1, last + 1):
            grade = known.get(turn, grade)
            points.append((float(turn), grade))
        lines.append(points)
    up = charts.Axis(0.0, 1.0, (0.0, 0.25, 0.5, 0.75, 1.0), charts.percent)
    return charts.bundle_panel(lines, "the improver, turn by turn (combined)", "turn", up, colour="c1")


def _strip(strip: Strip) -> Markup:
    return tag(
        "div",
        tag("dl", tag("dt", "The human asks"), tag("dd", strip.request), class_="asked"),
        tag("ol", [tag("li", _frame(frame)) for frame in strip.frames], class_="strip"),
        class_="task",
    )


def _frame(frame: Frame) -> Markup:
    score = []
    if frame.score is not None:
        along = charts.Axis(0.0, 1.0, (), charts.plain)
        bar = charts.bar(along, 0.0, frame.score, height=6, colour="c1")
        score = [
            charts.track(along, charts.rail(), bar, label=f"score {share(frame.score)}", height=10),
            tag("span", share(frame.score), class_="value"),
        ]
    is_target = frame.score is None
    return tag(
        "figure",
        tag(
            "span", tag("img", src=frame.picture, alt=frame.label) if frame.picture else None, class_="sheet"
        ),
        tag("figcaption", tag("strong", frame.label), score),
        class_="page target" if is_target else "page",
    )
