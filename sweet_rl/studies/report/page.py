"""The results of a study as one page that needs neither network nor scripts.

What models wrote is hostile: jinja2 escapes every text, and a Content-Security-Policy allows the page's own
style and script only. Style attributes are allowed, which charts have: they can load nothing.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from itertools import groupby
from typing import Any, Final, NamedTuple

from sweet_rl.studies.report import charts, words
from sweet_rl.studies.results import Axes, Comparison, Measure, Method, Results
from sweet_rl.viewer.export import from_template

COLOURS = 8  # Colours beside those of the start and of the study's own method come again after so many

TEXTS: Final = tomllib.loads(files(__package__).joinpath("sections.toml").read_text("utf-8"))


class Section(NamedTuple):
    """One part of the page, drawn by the macro `part` of `parts.html`; folded, it opens by a click, and on paper."""

    anchor: str
    name: str
    heading: str
    caption: str
    part: str
    data: Any
    folded: bool = False


def _section(kind: str, data: Any, more: str = "", **changed: Any) -> Section:
    given = {"anchor": kind, **TEXTS[kind], **changed}
    name, heading, caption = (given[text] for text in ("name", "heading", "caption"))
    return Section(
        given["anchor"], name, heading, caption + more, given["part"], data, given.get("folded", False)
    )


def results_page(results: Results) -> str:
    results = words.printable(results)
    several = len([each for each in results.comparisons if each.own]) > 1
    colours = colours_of(results.comparisons)
    found = [
        (bool(part.origin), each)
        for part in results.comparisons
        for each in sections_of(part, colours, several=several)
    ]
    # The very first curves stay open, whoever made them; else what another run made comes last, and folded.
    main = bool(results.comparisons) and any(axes.main for axes in results.comparisons[0].curves)
    first = [each for _, each in found[:1]] if main else []
    others = [
        each._replace(folded=each.folded or another)
        for another, each in sorted(found[len(first) :], key=lambda known: known[0])
    ]
    headlines = [
        _headline(each, several=several)
        for each in sorted(results.comparisons, key=lambda part: bool(part.origin))
    ]
    day, version, command = (results.provenance.get(name, "") for name in ("day", "sweet_rl", "command"))
    known = (day and f" on {day}", version and f" by sweet_rl {version}", command and " with:")
    idea = f"idea_{results.study}.html"
    tones = {name: "good" if good else "bad" for name, good in words.GOOD.items()}
    return from_template(
        "sweet_rl.studies.report",
        "page.html",
        style="report.css",
        script="report.js",
        rules=["style-src-attr 'unsafe-inline'"],
        title=results.title,
        results=results,
        headlines=list(filter(None, headlines)),
        idea=idea if files(__package__).joinpath("templates", idea).is_file() else "",
        first=first,
        made=f"Made{''.join(known)}" if any(known) else "",
        command=command,
        sections=[*others, *_examples(results), _run(results)],
        colours=colours,
        tone=lambda verdict: tones.get(verdict, ""),
        **{
            name: getattr(words, name)
            for name in ("share", "number", "signed", "duration", "setting", "is_code")
        },
    )


def _headline(part: Comparison, *, several: bool) -> dict[str, Any] | None:
    """What its own method reached, beside the start and the best of the others; small where another run made it."""
    own = next((method for method in part.methods if method.name == part.own), None)
    if own is None or not part.measures or (reached := own.mean(part.measures[0].name)) is None:
        return None
    measure = part.measures[0]
    write, fewer = words.writer(measure.unit), measure.better == "fewer"
    known = [
        (method, mean)
        for method in part.methods
        if method.name != own.name
        and not method.name.startswith(f"{own.name}_")
        and (mean := method.mean(measure.name)) is not None
    ]
    rivals = [each for each in known if each[0].name != part.start and not each[0].bound]
    others = sorted(rivals, key=lambda each: each[1] if fewer else -each[1])[:1]
    others += [each for each in known if each[0].name == part.start]
    verdicts = []
    for verdict, text in words.VERDICTS.items():
        claims = [
            claim.text if claim.mean is None else f"{claim.text} ({words.signed(claim.mean, measure.unit)})"
            for claim in part.claims
            if claim.verdict == verdict
        ]
        if claims:
            verdicts.append((f"{text[0].upper()}{text[1:]}", claims))
    head = {"world": part.title if several else "", "small": bool(part.origin), "own": own.title}
    head |= {"verb": "needs" if fewer else "reaches", "value": write(reached), "measure": measure.title}
    return head | {"others": [(each.title, write(mean)) for each, mean in others], "verdicts": verdicts}


def _examples(results: Results) -> Iterator[Section]:
    if results.dialogues:
        groups = groupby(results.dialogues, key=lambda each: (each.request, each.solution))
        turns = [turn for each in results.dialogues for turn in each.turns]
        data = {
            "groups": [list(group) for _, group in groups],
            "candidates": any(turn.candidates for turn in turns),
            "first": results.dialogues[0],
        }
        judged = any(turn.score is not None for turn in turns)
        caption = "judged" if judged else "caption"
        yield _section("dialogues", data, caption=TEXTS["dialogues"][caption])
    if results.strips:
        yield _section("strips", results.strips)


def _run(results: Results) -> Section:
    machine = results.provenance.get("machine")
    caption = f"On {machine}" if machine else TEXTS["run"]["caption"]
    if results.seconds:
        caption += f", {words.duration(sum(results.seconds.values()))} in all"
    data = {
        "notes": results.notes,
        "failures": results.failures,
        "seconds": results.seconds,
        "settings": {**results.settings, **results.provenance},
    }
    return _section("run", data, caption=f"{caption}.")


def colours_of(parts: Sequence[Comparison]) -> dict[str, str]:
    """A colour for each method: grey for a start, blue for the study's own, none for bounds, others in their order."""
    given: dict[str, str] = {}
    for part in parts:
        own = {part.own: "c1", part.start: "c0"} | {each.name: "ink" for each in part.methods if each.bound}
        given = own | given
    others = dict.fromkeys(each.name for part in parts for each in part.methods if each.name not in given)
    return given | {name: f"c{2 + place % COLOURS}" for place, name in enumerate(others)}


def sections_of(part: Comparison, given: Mapping[str, str], *, several: bool) -> Iterator[Section]:
    """All sections that have something to show; headings name the comparison if there are `several`."""
    for place, each in enumerate(_sections(part, given)):
        caption = " ".join(filter(None, (part.origin, "" if place else part.text, each.caption)))
        name, heading = each.name, each.heading
        if several:
            name = "" if place else part.title
            heading = f"{part.title}: {heading[0].lower()}{heading[1:]}"
        yield each._replace(anchor=f"{part.name}-{each.anchor}", name=name, heading=heading, caption=caption)


def _sections(part: Comparison, given: Mapping[str, str]) -> Iterator[Section]:
    another, curves, claims = bool(part.origin), TEXTS["curves"], TEXTS["claims"]
    dashed = curves["start"] if part.start and part.measures else ""
    across = dashed + (curves["bounds"] if any(method.bound for method in part.methods) else "")
    for axes in part.curves:
        if axes.main and (drawn := _learning(part, axes, given)):
            heading = f"{axes.title[0].upper()}{axes.title[1:]} against {axes.along}"
            more = across + (curves["changes"] if axes.changes else "")
            yield _section("curves", drawn, more, anchor=axes.name, heading=heading)
    if part.measures and not another and (drawn := _intervals(part, part.measures[0], given)):
        yield _section("compared", drawn, dashed, folded=not part.own)
    if any(claim.mean is not None for claim in part.claims):
        among = max(claim.among for claim in part.claims)
        caption = claims["short"] if another else claims["caption"]
        more, drawn = claims["corrected"].format(among) if among > 1 else "", _claims(part, given)
        yield _section("claims", drawn, more, caption=caption, folded=another)
    measured = [method for method in part.methods if any(run.measures for run in method.runs)]
    if critics := _critics(part, measured, given):
        yield _section("critics", critics)
    if measured:
        yield _section("methods", _table(part, measured, given))
    if found := _behaviour(part, measured, given):
        yield _section("behaviour", found)
    if found := _training(part, given):
        yield _section("training", found)


def _learning(part: Comparison, axes: Axes, given: Mapping[str, str]) -> Any:
    series = [
        charts.Series(method.title, given[method.name], curves)
        for method in part.methods
        if (curves := [run.curves[axes.name] for run in method.runs if run.curves.get(axes.name)])
    ]
    if not series:
        return None
    series.sort(key=lambda each: each.colour)
    # What curves are seen against, by the first measure: the start, floors, ceilings; not what has a curve.
    levels = []
    drawn = {method.name for method in part.methods for run in method.runs if run.curves.get(axes.name)}
    if part.measures:
        means = {method.name: method.mean(part.measures[0].name) for method in part.methods}
        named = [("the start", part.start)] if part.start else []
        named += [(method.title, method.name) for method in part.methods if method.bound]
        levels = [
            (title, mean)
            for title, name in named
            if (mean := means.get(name)) is not None and name not in drawn
        ]
    return charts.learning(part.title, series, levels, axes)


def _table(part: Comparison, measured: list[Method], given: Mapping[str, str]) -> dict[str, Any]:
    facts = list(dict.fromkeys(name for method in measured for name in method.facts))
    shown = [measure for measure in part.measures if measure.group == "result"]
    rivals = [method for method in measured if not method.bound]
    known = [mean for method in rivals if (mean := method.mean(shown[0].name)) is not None]
    best = (min if shown[0].better == "fewer" else max)(known, default=None)
    rows = []
    for method in measured:
        cells = [_cell(words.count(method.facts.get(name))) for name in facts]
        for place, measure in enumerate(shown):
            found = measure.of(method)
            value = words.writer(measure.unit)(found.mean if found else None)
            first = place == 0 and method in rivals and best is not None
            wins = first and method.mean(measure.name) == best
            cells.append(_cell(value, words.span(found, measure.unit) if found else "", best=wins))
        rows.append(
            {"colour": given[method.name], "title": method.title, "text": method.text, "cells": cells}
        )
    return {"heads": [*facts, *(measure.title for measure in shown)], "rows": rows}


def _cell(value: str, beneath: str = "", *, best: bool = False) -> dict[str, Any]:
    return {"value": value, "beneath": beneath, "best": best}


def _critics(part: Comparison, measured: list[Method], given: Mapping[str, str]) -> dict[str, Any] | None:
    shown = [measure for measure in part.measures if measure.group == "critic"]
    rows = []
    for method in measured:
        every, cells = [measure.of(method) for measure in shown], []
        for found in every:
            beneath = f"of {words.count(found.n)} turns" if found and found.n else ""
            cells.append(_cell(words.number(found.mean if found else None), beneath))
        if any(every):
            rows.append({"colour": given[method.name], "title": method.title, "text": "", "cells": cells})
    return {"heads": [measure.title for measure in shown], "rows": rows} if rows else None


def _intervals(part: Comparison, measure: Measure, given: Mapping[str, str]) -> Any:
    rows = []
    for method in part.methods:
        if (found := measure.of(method)) is None:
            continue
        each = [one.mean for one in method.measured(measure.name).values()]
        label, interval = words.writer(measure.unit)(found.mean), (found.mean, found.low, found.high)
        if span := words.span(found, measure.unit):
            label += f" ({span})"
        seeds = each if len(each) > 1 else []
        rows.append(charts.Row(method.title, given[method.name], *interval, seeds, label))
    start = next((row.mean for row in rows if row.colour == "c0"), None)
    write = words.tick(measure.unit)
    return charts.intervals(part.title, rows, start, measure.title, write) if rows else None


def _claims(part: Comparison, given: Mapping[str, str]) -> Any:
    unit, rows = part.measures[0].unit, []
    for claim in part.claims:
        if claim.mean is not None:
            each = [value for _, value in claim.each] if len(claim.each) > 1 else []
            label = f"{words.signed(claim.mean, unit)}: {words.VERDICTS[claim.verdict]}"
            interval = claim.mean, claim.low, claim.high
            rows.append(charts.Row(claim.text, given[claim.better], *interval, each, label))
    along = f"difference of {part.measures[0].title}{', in points' if unit == 'share' else ''}"
    return charts.intervals(part.title, rows, 0.0, along, words.signed_tick(unit))


def _behaviour(part: Comparison, measured: list[Method], given: Mapping[str, str]) -> list[Any]:
    groups = []
    for better, heading in (
        ("more", "More is better"),
        ("fewer", "Fewer is better"),
        ("turns", "Success of the episodes with so many turns"),
        ("", "Others"),
    ):
        panels = []
        for measure in part.measures:
            if measure.group != "behaviour" or measure.better != better:
                continue
            means = [(method, method.mean(measure.name)) for method in measured]
            known = [(method, value) for method, value in means if value is not None]
            if any(value for _, value in known):
                rows = [{"title": m.title, "colour": given[m.name], "value": value} for m, value in known]
                most = max(value for _, value in known)
                panels.append({"title": measure.title, "rows": rows, "most": most})
        if panels:
            groups.append((heading, panels))
    return groups


def _training(part: Comparison, given: Mapping[str, str]) -> list[Any]:
    groups = []
    for method in part.methods:
        curves = method.runs[0].curves if method.runs else {}
        colour, label = given[method.name], f"{part.title}, {method.title}"
        drawn = [
            charts.panel(label, curves[axes.name], axes, colour)
            for axes in part.curves
            if not axes.main and curves.get(axes.name)
        ]
        if drawn:
            groups.append({"colour": colour, "title": method.title, "charts": drawn})
    return groups
