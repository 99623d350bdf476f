"""A report as one page: a template, its sections, and how the numbers were made.

A page is drawn here and needs no script to be read; the script adds tips at what is pointed at. Like the
viewer's export it may not use the network; a Content-Security-Policy allows its own style and script only.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from sweet_rl.types import Json
from sweet_rl.viewer import charts
from sweet_rl.viewer.markup import Markup, join, tag
from sweet_rl.viewer.page import source_hash, static_text
from sweet_rl.viewer.study_sections import section

Section: TypeAlias = tuple[str, str, Markup]
"""Its anchor, its name in the contents, and the section."""


def report_page(
    template: str,
    *,
    title: str,
    subtitle: str,
    headline: Markup,
    sections: Sequence[Section],
    styles: Sequence[str] = (),
) -> str:
    """One self-contained HTML page.

    Args:
        template: a file of `static/` with the places of the parts.
        title: of window and page.
        subtitle: one line below it; empty for none.
        headline: what came out.
        sections: in their order.
        styles: files of `static/` beside those of every report.
    """
    style = "".join(map(static_text, ("palette.css", "study.css", *styles)))
    script = static_text("study.js")
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
    parts = {
        "<!--policy-->": join([policy]),
        "<!--title-->": join([title]),
        "<!--subtitle-->": tag("p", subtitle, class_="subtitle") if subtitle else "",
        "<!--headline-->": headline,
        "<!--contents-->": join(tag("a", name, href=f"#{target}") for target, name, _ in sections),
        "<!--sections-->": join(drawn for _, _, drawn in sections),
        "<!--style-->": f"<style>{style}</style>",
        "<!--script-->": f"<script>{script}</script>",
    }
    page = static_text(template)
    for marker, part in parts.items():
        page = page.replace(marker, part)  # no part contains a marker: texts are escaped
    return page


def run_section(
    *, machine: str, seconds: Mapping[str, float], settings: Mapping[str, Json], notes: Sequence[str]
) -> Markup:
    """How the numbers were made, and how long it took."""
    told = tag("ul", [tag("li", note) for note in notes], class_="notes-list") if notes else None
    values = [
        tag("div", tag("dt", str(name)), tag("dd", _written(value))) for name, value in settings.items()
    ]
    caption = f"On {machine}" if machine else "How to get these numbers again"
    total = f", {duration(sum(seconds.values()))} in all" if seconds else ""
    return section(
        "run",
        "Settings and times",
        f"{caption}{total}.",
        told,
        _times(seconds) if seconds else None,
        tag("dl", values, class_="settings") if values else None,
    )


def _times(seconds: Mapping[str, float]) -> Markup:
    along = charts.Axis(0.0, max(*seconds.values(), 1e-9), (0.0,), charts.plain)
    rows = []
    for stage, taken in seconds.items():
        bar = charts.bar(along, 0, taken, height=12, colour="c0")
        drawing = charts.track(along, bar, label=f"{stage}: {duration(taken)}", height=22)
        cells = [(stage, "row-label"), (drawing, "row-plot"), (duration(taken), "row-value")]
        rows.append(tag("div", [tag("div", content, class_=name) for content, name in cells], class_="row"))
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
