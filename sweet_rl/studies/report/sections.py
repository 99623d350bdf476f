"""The sections of a comparison: a heading, a sentence on how to read it, and its content."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sweet_rl.studies.report import charts, words
from sweet_rl.studies.results import Axes, Comparison, Counted, Measure, Method

COLOURS = 8
"""Colours beside those of the start and of the study's own method come again after so many."""

_BANDS = (
    "A strong line is the mean over seeds, the band one standard error to each side; faint lines are single "
    "seeds. The numbers beside the names are the last means."
)
_BOUNDS = " Lines across are floors and ceilings, which learn nothing on the way."
_CHANGES = " Upright lines say what is played from there on."
_METHODS = (
    "Measured on episodes that nothing was learned from: means over seeds, with the 95 % interval beneath "
    "where it is known."
)
_INTERVALS = "The large dot is the mean, the line through it its 95 % interval, small dots are single seeds."
_CLAIMS = (
    "Differences, pair by pair: of the same seeds, or with one seed of the same tasks. The line is "
    "Student\u2019s 95 % interval, small dots are single seeds. A claim holds here if the whole interval is "
    "above 0; one that crosses 0 leaves it open."
)
_SHORT = "Differences of the same seeds, small dots, and Student\u2019s 95 % interval of their mean."
_CORRECTED = (
    " Intervals are wide enough for all {} claims of this page to be right together with 95 % (Bonferroni)."
)
_BEHAVIOUR = (
    "An oracle that knows each task's answer names every turn; a bar is their mean number in an episode."
)
_ENDINGS = (
    "A column is the share of episodes that ended after so many turns of the agent; the solid part of it "
    "succeeded. The number above is the success among the column's own episodes."
)
_CRITIC = (
    "Take a good turn and a bad one, by the oracle: how often does the critic score the good one higher "
    "(area under the ROC curve)? Above 0.5 is better than tossing a coin."
)
_TRAINING = (
    "Faint: every update. Strong: the mean over a fifteenth of the run. Of several seeds the first is shown."
)


@dataclass(frozen=True, slots=True)
class Section:
    """One part of the page.

    Attributes:
        part: the macro of `parts.html` that draws its data.
        folded: it is opened by a click, and on paper.
    """

    anchor: str
    name: str
    heading: str
    caption: str
    part: str
    data: Any
    folded: bool = False


def colours_of(parts: Sequence[Comparison]) -> dict[str, str]:
    """A colour for each method: grey for a start, blue for the study's own, none for bounds, others in their order."""
    given: dict[str, str] = {}
    for part in parts:
        own = {part.own: "c1", part.start: "c0"} | {each.name: "ink" for each in part.methods if each.bound}
        given = own | given
    others = dict.fromkeys(each.name for part in parts for each in part.methods if each.name not in given)
    return given | {name: f"c{2 + place % COLOURS}" for place, name in enumerate(others)}


def sections_of(part: Comparison, given: Mapping[str, str], *, several: bool) -> Iterator[Section]:
    """All sections that have something to show.

    Folded are, beside details, what another run made, but for its main curves, and what compares no method of
    the study's own. (Of those curves the page leaves the very first open.)

    Args:
        several: the page has other comparisons: headings name this one.
    """
    for place, each in enumerate(_sections(part, given)):
        caption = " ".join(filter(None, (part.origin, "" if place else part.text, each.caption)))
        if not several:
            yield replace(each, caption=caption)
            continue
        heading = f"{part.title}: {each.heading[0].lower()}{each.heading[1:]}"
        yield replace(each, name="" if place else part.title, heading=heading, caption=caption)


def _sections(part: Comparison, given: Mapping[str, str]) -> Iterator[Section]:
    another = bool(part.origin)
    dashed = " The dashed line is what all began with." if part.start and part.measures else ""
    across = f"{dashed}{_BOUNDS if any(method.bound for method in part.methods) else ''}"

    def section(
        anchor: str, name: str, heading: str, caption: str, kind: str, data: Any, *, folded: bool = False
    ) -> Section:
        return Section(f"{part.name}-{anchor}", name, heading, caption, kind, data, folded)

    for axes in part.curves:
        if axes.main and (drawn := _learning(part, axes, given)):
            heading = f"{axes.title[0].upper()}{axes.title[1:]} against {axes.along}"
            caption = _BANDS + across + (_CHANGES if axes.changes else "")
            yield section(axes.name, "Learning", heading, caption, "chart", drawn)
    if part.measures and not another and (drawn := _intervals(part, part.measures[0], given)):
        caption = f"{_INTERVALS}{dashed}"
        yield section("compared", "Compared", "Who is better", caption, "chart", drawn, folded=not part.own)
    if any(claim.mean is not None for claim in part.claims):
        among = max(claim.among for claim in part.claims)
        caption = (_SHORT if another else _CLAIMS) + (_CORRECTED.format(among) if among > 1 else "")
        yield section(
            "claims",
            "Differences",
            "What is more than chance?",
            caption,
            "chart",
            _claims(part, given),
            folded=another,
        )
    measured = [method for method in part.methods if any(run.measures for run in method.runs)]
    if critics := _critics(part, measured, given):
        heading = "Does the critic know good turns from bad ones?"
        yield section("critics", "Critics", heading, _CRITIC, "table", critics)
    if measured:
        table = _table(part, measured, given)
        yield section("methods", "Methods", "The methods in numbers", _METHODS, "table", table, folded=True)
    if found := _behaviour(part, measured, given):
        heading = "What the agent does in an episode"
        yield section("behaviour", "Behaviour", heading, _BEHAVIOUR, "behaviour", found, folded=True)
    if found := _endings(part, measured, given):
        heading = "When it answers, and with what success"
        yield section("turns", "Turns", heading, _ENDINGS, "panels", found, folded=True)
    if found := _training(part, given):
        yield section("training", "Training", "How training went", _TRAINING, "panels", found, folded=True)


def _learning(part: Comparison, axes: Axes, given: Mapping[str, str]) -> Any:
    series = [
        charts.Series(method.title, given[method.name], curves)
        for method in part.methods
        if (curves := [run.curves[axes.name] for run in method.runs if run.curves.get(axes.name)])
    ]
    if not series:
        return None
    series.sort(key=lambda each: each.colour)
    write, format_value = words.tick(axes.unit), words.writer(axes.unit)
    return charts.learning(part.title, series, _levels(part, axes), axes, write, format_value)


def _levels(part: Comparison, axes: Axes) -> list[charts.Level]:
    """What curves are seen against, by the first measure: the start, floors, ceilings; not what has a curve."""
    if not part.measures:
        return []
    means = {method.name: method.mean(part.measures[0].name) for method in part.methods}
    named = [("the start", part.start)] if part.start else []
    named += [(method.title, method.name) for method in part.methods if method.bound]
    drawn = {method.name for method in part.methods for run in method.runs if run.curves.get(axes.name)}
    return [
        charts.Level(title, mean)
        for title, name in named
        if (mean := means.get(name)) is not None and name not in drawn
    ]


def _table(part: Comparison, measured: list[Method], given: Mapping[str, str]) -> dict[str, Any]:
    """What each method learned from, and how well it did."""
    facts = list(dict.fromkeys(name for method in measured for name in method.facts))
    shown = [measure for measure in part.measures if measure.group == "result"]
    rivals = [method for method in measured if not method.bound]
    known = [mean for method in rivals if (mean := method.mean(shown[0].name)) is not None]
    best = (min if shown[0].better == "fewer" else max)(known, default=None)
    rows = []
    for method in measured:
        cells = [
            {"value": words.count(method.facts.get(name)), "beneath": "", "best": False} for name in facts
        ]
        cells += [
            _cell(
                measure.of(method),
                measure,
                best=place == 0
                and method in rivals
                and best is not None
                and method.mean(measure.name) == best,
            )
            for place, measure in enumerate(shown)
        ]
        rows.append(
            {"colour": given[method.name], "title": method.title, "text": method.text, "cells": cells}
        )
    return {"heads": [*facts, *(measure.title for measure in shown)], "rows": rows}


def _critics(part: Comparison, measured: list[Method], given: Mapping[str, str]) -> dict[str, Any] | None:
    """How often each critic is right, and on how many turns."""
    shown = [measure for measure in part.measures if measure.group == "critic"]
    rows = [
        {
            "colour": given[method.name],
            "title": method.title,
            "text": "",
            "cells": [
                {
                    "value": words.number(found.mean if found else None),
                    "beneath": f"of {words.count(found.n)} turns" if found and found.n else "",
                    "best": False,
                }
                for found in (measure.of(method) for measure in shown)
            ],
        }
        for method in measured
        if any(measure.of(method) for measure in shown)
    ]
    return {"heads": [measure.title for measure in shown], "rows": rows} if rows else None


def _cell(found: Counted | None, measure: Measure, *, best: bool) -> dict[str, Any]:
    write = words.writer(measure.unit)
    return {
        "value": write(found.mean if found else None),
        "beneath": words.span(found, measure.unit) if found else "",
        "best": best,
    }


def _intervals(part: Comparison, measure: Measure, given: Mapping[str, str]) -> Any:
    """A measure of every method on one axis."""
    rows = []
    for method in part.methods:
        if (found := measure.of(method)) is None:
            continue
        each = [run.measures[measure.name].mean for run in method.runs if measure.name in run.measures]
        label = words.writer(measure.unit)(found.mean)
        if span := words.span(found, measure.unit):
            label += f" ({span})"
        seeds = each if len(each) > 1 else []
        rows.append(
            charts.Row(method.title, given[method.name], found.mean, found.low, found.high, seeds, label)
        )
    start = next((row.mean for row in rows if row.colour == "c0"), None)
    write = words.tick(measure.unit)
    return charts.intervals(part.title, rows, start, measure.title, write) if rows else None


def _claims(part: Comparison, given: Mapping[str, str]) -> Any:
    unit = part.measures[0].unit
    rows = [
        charts.Row(
            claim.text,
            given[claim.better],
            claim.mean,
            claim.low,
            claim.high,
            [value for _, value in claim.each] if len(claim.each) > 1 else [],
            f"{words.signed(claim.mean, unit)}: {words.VERDICTS[claim.verdict]}",
        )
        for claim in part.claims
        if claim.mean is not None
    ]
    along = f"difference of {part.measures[0].title}{', in points' if unit == 'share' else ''}"
    return charts.intervals(part.title, rows, 0.0, along, words.signed_tick(unit))


def _behaviour(part: Comparison, measured: list[Method], given: Mapping[str, str]) -> list[Any]:
    groups = []
    for better, heading in (("more", "More is better"), ("fewer", "Fewer is better"), ("", "Others")):
        panels = []
        for measure in part.measures:
            known = [
                (method, value) for method in measured if (value := method.mean(measure.name)) is not None
            ]
            if measure.group != "behaviour" or measure.better != better or not any(v for _, v in known):
                continue
            rows = [{"title": m.title, "colour": given[m.name], "value": value} for m, value in known]
            panels.append({"title": measure.title, "rows": rows, "most": max(value for _, value in known)})
        if panels:
            groups.append((heading, panels))
    return groups


def _endings(part: Comparison, measured: list[Method], given: Mapping[str, str]) -> list[Any]:
    """The first seed of each method."""
    counts = {m.name: each for m in measured if (each := [e for e in m.runs[0].endings if e.episodes])}
    ends = [each for ends in counts.values() for each in ends]
    most = max((each.turns for each in ends), default=0)
    totals = [sum(each.episodes for each in ends) for ends in counts.values() for _ in ends]
    highest = max((each.episodes / total for each, total in zip(ends, totals, strict=True)), default=0)
    return [
        {
            "colour": given[m.name],
            "title": m.title,
            "charts": [
                charts.endings(f"{part.title}, {m.title}", counts[m.name], most, highest, given[m.name])
            ],
        }
        for m in measured
        if m.name in counts
    ]


def _training(part: Comparison, given: Mapping[str, str]) -> list[Any]:
    groups = []
    for method in part.methods:
        curves = method.runs[0].curves if method.runs else {}
        drawn = [
            charts.panel(
                f"{part.title}, {method.title}",
                curve,
                axes.title,
                axes.along,
                given[method.name],
                words.tick(axes.unit),
                words.writer(axes.unit),
            )
            for axes in part.curves
            if not axes.main and (curve := curves.get(axes.name))
        ]
        if drawn:
            groups.append({"colour": given[method.name], "title": method.title, "charts": drawn})
    return groups
