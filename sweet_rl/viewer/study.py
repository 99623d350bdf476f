"""The report of a study as one page: what SWEET-RL did against its rivals, and how one can see why.

The page is drawn here and needs no script to be read; the script adds tips at what is pointed at. Like the
viewer's export it may not use the network; a Content-Security-Policy allows its own style and script only.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from sweet_rl.types import Json
from sweet_rl.viewer import charts
from sweet_rl.viewer.markup import Markup, join, tag
from sweet_rl.viewer.page import source_hash, static_text
from sweet_rl.viewer.study_data import Method, Study, read_study
from sweet_rl.viewer.study_dialogues import dialogues_section
from sweet_rl.viewer.study_pages import pages_section
from sweet_rl.viewer.study_sections import (
    colours,
    critics_section,
    curves_section,
    section,
    share,
    success_section,
    sweet,
    table_section,
    turns_section,
    verdicts_section,
    warm_start,
)


def study_page(study: Mapping[str, Json]) -> str:
    """One self-contained HTML page for a study's result.

    Args:
        study: `title`, `subtitle`, `settings`, `machine`, `seconds` by stage, `notes`, and the lists
            `methods`, `critics`, `curves` and `dialogues`, and `pages`, with the fields of `study_data`'s
            dataclasses; shares are of 1. Whatever is missing, null or empty is left out of the page. A
            method whose name contains `warm` is the warm start; the first whose name contains `sweet` is
            SWEET-RL, later ones are its variants.

    Raises:
        DataError: a value is of another kind than the page needs; names the field.
    """
    known = read_study(study)
    style = static_text("palette.css") + static_text("study.css")
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
    sections = _sections(known)
    parts = {
        "<!--policy-->": join([policy]),
        "<!--title-->": join([known.title or "A study"]),
        "<!--subtitle-->": tag("p", known.subtitle, class_="subtitle") if known.subtitle else "",
        "<!--headline-->": _headline(known.methods),
        "<!--contents-->": join(tag("a", name, href=f"#{target}") for target, name, _ in sections),
        "<!--sections-->": join(drawn for _, _, drawn in sections),
        "<!--style-->": f"<style>{style}</style>",
        "<!--script-->": f"<script>{script}</script>",
    }
    page = static_text("study.html")
    for marker, part in parts.items():
        page = page.replace(marker, part)  # no part contains a marker: texts are escaped
    return page


def _sections(study: Study) -> list[tuple[str, str, Markup]]:
    """(anchor, name in the contents, section) for all that has something to show."""
    methods, given = study.methods, colours(study.methods)
    measured = any(method.success.mean is not None for method in methods)
    found: list[tuple[str, str, Markup]] = []
    if methods:
        found.append(("methods", "Methods", table_section(methods, given)))
    if measured:
        found.append(("success", "Success", success_section(methods, given)))
    if any(count for method in methods for count in method.verdicts.values()):
        found.append(("verdicts", "Behaviour", verdicts_section(methods, given)))
    if any(count.episodes > 0 for method in methods for count in method.by_turns):
        found.append(("turns", "Turns", turns_section(methods, given)))
    if study.critics:
        found.append(("critics", "Critics", critics_section(study.critics, given)))
    if any(curve.loss or curve.accuracy or curve.margin for curve in study.curves):
        found.append(("curves", "Training", curves_section(study.curves, given)))
    if study.dialogues:
        found.append(("dialogues", "Dialogues", dialogues_section(study.dialogues, given)))
    if study.pages.designers or study.pages.strips:
        found.append(("pages", "Pages", pages_section(study.pages)))
    if study.settings or study.seconds or study.machine or study.notes:
        found.append(("run", "Settings and times", _run_section(study)))
    return found


# ---- headline


def _headline(methods: Sequence[Method]) -> Markup:
    """Who solved how much, and whether the intervals allow to say who is ahead."""
    measured = [method for method in methods if method.success.mean is not None]
    own, base = sweet(measured), warm_start(measured)
    rivals = [m for m in measured if m is not base and "sweet" not in m.name.lower()]
    rival = max(rivals, key=_mean, default=None)
    if not measured:
        return tag("p", "No method has been measured yet.", class_="headline")
    first = own or max(measured, key=_mean)
    clauses = [_clause("", first, " solves ", " of the test episodes")]
    if rival and rival is not first:
        clauses.append(_clause("its best rival (" if own else "the next best (", rival, ") ", ""))
    if base and base is not first:
        clauses.append(_clause("the model all began from (", base, ") ", ""))
    compared = _compared(first, rival) if rival and rival is not first else ""
    return join(
        [
            tag("p", _enumerated(clauses), ".", class_="headline"),
            tag("p", compared, class_="verdict-line") if compared else None,
        ]
    )


def _clause(before: str, method: Method, between: str, after: str) -> Markup:
    return join([before, method.title, between, tag("strong", share(method.success.mean)), after])


def _enumerated(clauses: list[Markup]) -> Markup:
    """`a`; `a, and b`; `a, b, and c`."""
    *others, last = clauses
    return join([*((clause, ", ") for clause in others), "and " if others else "", last])


def _compared(first: Method, rival: Method) -> str:
    points = round(100 * (_mean(first) - _mean(rival)), 1)
    if points == 0:
        return f"{first.title} and {rival.title} are level."
    lead = f"{first.title} is {abs(points):.1f} points {'ahead' if points >= 0 else 'behind'}"
    (upper, lower) = (first, rival) if points >= 0 else (rival, first)
    if upper.success.low is None or lower.success.high is None:
        return f"{lead}; the intervals are not known."
    if upper.success.low > lower.success.high:
        return f"{lead}, and the two intervals do not overlap."
    return f"{lead}, but the two intervals overlap: a difference, not a proof."


def _mean(method: Method) -> float:
    return method.success.mean or 0.0


# ---- settings and times


def _run_section(study: Study) -> Markup:
    notes = tag("ul", [tag("li", note) for note in study.notes], class_="notes-list") if study.notes else None
    settings = [
        tag("div", tag("dt", str(name)), tag("dd", _written(value))) for name, value in study.settings.items()
    ]
    caption = f"On {study.machine}" if study.machine else "How to get these numbers again"
    total = f", {duration(sum(study.seconds.values()))} in all" if study.seconds else ""
    return section(
        "run",
        "Settings and times",
        f"{caption}{total}.",
        notes,
        _times(study.seconds) if study.seconds else None,
        tag("dl", settings, class_="settings") if settings else None,
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
