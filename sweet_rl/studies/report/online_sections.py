"""The parts of an online study's report: a heading, a sentence that says how to read it, and the drawing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby

from sweet_rl.studies.report import charts
from sweet_rl.studies.report.differences import difference_row, values_of
from sweet_rl.studies.report.markup import Child, Markup, tag
from sweet_rl.studies.report.online_charts import bands, keys, learning_curves, of_seeds
from sweet_rl.studies.report.online_data import Game, Measured, OnlineMethod
from sweet_rl.studies.report.online_numbers import Difference, ahead, gained, mean_of
from sweet_rl.studies.report.parts import (
    axis_row,
    cell,
    colour_of,
    in_order,
    method_cell,
    section,
    share,
    swatch,
    table,
)

Given = Mapping[str, str]
"""Colour classes by the names of methods."""


def colours(methods: Sequence[OnlineMethod]) -> dict[str, str]:
    """Blue for ArCHer, others in their order; grey stays with the start."""
    own = archer(methods)
    others = [method.name for method in methods if method is not own]
    return in_order(others) | ({own.name: "c1"} if own else {})


def archer(methods: Sequence[OnlineMethod]) -> OnlineMethod | None:
    """ArCHer itself: the first method of that name."""
    return next((method for method in methods if "archer" in method.name.lower()), None)


def number(value: float | None, digits: int = 2) -> str:
    """A return with its sign as people write it; a dash for what is not known."""
    return "\u2013" if value is None else f"{value:.{digits}f}".replace("-", "\u2212")


def signed(value: float) -> str:
    """A difference with its sign and two decimals: `+1.25`, `\u22120.50`."""
    return f"{value:+.2f}".replace("-", "\u2212")


# ---- returns against steps


def curve_section(methods: Sequence[OnlineMethod], given: Given) -> Markup:
    """What is learned in how many steps."""
    drawn = bands(
        (method.name, given[method.name], [run.curve for run in method.seeds]) for method in methods
    )
    level = mean_of([run.start.mean_return for method in methods for run in method.seeds])
    dashed = " The dashed line is the policy that all began with, measured on games of its own."
    return section(
        "curve",
        "Return against environment steps",
        "Mean return of the games that a method plays to learn from. A strong line is the mean over seeds."
        f"{of_seeds(drawn)}"
        f"{dashed if level is not None else ''}",
        keys(drawn),
        learning_curves(drawn, level),
    )


# ---- the table


def table_section(methods: Sequence[OnlineMethod], given: Given) -> Markup:
    """What each method began with and what came of it."""
    heads = ["Method", "Return: start", "end", "End \u2212 start", "Solved", "Turns", "Greedy return"]
    best = max((value for method in methods if (value := _mean(method, "end")) is not None), default=None)
    rows = []
    for method in methods:
        end = _mean(method, "end")
        cells = [
            cell("Return at the start", number(_mean(method, "start"))),
            cell(
                "Return at the end",
                tag("span", number(end), class_="value"),
                class_="best" if end is not None and end == best else None,
            ),
            cell("End \u2212 start", *_difference(gained(method))),
            cell("Solved", *_before_after(method, "success", share)),
            cell("Turns", *_before_after(method, "turns", lambda value: number(value, 1))),
            cell("Greedy return", *_greedy(method)),
        ]
        rows.append(tag("tr", method_cell(given[method.name], method.name, method.description), cells))
    return section(
        "methods",
        "The methods",
        "Measured on games that nothing was learned from: means over seeds, actions sampled. All methods of "
        "a seed begin with the same policy and are measured on the same words and seeds; the difference is "
        "paired, with Student\u2019s 95 % interval over seeds. Beneath the end of other columns stands the "
        "start. Greedy: the likeliest tokens instead of sampled ones.",
        table(heads, rows, class_="methods online"),
    )


def _mean(method: OnlineMethod, when: str, what: str = "mean_return") -> float | None:
    found: list[Measured] = [getattr(run, when) for run in method.seeds]
    return mean_of([getattr(measured, what) for measured in found])


def _difference(found: Difference | None) -> list[Child]:
    if found is None:
        return ["\u2013"]
    value = tag("span", signed(found.mean), class_="value")
    if found.low is None or found.high is None:
        return [value]
    return [value, " ", tag("span", f"{signed(found.low)} to {signed(found.high)}", class_="interval")]


def _before_after(method: OnlineMethod, what: str, write: Callable[[float | None], str]) -> list[Child]:
    before, after = _mean(method, "start", what), _mean(method, "end", what)
    from_ = tag("span", f"from {write(before)}", class_="interval") if before is not None else None
    return [tag("span", write(after), class_="value"), " ", from_]


def _greedy(method: OnlineMethod) -> list[Child]:
    before, after = _mean(method, "greedy_start"), _mean(method, "greedy_end")
    from_ = tag("span", f"from {number(before)}", class_="interval") if before is not None else None
    return [tag("span", number(after), class_="value"), " ", from_]


# ---- differences


def differences_section(methods: Sequence[OnlineMethod], given: Given) -> Markup:
    """Whether what was gained is more than chance over seeds."""
    own = archer(methods)
    groups: list[tuple[str, list[tuple[str, str, Difference]]]] = []
    over_start = [(method.name, given[method.name], found) for method in methods if (found := gained(method))]
    groups.append(("End minus start", over_start))
    if own:
        over_others = [
            (f"{own.name} \u2212 {other.name}", given[own.name], found)
            for other in methods
            if other is not own and (found := ahead(own, other))
        ]
        groups.append((f"{own.name} minus the others, at the end", over_others))
    shown = [(title, rows) for title, rows in groups if rows]
    values = values_of(found for _, rows in shown for _, _, found in rows)
    along = charts.axis(values, charts.plain, zero=True, count=7)
    drawn = [
        tag("div", tag("h3", title), [_row(*each, along) for each in rows], class_="group")
        for title, rows in shown
    ]
    return section(
        "differences",
        "What is more than chance?",
        "Differences of the mean return, seed by seed. The large dot is the mean, the line through it "
        "Student\u2019s 95 % interval over seeds, small dots are single seeds. An interval that crosses the "
        "dashed line at 0 leaves open whether there is a difference at all; with three seeds it is wide.",
        tag("div", drawn, axis_row(along, "difference of the mean return"), class_="rows"),
    )


def _row(label: str, colour: str, found: Difference, along: charts.Axis) -> Markup:
    says = {True: "includes 0", False: "excludes 0", None: ""}[found.includes_zero]
    return difference_row(label, found, along, colour=colour, of=label, says=says, write=signed)


# ---- critics


def critics_section(methods: Sequence[OnlineMethod], given: Given) -> Markup:
    """The section of the critics' losses over the iterations."""
    shown = [(m, [run.loss for run in m.seeds if run.loss]) for m in methods]
    shown = [(method, lines) for method, lines in shown if lines]
    highest = max(y for _, lines in shown for line in lines for _, y in line)
    up = charts.axis([highest], charts.plain, zero=True, count=4)
    panels = []
    for method, lines in shown:
        shortest = min(map(len, lines))
        colour = given[method.name]
        panel = charts.bundle_panel(
            [line[:shortest] for line in lines], "mean squared error of Q1", "iteration", up, colour=colour
        )
        panels.append(tag("div", tag("h3", swatch(colour), method.name), panel))
    return section(
        "critics",
        "The critics",
        "Mean loss of a critic\u2019s steps, by iteration: faint lines are seeds, the strong one is their "
        "mean. It need not fall to 0: returns differ from game to game, and what is predicted changes with "
        "the policy.",
        tag("div", panels, class_="panels"),
    )


# ---- games


def games_section(games: Sequence[Game], given: Given) -> Markup:
    """The same hidden word, played by the start and by what came of it."""
    groups = []
    for title, same in groupby(games, key=lambda game: game.title):
        cards = [_card(game, given) for game in same]
        heading = tag("p", "The hidden word is ", tag("strong", title), ".", class_="hidden-word")
        groups.append(tag("div", heading, tag("div", cards, class_="cards"), class_="task"))
    return section(
        "games",
        "Games, before and after",
        "Each player takes its likeliest tokens. A turn costs 1, the turn that names the word nothing; "
        "a game ends after twenty turns at the latest.",
        groups,
    )


def _card(game: Game, given: Given) -> Markup:
    colour = colour_of(game.method, given)
    colour = "c0" if colour == "ink" else colour
    chip = None
    if game.mean_return is not None:
        chip = tag("span", f"return {number(game.mean_return, 0)}", class_="verdict")
    head = tag("header", tag("h3", swatch(colour), game.method), chip)
    turns = [
        tag(
            "li",
            tag("span", str(place), class_="number"),
            tag("span", question or "(nothing)", class_="words"),
            tag("span", answer or "(nothing)", class_="answer"),
        )
        for place, (question, answer) in enumerate(game.turns, 1)
    ]
    return tag("article", head, tag("ol", turns, class_="quick"), class_=f"dialogue edge {colour}")
