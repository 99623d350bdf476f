"""The results of a study as one page that needs neither network nor scripts.

What models wrote is hostile: jinja2 escapes every text, and a Content-Security-Policy allows the page's own
style and script only. Style attributes are allowed, which charts have: they can load nothing.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from itertools import groupby
from typing import Any, Final

from sweet_rl.studies.report import charts, words
from sweet_rl.studies.results import Axes, Comparison, Measure, Results
from sweet_rl.viewer.export import from_template

COLOURS = 8  # Colours beside those of the start and of the study's own method come again after so many
DIFFERENT = 3  # Settings that a headline names, of those in which a run differs from the full study

TEXTS: Final = tomllib.loads(files(__package__).joinpath("sections.toml").read_text("utf-8"))


def _section(kind: str, data: Any, more: str = "", **changed: Any) -> dict[str, Any]:
    """A part of the page, drawn by the macro `part` of `parts.html`; folded, it opens by a click, and on paper."""
    given = {"anchor": kind, "folded": False, **TEXTS[kind], **changed}
    return given | {"data": data, "caption": given["caption"] + more}


def results_page(results: Results) -> str:
    results = words.printable(results)
    parts, colours = results.comparisons, colours_of(results.comparisons)
    full = {part.name.removeprefix("full-"): part for part in parts if part.origin}
    own = [part for part in parts if not part.origin]
    here, there = list[dict[str, Any]](), list[dict[str, Any]]()
    for part in parts:
        group, several = (there, len(full) > 1) if part.origin else (here, len(own) > 1)
        for place, each in enumerate(_sections(part, colours, full.get(part.name))):
            each["anchor"] = f"{part.name}-{each['anchor']}"
            if several:
                each["heading"] = f"{part.title}: {each['heading'][0].lower()}{each['heading'][1:]}"
            if part.text and not place:
                each["caption"] = f"{part.text} {each['caption']}"
            group.append(each | {"folded": bool(each["folded"] or part.origin)})
    # The very first curves stand beside the idea, whoever made them.
    lead, first = None, there or here
    if first and any(axes.main for axes in parts[0].curves):
        lead = first.pop(0)
        lead["caption"] = f"{parts[0].origin} {lead['caption']}"
        lead["heading"] = lead["heading"] if parts[0].measures else parts[0].title
    made = {**results.settings, **results.provenance}
    strips = [_section("strips", results.strips)] if results.strips else []
    chapters = {
        "this-run": [*here, *strips],
        "dialogues": _dialogues(results),
        "full-study": there,
        "settings": [_section("run", (made | dict(results.full), made))],
    }
    day, version, command = (results.provenance.get(name, "") for name in ("day", "sweet_rl", "command"))
    known = (day and f" on {day}", version and f" by sweet_rl {version}", command and " with:")
    idea = f"idea_{results.study}.html"
    return from_template(
        "sweet_rl.studies.report",
        "page.html",
        style="report.css",
        script="report.js",
        rules=["style-src-attr 'unsafe-inline'"],
        title=results.title,
        results=results,
        headlines=[head for part in own if (head := _headline(part, full.get(part.name), results))],
        idea=idea if files(__package__).joinpath("templates", idea).is_file() else "",
        lead=lead,
        made=f"Made{''.join(known)}" if any(known) else "",
        command=command,
        chapters={kind: sections for kind, sections in chapters.items() if sections},
        texts=TEXTS["chapters"],
        columns=TEXTS["columns"].get(results.study, {}),
        colours=colours,
        tone=lambda verdict: {True: "good", False: "bad", None: ""}[words.GOOD.get(verdict)],
        words=words,
    )


def _headline(part: Comparison, full: Comparison | None, results: Results) -> dict[str, Any] | None:
    """What a run reached, and beside it the full study: which of its differences come out again, and what differs."""
    head = _reached(part) if part.start or part.curves else None
    known = _reached(full) if head and full else None
    if full and known:
        verdicts = {claim.text: claim.verdict for claim in part.claims}
        settled = {each.text: each.verdict for each in full.claims if each.verdict in ("holds", "reversed")}
        known["settled"] = [verdicts[each] == settled[each] for each in settled if each in verdicts]
        known["unlike"] = [
            (name, value, results.full[name])
            for name, value in results.settings.items()
            if name != "seeds" and results.full.get(name) not in (None, value)
        ][:DIFFERENT]
    return head and {**head, "world": part.title, "full": known}


def _reached(part: Comparison) -> dict[str, Any] | None:
    """The first measure of the study's own method, of its start, and of the best of its rivals, as texts."""
    methods, measure = {method.name: method for method in part.methods}, next(iter(part.measures), None)
    own = methods.get(part.own)
    if own is None or measure is None or (found := measure.of(own)) is None:
        return None
    write = words.writer(measure.unit)
    means = {name: method.mean(measure.name) for name, method in methods.items()}
    rivals = [
        (mean, method.title)
        for method in part.methods
        if (mean := means[method.name]) is not None
        and not (method.bound or method.name == part.start or method.name.startswith(part.own))
    ]
    best = (min if measure.better == "fewer" else max)(rivals, default=None)
    start = means.get(part.start)
    return {
        "own": own.title,
        "seeds": len(own.runs),
        "measure": measure.title,
        "value": write(found.mean),
        "span": words.span(found, measure.unit),
        "best": best and (best[1], write(best[0])),
        "start": "" if start is None else write(start),
    }


def _dialogues(results: Results) -> list[dict[str, Any]]:
    """Dialogues about the same, side by side: each with what it says and the others do not."""
    data = []
    for _, found in groupby(results.dialogues, lambda each: (each.request, each.solution)):
        group = list(found)
        said = [{turn.agent for turn in each.turns} for each in group]
        others = [set().union(*said[:at], *said[at + 1 :]) or own for at, own in enumerate(said)]
        data.append([(each, own - other) for each, own, other in zip(group, said, others, strict=True)])
    judged = any(turn.score is not None for each in results.dialogues for turn in each.turns)
    caption = TEXTS["dialogues"]["judged" if judged else "caption"]
    return [_section("dialogues", data, caption=caption)] if data else []


def colours_of(parts: Sequence[Comparison]) -> dict[str, str]:
    """A colour for each method: grey for a start, blue for the study's own, none for bounds, others in their order."""
    given: dict[str, str] = {}
    for part in parts:
        own = {part.own: "c1", part.start: "c0"} | {each.name: "ink" for each in part.methods if each.bound}
        given = own | given
    others = dict.fromkeys(each.name for part in parts for each in part.methods if each.name not in given)
    return given | {name: f"c{2 + place % COLOURS}" for place, name in enumerate(others)}


def _sections(
    part: Comparison, given: Mapping[str, str], full: Comparison | None
) -> Iterator[dict[str, Any]]:
    another, curves, claims = bool(part.origin), TEXTS["curves"], TEXTS["claims"]
    dashed = curves["start"] if part.start and part.measures else ""
    across = dashed + (curves["bounds"] if any(method.bound for method in part.methods) else "")
    beside, main = TEXTS["compared"]["full"] if full else "", bool(part.own and (part.start or part.curves))
    for axes in part.curves:
        if axes.main and (drawn := _learning(part, axes, given)):
            heading = f"{axes.title[0].upper()}{axes.title[1:]} against {axes.along}"
            more = across + (curves["changes"] if axes.changes else "")
            yield _section("curves", drawn, more, anchor=axes.name, heading=heading)
    if part.measures and not another and (drawn := _intervals(part, part.measures[0], given, full)):
        yield _section("compared", drawn, dashed + beside, folded=not main)
    if any(claim.mean is not None for claim in part.claims):
        among = max(claim.among for claim in part.claims)
        caption = claims["short"] if another else claims["caption"]
        more = (claims["corrected"].format(among) if among > 1 else "") + beside
        yield _section("claims", _claims(part, given, full), more, caption=caption, folded=not main)
    for kind, found in (
        ("critics", _table(part, "critic", given)),
        ("methods", _table(part, "result", given)),
        ("behaviour", _behaviour(part, given)),
        ("training", _training(part, given)),
    ):
        if found:
            yield _section(kind, found)


def _learning(part: Comparison, axes: Axes, given: Mapping[str, str]) -> Any:
    series, levels = [], []
    for method in sorted(part.methods, key=lambda method: given[method.name]):
        mean = method.mean(part.measures[0].name) if part.measures else None
        if curves := [run.curves[axes.name] for run in method.runs if run.curves.get(axes.name)]:
            series.append(charts.Series(method.title, given[method.name], curves))
        elif mean is not None and (method.bound or method.name == part.start):
            # what curves are seen against, by the first measure: the start, which is c0, floors and ceilings
            levels.append(("before training" if method.name == part.start else method.title, mean))
    # Without measures of its own it is one of the two pictures, half as wide.
    wide = charts.WIDE if part.measures else charts.HALF
    return charts.learning(part.title, series, levels, axes, wide) if series else None


def _table(part: Comparison, group: str, given: Mapping[str, str]) -> dict[str, Any] | None:
    """The measures of a group, a row for each method: results after what it learned from, critics with their turns."""
    shown, critic = [measure for measure in part.measures if measure.group == group], group == "critic"
    every = [(method, [measure.of(method) for measure in shown]) for method in part.methods]
    measured = [(method, found) for method, found in every if any(found)]
    facts = [] if critic else list(dict.fromkeys(name for method, _ in measured for name in method.facts))
    rivals = [found[0].mean for method, found in measured if found[0] and not method.bound]
    best = (min if shown and shown[0].better == "fewer" else max)(rivals, default=None)
    rows = []
    for method, found in measured:
        cells = [(words.count(method.facts.get(name)), "", False) for name in facts]  # value, beneath, best
        for place, (measure, each) in enumerate(zip(shown, found, strict=True)):
            turns = f"of {words.count(each.n)} turns" if each and each.n else ""
            beneath = turns if critic else words.span(each, measure.unit) if each else ""
            wins = each is not None and each.mean == best and not (critic or place or method.bound)
            cells.append((words.writer(measure.unit)(each.mean if each else None), beneath, wins))
        text = "" if critic else method.text
        rows.append({"colour": given[method.name], "title": method.title, "text": text, "cells": cells})
    heads = [*((name, name) for name in facts), *((measure.name, measure.title) for measure in shown)]
    return {"heads": heads, "rows": rows} if rows else None


def _intervals(part: Comparison, measure: Measure, given: Mapping[str, str], full: Comparison | None) -> Any:
    rows, known = [], {method.name: method.mean(measure.name) for method in full.methods} if full else {}
    for method in part.methods:
        if found := measure.of(method):
            each = [one.mean for one in method.measured(measure.name).values()]
            span = words.span(found, measure.unit)
            label = words.writer(measure.unit)(found.mean) + (f" ({span})" if span else "")
            seeds, mean = each if len(each) > 1 else [], known.get(method.name)
            rows.append(charts.Row(method.title, given[method.name], found, seeds, label, mean))
    start = next((row.found.mean for row in rows if row.colour == "c0"), None)
    write = words.tick(measure.unit)
    return charts.intervals(part.title, rows, start, measure.title, write) if rows else None


def _claims(part: Comparison, given: Mapping[str, str], full: Comparison | None) -> Any:
    unit, rows = part.measures[0].unit, []
    known = {claim.text: claim.mean for claim in full.claims} if full else {}
    for claim in part.claims:
        if claim.mean is not None:
            each = [value for _, value in claim.each] if len(claim.each) > 1 else []
            label = f"{words.signed(claim.mean, unit)}: {words.VERDICTS[claim.verdict]}"
            mean = known.get(claim.text)
            rows.append(charts.Row(claim.text, given[claim.better], claim, each, label, mean))
    along = f"difference of {part.measures[0].title}{', in points' if unit == 'share' else ''}"
    return charts.intervals(part.title, rows, 0.0, along, words.signed_tick(unit))


def _behaviour(part: Comparison, given: Mapping[str, str]) -> list[Any]:
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
            rows = [
                {"title": method.title, "colour": given[method.name], "value": value}
                for method in part.methods
                if (value := method.mean(measure.name)) is not None
            ]
            if any(row["value"] for row in rows):
                panels.append({"title": measure.title, "rows": rows})
        if panels:
            groups.append((heading, panels))
    return groups


def _training(part: Comparison, given: Mapping[str, str]) -> list[Any]:
    groups, shown = [], [axes for axes in part.curves if not axes.main]
    for method in part.methods:
        curves, colour = method.runs[0].curves if method.runs else {}, given[method.name]
        known = [(curves[axes.name], axes) for axes in shown if curves.get(axes.name)]
        if drawn := [charts.panel(f"{part.title}, {method.title}", *each, colour) for each in known]:
            groups.append({"colour": colour, "title": method.title, "charts": drawn})
    return groups
