"""The results of a study as one page that needs neither network nor scripts.

What models wrote is hostile: jinja2 escapes every text, and a Content-Security-Policy allows the page's own
style and script only. Style attributes are allowed, which charts have: they can load nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import groupby

from sweet_rl.studies.report import words
from sweet_rl.studies.report.sections import Section, colours_of, sections_of
from sweet_rl.studies.results import Claim, Comparison, Results
from sweet_rl.viewer.page import from_template

IDEAS = ("sweet", "archer", "reflect")
"""Studies whose idea is explained in pictures."""


@dataclass(frozen=True, slots=True)
class Headline:
    """What came out in one world: the study's own method, others beside it, and what the intervals say.

    It is small where another run made it.
    """

    world: str
    small: bool
    own: str
    verb: str
    value: str
    measure: str
    others: list[tuple[str, str]]
    verdicts: list[tuple[str, list[str]]]


def results_page(results: Results) -> str:
    """One HTML page; whatever the results lack is left out."""
    results = words.printable(results)
    several = len([each for each in results.comparisons if each.own]) > 1
    colours = colours_of(results.comparisons)
    found = [
        (bool(part.origin), each)
        for part in results.comparisons
        for each in sections_of(part, colours, several=several)
    ]
    main = bool(results.comparisons) and any(axes.main for axes in results.comparisons[0].curves)
    first = [each for _, each in found[:1]] if main else []
    others = [
        replace(each, folded=each.folded or another)
        for another, each in sorted(found[len(first) :], key=lambda known: known[0])
    ]
    return from_template(
        "sweet_rl.studies.report",
        "page.html",
        style="report.css",
        script="report.js",
        rules=["style-src-attr 'unsafe-inline'"],
        results=results,
        headlines=[
            line
            for each in sorted(results.comparisons, key=lambda part: bool(part.origin))
            if (line := _headline(each, several=several))
        ],
        idea=f"idea_{results.study}.html" if results.study in IDEAS else "",
        first=first,
        made=_made(results.provenance),
        command=results.provenance.get("command", ""),
        sections=[*others, *_examples(results), _run(results)],
        colours=colours,
        tone=lambda verdict: {True: "good", False: "bad"}.get(words.GOOD.get(verdict), ""),  # type: ignore[arg-type]
        **{
            name: getattr(words, name)
            for name in ("share", "number", "signed", "duration", "setting", "is_code")
        },
    )


def _made(provenance: Mapping[str, str]) -> str:
    """When and by which version, and what leads to the command; as far as it is known."""
    day, version, command = (provenance.get(name, "") for name in ("day", "sweet_rl", "command"))
    known = (day and f" on {day}", version and f" by sweet_rl {version}", command and " with:")
    return f"Made{''.join(known)}" if any(known) else ""


def _headline(part: Comparison, *, several: bool) -> Headline | None:
    """What its own method reached, beside the start and the best of the others."""
    own = next((method for method in part.methods if method.name == part.own), None)
    if own is None or not part.measures or (reached := own.mean(part.measures[0].name)) is None:
        return None
    measure = part.measures[0]
    write = words.writer(measure.unit)
    variants = {method.name for method in part.methods if method.name.startswith(f"{own.name}_")}
    known = [
        (method, mean)
        for method in part.methods
        if method.name not in {own.name, *variants} and (mean := method.mean(measure.name)) is not None
    ]
    rivals = [
        (method.title, mean) for method, mean in known if method.name != part.start and not method.bound
    ]
    fewer = measure.better == "fewer"
    others = sorted(rivals, key=lambda each: each[1] if fewer else -each[1])[:1]
    others += [(method.title, mean) for method, mean in known if method.name == part.start]
    found = [
        (
            f"{text[0].upper()}{text[1:]}",
            [_said(part, claim) for claim in part.claims if claim.verdict == verdict],
        )
        for verdict, text in words.VERDICTS.items()
    ]
    return Headline(
        part.title if several else "",
        bool(part.origin),
        own.title,
        "needs" if fewer else "reaches",
        write(reached),
        measure.title,
        [(title, write(mean)) for title, mean in others],
        [(text, claims) for text, claims in found if claims],
    )


def _said(part: Comparison, claim: Claim) -> str:
    if claim.mean is None:
        return claim.text
    return f"{claim.text} ({words.signed(claim.mean, part.measures[0].unit)})"


def _examples(results: Results) -> list[Section]:
    """Dialogues that are worth reading, and pages."""
    found = []
    if results.dialogues:
        groups = groupby(results.dialogues, key=lambda each: (each.request, each.solution))
        data = {
            "groups": [list(group) for _, group in groups],
            "candidates": any(turn.candidates for each in results.dialogues for turn in each.turns),
            "first": results.dialogues[0],
        }
        judged = any(turn.score is not None for each in results.dialogues for turn in each.turns)
        found.append(
            Section(
                "dialogues",
                "Dialogues",
                "Dialogues, before and after",
                _how(judged=judged),
                "dialogues",
                data,
                folded=True,
            )
        )
    if results.strips:
        caption = (
            "A browser renders each draft; the human sees it beside the page they want and says what differs."
        )
        found.append(
            Section(
                "strips", "Pages", "Pages, draft by draft", caption, "strips", results.strips, folded=True
            )
        )
    return found


def _how(*, judged: bool) -> str:
    if not judged:
        return "Each player takes its likeliest tokens."
    return (
        "The critic's score says how much a turn helps: above zero it should be written more often, below zero "
        "less. Candidates are replies sampled at the same turn, sorted by score; the policy is trained to "
        "prefer the upper ones. The verdict is an oracle's, which the critic does not see."
    )


def _run(results: Results) -> Section:
    """How the numbers were made, and how long it took."""
    machine = results.provenance.get("machine")
    caption = f"On {machine}" if machine else "How to get these numbers again"
    if results.seconds:
        caption += f", {words.duration(sum(results.seconds.values()))} in all"
    data = {
        "notes": results.notes,
        "failures": results.failures,
        "seconds": results.seconds,
        "settings": {**results.settings, **results.provenance},
    }
    return Section("run", "Settings and times", "Settings and times", f"{caption}.", "run", data, folded=True)
