"""What all reports are put together from: sections, tables, rows on a common axis, colours, numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sweet_rl.studies.report import charts
from sweet_rl.studies.report.markup import Child, Markup, tag

COLOURS = 7
"""Colours beyond the warm start's grey come again after this many methods."""


def in_order(names: Sequence[str]) -> dict[str, str]:
    """Colour classes for names in their order; grey and blue are kept for what is known beforehand."""
    return {name: f"c{2 + place % (COLOURS - 2)}" for place, name in enumerate(names)}


def colour_of(name: str, given: Mapping[str, str]) -> str:
    """The colour of a method's name, or of a part of it (`sweet_rl/critic`); ink for what is no method's."""
    owners = [
        owner
        for owner in given
        if name == owner
        or (owner and name.startswith((f"{owner}_", f"{owner}/", f"{owner} ", f"{owner}-", f"{owner}.")))
    ]
    return given[max(owners, key=len)] if owners else "ink"


def share(value: float | None) -> str:
    """A share with one decimal, as `56.9 %`."""
    return "\u2013" if value is None else f"{100 * value:.1f}\u202f%"


def whole(value: int | None) -> str:
    """A count with its thousands set apart."""
    return "\u2013" if value is None else f"{value:,}".replace(",", "\u202f")


def section(name: str, heading: str, caption: Child, *content: Child) -> Markup:
    """A part of the page that the contents can point at."""
    head = tag("header", tag("h2", heading, id=f"{name}-heading"), tag("p", caption, class_="caption"))
    return tag("section", head, content, id=name, aria_labelledby=f"{name}-heading")


def swatch(colour: str) -> Markup:
    """A little square of a method's colour, before its title."""
    return tag("span", class_=f"swatch {colour}", aria_hidden="true")


# ---- tables


def cell(label: str, *content: Child, class_: str | None = None) -> Markup:
    """A cell of a table; `label` stands over it where there is no room for columns."""
    return tag("td", content, data_label=label, class_=class_)


def method_cell(colour: str, title: str, explanation: str) -> Markup:
    """The cell that a method's row of a table begins with."""
    return tag("th", tag("strong", swatch(colour), title), tag("span", explanation), scope="row")


def table(heads: Sequence[str], rows: Sequence[Markup], *, class_: str) -> Markup:
    """A table with a title over each column."""
    head = tag("thead", tag("tr", [tag("th", title, scope="col") for title in heads]))
    return tag("table", head, tag("tbody", rows), class_=class_)


# ---- rows


def row(label: Child, drawing: Child, value: Child, *, class_: str = "row") -> Markup:
    """What is drawn on the common axis, between its name and its number."""
    cells = [(label, "row-label"), (drawing, "row-plot"), (value, "row-value")]
    return tag("div", [tag("div", content, class_=name) for content, name in cells], class_=class_)


def axis_row(along: charts.Axis, title: str) -> Markup:
    """The row below a chart's rows that holds the axis and its title."""
    return row("", charts.ticks(along, title), "", class_="row axis")
