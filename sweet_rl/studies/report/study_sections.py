"""The report's charts: each section is a heading, a sentence that says how to read it, and the drawing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sweet_rl.studies.report import charts
from sweet_rl.studies.report.markup import Child, Markup, tag
from sweet_rl.studies.report.parts import (
    axis_row,
    cell,
    colour_of,
    in_order,
    method_cell,
    row,
    section,
    share,
    swatch,
    table,
    whole,
)
from sweet_rl.studies.report.study_data import VERDICTS, Critic, Curve, Interval, Method


def colours(methods: Sequence[Method]) -> dict[str, str]:
    """A colour class for each method's name: grey for the warm start, blue for SWEET-RL, others in order."""
    base, own = warm_start(methods), sweet(methods)
    others = [method.name for method in methods if method is not base and method is not own]
    given = in_order(others)
    if own:
        given[own.name] = "c1"
    if base:
        given[base.name] = "c0"
    return given


def warm_start(methods: Sequence[Method]) -> Method | None:
    """What every method began from, known by its name."""
    return next((method for method in methods if "warm" in method.name.lower()), None)


def sweet(methods: Sequence[Method]) -> Method | None:
    """SWEET-RL itself: the first method of that name, variants come after it."""
    return next((method for method in methods if "sweet" in method.name.lower()), None)


# ---- methods


def table_section(methods: Sequence[Method], given: Mapping[str, str]) -> Markup:
    """What each method learned from, how much it trained, and how well it did."""
    best = max((m.success.mean for m in methods if m.success.mean is not None), default=None)
    heads = ["Method", "Training examples", "Updates", "Test episodes", "Success", "Tests passed"]
    rows = []
    for method in methods:
        leads = best is not None and method.success.mean == best
        cells = [
            cell(heads[1], whole(method.examples)),
            cell(heads[2], whole(method.updates)),
            cell(heads[3], whole(method.episodes)),
            cell(heads[4], *with_interval(method.success), class_="best" if leads else None),
            cell(heads[5], *with_interval(method.tests_passed)),
        ]
        rows.append(tag("tr", method_cell(given[method.name], method.title, method.explanation), cells))
    return section(
        "methods",
        "The methods",
        "All start from the same warm start and learn from the same recorded dialogues; they differ in what "
        "they take from them. Success: all tests of the task passed. Tests passed: share of the tests, so "
        "that half-right answers count. Beneath each mean its interval.",
        table(heads, rows, class_="methods"),
    )


def with_interval(interval: Interval) -> list[Child]:
    """A mean, and beneath it its interval where it is known."""
    if interval.low is None or interval.high is None:
        return [tag("span", share(interval.mean), class_="value")]
    span = f"{100 * interval.low:.1f}\u2013{100 * interval.high:.1f}"
    return [tag("span", share(interval.mean), class_="value"), " ", tag("span", span, class_="interval")]


def success_section(methods: Sequence[Method], given: Mapping[str, str]) -> Markup:
    """Success of each method with its interval and its seeds."""
    shown = [method for method in methods if method.success.mean is not None]
    bounds = [
        value
        for method in shown
        for value in (method.success.mean, method.success.high, *(success for _, success in method.seeds))
        if value is not None
    ]
    along = charts.axis(bounds, charts.percent, zero=True, count=6)
    base = warm_start(methods)
    level = base.success.mean if base else None
    rows = [_success_row(method, along, given[method.name], level) for method in shown]
    seeds = ", small dots are single seeds" if any(method.seeds for method in shown) else ""
    dashed = " The dashed line is the warm start." if level is not None else ""
    return section(
        "success",
        "Who solves most",
        f"Share of test episodes solved. The large dot is the mean, the line through it its interval{seeds}."
        f"{dashed} Where two intervals overlap, this run does not settle which is better.",
        tag("div", rows, axis_row(along, "test episodes solved"), class_="rows"),
    )


def _success_row(method: Method, along: charts.Axis, colour: str, level: float | None) -> Markup:
    mean = method.success.mean or 0.0
    seeds = [
        charts.dot(
            along, success, y=34, radius=3, tone=f"seed {colour}", tip=f"seed {whole(seed)}: {share(success)}"
        )
        for seed, success in method.seeds
    ]
    drawing = charts.track(
        along,
        charts.reference(along, level) if level is not None else None,
        charts.whisker(along, method.success.low, method.success.high, y=18, colour=colour),
        charts.dot(along, mean, y=18, radius=6.5, tone=colour, tip=f"{method.title}: {share(mean)}"),
        *seeds,
        label=f"{method.title}: {share(mean)} solved",
        height=44,
    )
    return row([swatch(colour), method.title], drawing, with_interval(method.success))


def verdicts_section(methods: Sequence[Method], given: Mapping[str, str]) -> Markup:
    """What the agents do in an episode, by an oracle that knows each task's answer."""
    known = [method for method in methods if method.verdicts]
    most = {
        kind: max(method.verdicts.get(kind, 0.0) for method in known)
        for kind in dict.fromkeys([*VERDICTS, *(kind for method in known for kind in method.verdicts)])
    }
    kinds = sorted((kind for kind in most if most[kind] > 0), key=lambda kind: -most[kind])
    base = warm_start(known)
    groups = []
    for good, heading in ((True, "More is better"), (False, "Fewer is better"), (None, "Others")):
        panels = [_verdict_panel(kind, known, base, given) for kind in kinds if VERDICTS.get(kind) is good]
        if panels:
            groups.append(tag("div", tag("h3", heading), tag("div", panels, class_="panels wide")))
    return section(
        "verdicts",
        "What the agent does, and what it stopped doing",
        "An oracle that knows each task's answer names every turn; a bar is the mean number of such turns in "
        f"an episode, and each panel has a scale of its own. {_changes(known, base)}",
        groups,
    )


def _verdict_panel(
    kind: str, methods: Sequence[Method], base: Method | None, given: Mapping[str, str]
) -> Markup:
    values = [method.verdicts.get(kind, 0.0) for method in methods]
    along = charts.Axis(0.0, max(values), (0.0,), charts.plain)
    level = base.verdicts.get(kind, 0.0) if base else None
    rows = []
    for method, value in zip(methods, values, strict=True):
        drawing = charts.track(
            along,
            charts.bar(along, 0, value, height=12, colour=given[method.name]),
            charts.reference(along, level) if level is not None else None,
            label=f"{method.title}: {value:.2f}",
            height=22,
        )
        rows.append(row([method.title], drawing, [tag("span", f"{value:.2f}", class_="value")]))
    return tag("figure", tag("figcaption", kind), tag("div", rows, class_="rows tight"), class_="plot")


def _changes(methods: Sequence[Method], base: Method | None) -> str:
    """What SWEET-RL changed most, for the better and for the worse, in numbers."""
    if base is None:
        return ""
    dashed = "The dashed line is the warm start: where a bad bar ends left of it, training took that away."
    own = sweet(methods)
    if own is None:
        return dashed
    before, after = base.verdicts, own.verdicts
    countable = [kind for kind, good in VERDICTS.items() if not good and not kind.startswith("neither")]
    fewer = {kind: before.get(kind, 0.0) - after.get(kind, 0.0) for kind in countable}
    order = sorted(countable, key=lambda kind: -fewer[kind])
    better = [kind for kind in order[:2] if fewer[kind] >= 0.01]
    worse = [kind for kind in order[-1:] if fewer[kind] <= -0.01]

    def told(kinds: list[str]) -> str:
        return " and ".join(
            f"{after.get(kind, 0.0):.2f} {kind}s instead of {before.get(kind, 0.0):.2f}" for kind in kinds
        )

    halves = [told(better)] if better else []
    halves += [f"but also {told(worse)}" if better else told(worse)] if worse else []
    return f"{dashed} {own.title} has {', '.join(halves)}." if halves else dashed


def turns_section(methods: Sequence[Method], given: Mapping[str, str]) -> Markup:
    """When episodes end, and how many of those succeed."""
    panels = []
    shown = [(m, [count for count in m.by_turns if count.episodes > 0]) for m in methods]
    shown = [(method, counts) for method, counts in shown if counts]
    highest = [count.episodes / sum(c.episodes for c in counts) for _, counts in shown for count in counts]
    up = charts.axis(highest, charts.percent, zero=True, count=4)
    first = min((counts[0].turns for _, counts in shown), default=1)
    last = max((counts[-1].turns for _, counts in shown), default=1)
    for method, counts in shown:
        columns = [(count.turns, count.episodes, count.successes) for count in counts]
        panel = charts.column_panel(columns, (first, last), up, colour=given[method.name])
        panels.append(tag("div", tag("h3", swatch(given[method.name]), method.title), panel))
    return section(
        "turns",
        "When it answers, and with what success",
        "A column is the share of episodes that ended after so many turns of the agent; the solid part of it "
        "succeeded. The number above is the success among the column's own episodes. All panels have the "
        "same scale.",
        tag("div", panels, class_="panels"),
    )


# ---- critics and curves


def critics_section(critics: Sequence[Critic], given: Mapping[str, str]) -> Markup:
    """How well each critic tells good turns from bad ones."""
    along = charts.Axis(0.0, 1.0, (0.0, 0.25, 0.5, 0.75, 1.0), charts.plain)
    groups = []
    for critic in critics:
        colour = colour_of(critic.name, given)
        parts = [
            ("questions", critic.auc_questions, critic.turns_questions),
            ("the moment of answering", critic.auc_answering, critic.turns_answering),
        ]
        rows = [_critic_row(name, auc, turns, along, colour) for name, auc, turns in parts]
        groups.append(tag("div", tag("h3", swatch(colour), critic.title), rows, class_="group"))
    return section(
        "critics",
        "Does the critic know good turns from bad ones?",
        "Take a good turn and a bad one, by the oracle: how often does the critic score the good one higher "
        "(area under the ROC curve)? A bar to the right of 0.5 is better than tossing a coin, to the left "
        "worse. A policy trained on the critic's ranking can hardly learn what the critic does not see.",
        tag("div", groups, axis_row(along, "AUC: 0.5 is chance, 1 is always right"), class_="rows"),
    )


def _critic_row(name: str, auc: float | None, turns: int | None, along: charts.Axis, colour: str) -> Markup:
    marks = (
        []
        if auc is None
        else [
            charts.bar(along, 0.5, auc, height=8, colour=colour),
            charts.dot(along, auc, y=17, radius=6, tone=colour, tip=f"{name}: AUC {auc:.2f}"),
        ]
    )
    drawing = charts.track(
        along, charts.reference(along, 0.5), *marks, label=f"{name}: {_auc(auc)}", height=34
    )
    over = None if turns is None else tag("span", f"{whole(turns)} turns", class_="interval")
    return row([name], drawing, [tag("span", _auc(auc), class_="value"), " ", over])


def _auc(auc: float | None) -> str:
    return "\u2013" if auc is None else f"{auc:.2f}"


def curves_section(curves: Sequence[Curve], given: Mapping[str, str]) -> Markup:
    """The section of training curves: loss and accuracy of every trained model."""
    groups = []
    for curve in curves:
        colour = colour_of(curve.name, given)
        panels = []
        if curve.loss:
            up = charts.axis([y for _, y in curve.loss], charts.plain, count=4)
            panels.append(charts.line_panel(curve.loss, "loss", up, colour=colour))
        if curve.accuracy:
            low = 0.4 if all(y >= 0.4 for _, y in curve.accuracy) else 0.0
            up = charts.Axis(low, 1.0, tuple(x / 5 for x in range(round(5 * low), 6)), charts.percent)
            panels.append(
                charts.line_panel(curve.accuracy, "pairs in the right order", up, colour=colour, chance=0.5)
            )
        if curve.margin:
            up = charts.axis([y for _, y in curve.margin], charts.plain, zero=True, count=4)
            panels.append(charts.line_panel(curve.margin, "margin, chosen over rejected", up, colour=colour))
        if panels:
            groups.append(
                tag("div", tag("h3", swatch(colour), curve.title), tag("div", panels, class_="panels"))
            )
    return section(
        "curves",
        "How training went",
        "Faint: every update. Strong: the mean over a fifteenth of the run. Pairs in the right order: share "
        "of preference pairs in which the chosen side is scored above the rejected one.",
        groups,
    )
