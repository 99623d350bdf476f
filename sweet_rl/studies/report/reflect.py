"""The report of a Reflect-RL study as one page: what was learned, and which published orderings hold here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sweet_rl.studies.report import charts
from sweet_rl.studies.report.differences import difference_row, values_of
from sweet_rl.studies.report.markup import Markup, join, tag
from sweet_rl.studies.report.online_charts import Words, bands, keys, learning_curves, of_seeds
from sweet_rl.studies.report.parts import axis_row, cell, in_order, method_cell, section, share, table
from sweet_rl.studies.report.reflect_data import VERDICTS, Method, World, read_reflect_report
from sweet_rl.studies.report.report import Section, report_page
from sweet_rl.studies.report.report_data import Points
from sweet_rl.types import Json

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
    return report_page(
        "reflect_idea.html",
        known.head,
        headline=_headline(known.worlds),
        sections=sections,
        styles=["online.css"],
        untitled="A Reflect-RL study",
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
    return in_order([method.key for method in methods if method.key != "reflect_rl"]) | {"reflect_rl": "c1"}


def _curves(world: World, given: Mapping[str, str], anchor: str) -> Markup:
    """What is learned in how many episodes."""
    drawn = bands(
        (method.name, given[method.key], [_in_percent(run.curve) for run in method.seeds])
        for method in world.methods
    )
    return section(
        anchor,
        f"{world.name}: success against episodes",
        f"{world.text} A strong line is the mean over seeds; its games are those of the level that is "
        f"learned just then.{of_seeds(drawn)}",
        keys(drawn),
        learning_curves(drawn, None, _WORDS),
    )


def _in_percent(curve: Points) -> Points:
    return tuple((x, 100 * y) for x, y in curve)


def _table(world: World, given: Mapping[str, str], anchor: str) -> Markup:
    """How often each policy succeeds, and on which levels."""
    best = max((method.success for method in world.methods if method.success is not None), default=None)
    rows = []
    for method in world.methods:
        success = tag("span", share(method.success), class_="value")
        is_best = best is not None and method.success == best
        cells = [cell("Success", success, class_="best" if is_best else None)]
        cells += [cell(level, share(method.level(level))) for level in world.levels]
        cells.append(cell("Seeds", ", ".join(share(run.success) for run in method.seeds)))
        rows.append(tag("tr", method_cell(given[method.key], method.name, method.description), cells))
    return section(
        anchor,
        f"{world.name}: the methods",
        "Share of games that succeed, actions sampled, on games that nothing was learned from: the mean "
        "over seeds, then by level, then each seed.",
        table(["Method", "Success", *world.levels, "Seeds"], rows, class_="methods online"),
    )


def _claims(world: World, given: Mapping[str, str], anchor: str) -> Markup:
    """Every claim with its difference and interval, and whether it holds."""
    known = [(ordering, found.times(100)) for ordering in world.orderings if (found := ordering.lead)]
    values = [max(-100.0, min(100.0, value)) for value in values_of(found for _, found in known)]
    along = charts.axis(values, charts.plain, zero=True, count=7)
    drawn = [
        difference_row(
            ordering.claim,
            found,
            along,
            colour=given[ordering.better.key],
            of=f"{ordering.better.name} \u2212 {ordering.worse.name}",
            says=VERDICTS[ordering.verdict],
            write=_points,
        )
        for ordering, found in known
    ]
    return section(
        anchor,
        f"{world.name}: which published orderings hold here?",
        "Differences of success, seed by seed. The large dot is the mean, the line through it "
        "Student\u2019s 95 % interval over seeds, small dots are single seeds. A claim holds here if the "
        "whole interval is above 0; one that crosses 0 leaves it open. With three seeds intervals are wide.",
        tag("div", drawn, axis_row(along, "difference of success, in points"), class_="rows"),
    )


def _points(value: float) -> str:
    return f"{value:+.1f}".replace("-", "\u2212")
