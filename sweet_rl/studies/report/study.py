"""The report of a study as one page: what SWEET-RL did against its rivals, and how one can see why.

The page is drawn here and needs no script to be read; the script adds tips at what is pointed at. Like the
viewer's export it may not use the network; a Content-Security-Policy allows its own style and script only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sweet_rl.studies.report.markup import Markup, join, tag
from sweet_rl.studies.report.parts import share
from sweet_rl.studies.report.report import Section, report_page
from sweet_rl.studies.report.study_data import Method, Study, read_study
from sweet_rl.studies.report.study_dialogues import dialogues_section
from sweet_rl.studies.report.study_pages import pages_section
from sweet_rl.studies.report.study_sections import (
    colours,
    critics_section,
    curves_section,
    success_section,
    sweet,
    table_section,
    turns_section,
    verdicts_section,
    warm_start,
)
from sweet_rl.types import Json


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
    return report_page(
        "study_idea.html",
        known.head,
        headline=_headline(known.methods),
        sections=_sections(known),
        untitled="A study",
    )


def _sections(study: Study) -> list[Section]:
    """All that has something to show."""
    methods, given = study.methods, colours(study.methods)
    measured = any(method.success.mean is not None for method in methods)
    found: list[Section] = []
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
