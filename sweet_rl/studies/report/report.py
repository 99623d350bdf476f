"""A report as one page: what came out, the idea, its sections, and how the numbers were made.

A page is drawn here and needs no script to be read; the script adds tips at what is pointed at. Like the
viewer's export it may not use the network; a Content-Security-Policy allows its own style and script only.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import TypeAlias

from sweet_rl.studies.report import charts
from sweet_rl.studies.report.markup import Markup, join, tag
from sweet_rl.studies.report.parts import row, section
from sweet_rl.studies.report.report_data import ReportHead
from sweet_rl.types import Json
from sweet_rl.viewer.page import source_hash, static_text

Section: TypeAlias = tuple[str, str, Markup]
"""Its anchor, its name in the contents, and the section."""


def report_page(
    idea: str,
    head: ReportHead,
    *,
    headline: Markup,
    sections: Sequence[Section],
    styles: Sequence[str] = (),
    untitled: str,
) -> str:
    """One self-contained HTML page; below the sections stands how the numbers were made.

    Args:
        idea: a file of `static/` with the pictures that explain what the report is about.
        head: title, subtitle, and how the numbers were made.
        headline: what came out.
        sections: in their order.
        styles: files of `static/` beside those of every report.
        untitled: the title where the head has none.
    """
    style = static_text("palette.css") + "".join(map(_static_text, ("study.css", *styles)))
    script = _static_text("study.js")
    policy = "; ".join(
        [
            "default-src 'none'",
            f"script-src {source_hash(script)}",
            f"style-src {source_hash(style)}",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
            "require-trusted-types-for 'script'",
        ]
    )
    shown = [*sections, *_how(head)]
    parts = {
        "<!--policy-->": join([policy]),
        "<!--title-->": join([head.title or untitled]),
        "<!--subtitle-->": tag("p", head.subtitle, class_="subtitle") if head.subtitle else "",
        "<!--headline-->": headline,
        "<!--contents-->": join(tag("a", name, href=f"#{target}") for target, name, _ in shown),
        "<!--idea-->": _static_text(idea),
        "<!--sections-->": join(drawn for _, _, drawn in shown),
        "<!--style-->": f"<style>{style}</style>",
        "<!--script-->": f"<script>{script}</script>",
    }
    page = _static_text("report.html")
    for marker, part in parts.items():
        page = page.replace(marker, part)  # no part contains a marker: texts are escaped
    return page


def _how(head: ReportHead) -> list[Section]:
    """How the numbers were made, and how long it took; nothing where nothing is known of it."""
    if not (head.settings or head.seconds or head.machine or head.notes):
        return []
    name = "Settings and times"
    told = tag("ul", [tag("li", note) for note in head.notes], class_="notes-list") if head.notes else None
    values = [
        tag("div", tag("dt", str(key)), tag("dd", _written(value))) for key, value in head.settings.items()
    ]
    caption = f"On {head.machine}" if head.machine else "How to get these numbers again"
    total = f", {duration(sum(head.seconds.values()))} in all" if head.seconds else ""
    drawn = section(
        "run",
        name,
        f"{caption}{total}.",
        told,
        _times(head.seconds) if head.seconds else None,
        tag("dl", values, class_="settings") if values else None,
    )
    return [("run", name, drawn)]


def _times(seconds: Mapping[str, float]) -> Markup:
    along = charts.Axis(0.0, max(*seconds.values(), 1e-9), (0.0,), charts.plain)
    rows = []
    for stage, taken in seconds.items():
        bar = charts.bar(along, 0, taken, height=12, colour="c0")
        drawing = charts.track(along, bar, label=f"{stage}: {duration(taken)}", height=22)
        rows.append(row(stage, drawing, duration(taken)))
    return tag("div", rows, class_="rows tight times")


def duration(seconds: float) -> str:
    """Seconds as people say them: `8.4 s`, `4 min 10 s`, `1 h 02 min`."""
    if seconds < 59.95:
        return f"{seconds:.1f}\u202fs"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes}\u202fmin {rest:02d}\u202fs"
    return f"{minutes // 60}\u202fh {minutes % 60:02d}\u202fmin"


def _written(value: Json) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _static_text(name: str) -> str:
    """A file of `static/`."""
    return (files("sweet_rl.studies.report") / "static" / name).read_text(encoding="utf-8")
