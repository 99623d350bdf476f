"""The report of a Reflect-RL study as one page: what was learned, and which published orderings hold here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sweet_rl.types import Json
from sweet_rl.viewer import charts
from sweet_rl.viewer.markup import Child, Markup, join, tag
from sweet_rl.viewer.online_charts import Learning, Words, learning_curves
from sweet_rl.viewer.online_numbers import Difference, band
from sweet_rl.viewer.reflect_data import VERDICTS, Method, Ordering, World, read_reflect_report
from sweet_rl.viewer.report import Section, report_page, run_section
from sweet_rl.viewer.study_sections import COLOURS, cell, section, share, swatch

_WORDS = Words(
    caption="share of the games of an iteration that succeed, in percent",
    along="episodes played to learn from",
    unit="episodes",
    measure="success in percent against episodes",
)


def reflect_page(study: Mapping[str, Json]) -> str:
    """One self-contained HTML page for the result of a Reflect-RL study.

    Args:
        study: `title`, `subtitle`, `machine`, `settings`, `seconds` by stage, `notes`, and

            - `worlds`: `name`, `text` and

              - `methods`: `key`, `name`, `description` and `seeds`, each of these with `seed`, `success` (of
                1), `levels` (success by level) and `curve` ([episodes, success], ...).
              - `orderings`: `claim`, and the keys of two methods, `better` and `worse`.

            Whatever is missing, null or empty is left out of the page.

    Raises:
        DataError: a value is of another kind than the page needs; names the field.
    """
    known = read_reflect_report(study)
    sections = [part for place, world in enumerate(known.worlds) for part in _world(world, f"world-{place}")]
    if known.settings or known.seconds or known.machine or known.notes:
        how = run_section(
            machine=known.machine, seconds=known.seconds, settings=known.settings, notes=known.notes
        )
        sections.append(("run", "Settings and times", how))
    return report_page(
        "reflect.html",
        title=known.title or "A Reflect-RL study",
        subtitle=known.subtitle,
        headline=_headline(known.worlds),
        sections=sections,
        styles=["online.css"],
    )


def _headline(worlds: Sequence[World]) -> Markup:
    """Which claims hold in which world, as the numbers have it."""
    lines = [_summary(world) for world in worlds if world.orderings]
    if not lines:
        return tag("p", "Nothing has been measured yet.", class_="headline")
    return join(lines)


def _summary(world: World) -> Markup:
    """One sentence for each kind of verdict that there is."""
    lines = [tag("p", tag("strong", world.name), class_="headline")]
    for verdict, said in VERDICTS.items():
        claims = [ordering.claim for ordering in world.orderings if ordering.verdict == verdict]
        if claims:
            lines.append(
                tag("p", f"{said[0].upper()}{said[1:]}: {'; '.join(claims)}.", class_="verdict-line")
            )
    return join(lines)


def _world(world: World, anchor: str) -> list[Section]:
    """The parts of a world that have something to show."""
    given = _colours(world.methods)
    found: list[Section] = []
    if any(run.curve for method in world.methods for run in method.seeds):
        found.append((f"{anchor}-curve", world.name, _curves(world, given, f"{anchor}-curve")))
    if world.methods:
        found.append((f"{anchor}-methods", "Success", _table(world, given, f"{anchor}-methods")))
    if any(ordering.lead for ordering in world.orderings):
        found.append((f"{anchor}-claims", "Orderings", _claims(world, given, f"{anchor}-claims")))
    return found


def _colours(methods: Sequence[Method]) -> dict[str, str]:
    """Blue for Reflect-RL itself, others in their order."""
    others = [method.key for method in methods if method.key != "reflect_rl"]
    given = {key: f"c{2 + place % (COLOURS - 2)}" for place, key in enumerate(others)}
    return given | {"reflect_rl": "c1"}


def _curves(world: World, given: Mapping[str, str], anchor: str) -> Markup:
    """What is learned in how many episodes."""
    drawn = []
    for method in sorted(world.methods, key=lambda method: given[method.key]):
        curves = [tuple((x, 100 * y) for x, y in run.curve) for run in method.seeds if run.curve]
        found = band(curves)
        if found:
            drawn.append(Learning(method.name, given[method.key], found, curves))
    names = [tag("span", swatch(learning.colour), learning.title, class_="key") for learning in drawn]
    seeds = " The band is one standard error over seeds to each side, faint lines are single seeds."
    return section(
        anchor,
        f"{world.name}: success against episodes",
        f"{world.text} A strong line is the mean over seeds; its games are those of the level that is "
        f"learned just then.{seeds if any(len(learning.seeds) > 1 for learning in drawn) else ''}",
        tag("p", names, class_="keys"),
        learning_curves(drawn, None, _WORDS),
    )


def _table(world: World, given: Mapping[str, str], anchor: str) -> Markup:
    """How often each policy succeeds, and on which levels."""
    best = max((method.success for method in world.methods if method.success is not None), default=None)
    rows = []
    for method in world.methods:
        name = [tag("strong", swatch(given[method.key]), method.name), tag("span", method.description)]
        success = tag("span", share(method.success), class_="value")
        is_best = best is not None and method.success == best
        cells = [cell("Success", success, class_="best" if is_best else None)]
        cells += [cell(level, share(method.level(level))) for level in world.levels]
        cells.append(cell("Seeds", ", ".join(share(run.success) for run in method.seeds)))
        rows.append(tag("tr", tag("th", name, scope="row"), cells))
    heads = ["Method", "Success", *world.levels, "Seeds"]
    head = tag("thead", tag("tr", [tag("th", title, scope="col") for title in heads]))
    return section(
        anchor,
        f"{world.name}: the methods",
        "Share of games that succeed, actions sampled, on games that nothing was learned from: the mean "
        "over seeds, then by level, then each seed.",
        tag("table", head, tag("tbody", rows), class_="methods online"),
    )


def _claims(world: World, given: Mapping[str, str], anchor: str) -> Markup:
    """Every claim with its difference and interval, and whether it holds."""
    known = [(ordering, found) for ordering in world.orderings if (found := ordering.lead)]
    values = [
        100 * value
        for _, found in known
        for value in (found.mean, found.low, found.high, *(each for _, each in found.each))
        if value is not None
    ]
    along = charts.axis(
        [max(-100.0, min(100.0, value)) for value in values], charts.plain, zero=True, count=7
    )
    drawn = [_claim(ordering, found, given[ordering.better.key], along) for ordering, found in known]
    axis = _cells("", charts.ticks(along, "difference of success, in points"), "", kind="row axis")
    return section(
        anchor,
        f"{world.name}: which published orderings hold here?",
        "Differences of success, seed by seed. The large dot is the mean, the line through it "
        "Student\u2019s 95 % interval over seeds, small dots are single seeds. A claim holds here if the "
        "whole interval is above 0; one that crosses 0 leaves it open. With three seeds intervals are wide.",
        tag("div", drawn, axis, class_="rows"),
    )


def _claim(ordering: Ordering, found: Difference, colour: str, along: charts.Axis) -> Markup:
    said = f"{ordering.better.name} \u2212 {ordering.worse.name}: {_points(found.mean)}"
    if found.low is not None and found.high is not None:
        said += f" ({_points(found.low)} to {_points(found.high)})"
    seeds = [
        charts.dot(
            along, 100 * value, y=33, radius=3, tone=f"seed {colour}", tip=f"seed {seed}: {_points(value)}"
        )
        for seed, value in found.each
    ]
    low, high = (None if end is None else 100 * end for end in (found.low, found.high))
    drawing = charts.track(
        along,
        charts.reference(along, 0.0),
        charts.whisker(along, low, high, y=17, colour=colour),
        charts.dot(along, 100 * found.mean, y=17, radius=6.5, tone=colour, tip=said),
        *seeds,
        label=said,
    )
    value = [
        tag("span", _points(found.mean), class_="value"),
        " ",
        tag("span", VERDICTS[ordering.verdict], class_="interval"),
    ]
    return _cells(ordering.claim, drawing, value)


def _points(value: float) -> str:
    return f"{100 * value:+.1f}".replace("-", "\u2212")


def _cells(label: Child, drawing: Markup, value: Child, kind: str = "row") -> Markup:
    cells = [(label, "row-label"), (drawing, "row-plot"), (value, "row-value")]
    return tag("div", [tag("div", content, class_=name) for content, name in cells], class_=kind)
