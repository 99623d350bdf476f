"""How well scores of turns tell what turns were worth: rank correlation, AUC, value lost by the top pick, calibration, cost.

Intervals are a bootstrap's over tasks, since turns of a dialogue, and dialogues of a task, are not independent.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain, pairwise
from pathlib import Path
from statistics import StatisticsError, correlation, fmean, linear_regression, pvariance
from typing import Any, Final, NamedTuple

from sweet_rl.errors import DataError, UsageError
from sweet_rl.preferences.credit import turn_digest
from sweet_rl.preferences.pairs import KEY_FIELDS, TurnKey, key_of, twice
from sweet_rl.records import read_rows
from sweet_rl.runs import check_settings
from sweet_rl.statistics import Z, area_under_curve, bootstrapped
from sweet_rl.types import Json
from sweet_rl.version import __version__
from sweet_rl.viewer.export import from_template

_VIEWS: Final = {"hidden": "critic, with solution", "without_hidden": "critic, blind"}
"""What the views of a critic's file are called beside other methods."""
# resamples, turns that are drawn for all of them; turns that a part needs
_DRAWS, _MOST, _FEWEST = 1000, 2_000_000, 10
_NONE: Final = "-"


class Turn(NamedTuple):
    """A measured turn, or one of the candidates of a turn, and what methods say of it."""

    worth: float
    low: float
    high: float
    kind: str
    position: int
    repeat: bool
    scores: Mapping[str, float]

    @property
    def clear(self) -> int:
        """1 or -1 where the interval excludes 0."""
        return (self.low > 1e-9) - (self.high < -1e-9)


Group = Sequence[Turn]
"""A turn by itself, or the candidates of a turn."""
Measure = Callable[[Iterable[Group]], float | None]


def joined(
    measured: str, scores: Sequence[str]
) -> tuple[list[list[Group]], dict[str, float | None], Mapping[str, Json]]:
    """What was measured with the scores of these files, by task; each method's tokens a turn; how it was measured."""
    found, said = dict[TurnKey, tuple[int, Any]](), defaultdict[TurnKey, dict[str, Any]](dict)
    tokens, first = dict[str, list[Any]](), dict[str, Json]()
    for line, row in read_rows(measured):
        where: dict[str, Any] = {"path": measured, "line": line}
        if "measured" not in row:
            repair = "Make the file with sweet-rl credit measure."
            raise DataError("is not there", **where, field="measured", repair=repair)
        if (key := key_of(row)) in found:
            raise twice(measured, line, ", ".join(KEY_FIELDS), key, found[key][0])
        found[key], first = (line, row), first or row["settings"]
        check_settings(row["settings"], first, f"{measured!r}, line {line}", "Compare each by itself.")
    for path in scores:
        known, earlier, lines = 0, {*tokens}, dict[TurnKey, int]()
        for line, row in read_rows(path):
            own = {name: row[way]["advantage"] for way, name in _VIEWS.items() if way in row}
            own |= {"critic": row["judge_result"]} if "judge_result" in row else {}
            own = row.get("scores") or own
            if not own:
                repair = "Make the file with sweet-rl credit score."
                raise DataError("are not there", path=path, line=line, field="scores", repair=repair)
            if (key := key_of(row)) not in found:
                continue
            digest = row.get("turn_digest") or turn_digest(row["input"], *row["additional_outputs"])
            if digest != found[key][1]["turn_digest"]:
                what = f"is of another text than turn {key[2]} of {key[:2]} in {measured!r}"
                repair = "Score the file that was measured."
                raise DataError(what, path=path, line=line, field="turn_digest", value=digest, repair=repair)
            if (before := lines.setdefault(key, line)) != line:
                raise twice(path, line, ", ".join(KEY_FIELDS), key, before)
            known += 1
            for method, value in own.items():
                name = method if method not in earlier else f"{method} ({Path(path).stem})"
                said[key][name] = value
                tokens.setdefault(name, []).append((row.get("cost") or {}).get(method))
        if not known:
            raise UsageError(f"{path!r} scores no turn of {measured!r}: they are of other trajectories.")
    if not found or not tokens:
        raise UsageError(f"{measured!r} has no rows, or no scores are named (sweet-rl credit score).")
    tasks = defaultdict[str, list[Group]](list)
    for key, (_, row) in found.items():
        got, sampled = row["measured"], "candidates" in row["measured"]
        names = ("advantage", "advantage_low", "advantage_high") if sampled else ("advantage", "low", "high")
        group = list[Turn]()
        for place, one in enumerate(got["candidates"] if sampled else [got]):
            own = {name: value[place] if sampled and value else value for name, value in said[key].items()}
            known_scores = {name: value for name, value in own.items() if value is not None}
            kind, repeat = (row[name][place] if sampled else row[name] for name in ("kind", "repeat"))
            worth, low, high = (one[name] for name in names)
            group.append(Turn(worth, low, high, kind, key[2], repeat, known_scores))
        tasks[key[0]].append(group)
    cost = {name: fmean(many) if None not in many else None for name, many in tokens.items()}
    return list(tasks.values()), cost, first


# ---- measures


def ranks(values: Sequence[float]) -> list[float]:
    """Ranks from 1 on; equal values share the mean of theirs."""
    places = defaultdict[float, list[int]](list)
    for place, value in enumerate(sorted(values), start=1):
        places[value].append(place)
    return [fmean(places[value]) for value in values]


def spearman(method: str, groups: Iterable[Group]) -> float | None:
    """Rank correlation of a method's scores with worth."""
    known = [(one.scores[method], one.worth) for group in groups for one in group if method in one.scores]
    try:
        return correlation(*map(ranks, zip(*known, strict=True)))
    except (StatisticsError, TypeError):  # fewer than two, or all alike
        return None


def auc(method: str, groups: Iterable[Group]) -> float | None:
    """The chance that a clearly good turn scores above a clearly bad one: those whose interval excludes 0."""
    known = [one for group in groups for one in group if method in one.scores and one.clear]
    good, bad = ([one.scores[method] for one in known if one.clear == sign] for sign in (1, -1))
    return area_under_curve(good, bad) if good and bad else None


def picked(method: str, what: str, states: Iterable[Group], *, repeats: bool = True) -> float | None:
    """Of the candidates with the highest score, on average over states: value `lost` against the best, or by a `random` pick;
    share of `repeats`; Spearman `within` a state.

    The best is the one with the highest measured mean, in part by luck: losses are a little too large, by as much for all methods.
    """
    found = list[float | None]()
    for state in states:
        known = [one for one in state if method in one.scores and (repeats or not one.repeat)]
        if len(known) < 2:
            continue
        top, best = max(one.scores[method] for one in known), max(one.worth for one in known)
        chosen = [one for one in known if one.scores[method] == top]
        match what:
            case "lost" | "random":
                found.append(best - fmean(one.worth for one in (chosen if what == "lost" else known)))
            case "repeats":
                found.append(fmean(one.repeat for one in chosen))
            case _:
                found.append(spearman(method, [known]))
    values = [one for one in found if one is not None]
    return fmean(values) if values else None


def _estimate(tasks: Sequence[Sequence[Group]], of: Measure) -> dict[str, float | None]:
    """A measure, with the percentile interval of a bootstrap over tasks."""
    number, value = sum(map(len, chain(*tasks))), of(chain(*tasks))
    known, draws = value is not None and len(tasks) > 2, max(100, min(_DRAWS, _MOST // number))
    low, high = bootstrapped(tasks, lambda some: of(chain(*some)), draws=draws) if known else (None, None)
    return {"value": value, "low": low, "high": high}


def compared(measured: str, scores: Sequence[str]) -> dict[str, Any]:
    """The numbers of every method, best first."""
    tasks, cost, settings = joined(measured, scores)
    states = [group for one in tasks for group in one]
    turns = [turn for group in states for turn in group]
    sampled, methods = len(states) < len(turns), dict[str, Any]()
    for name, tokens in cost.items():
        measures: dict[str, Measure] = {"spearman": partial(spearman, name), "auc": partial(auc, name)}
        if sampled:
            measures |= {what: partial(picked, name, what) for what in ("lost", "repeats", "within")}
            measures["lost_without_repeats"] = partial(picked, name, "lost", repeats=False)
        own: dict[str, Any] = {what: _estimate(tasks, measure) for what, measure in measures.items()}
        parts = defaultdict[str, list[Turn]](list)
        for one in turns:
            parts[f"turn {one.position + 1}"].append(one)
            parts["other turns" if one.kind == "turn" else f"{one.kind} turns"].append(one)
        own["parts"] = {
            part: {"turns": len(some), "spearman": spearman(name, [some]), "auc": auc(name, [some])}
            for part, some in sorted(parts.items())
            if len(some) >= _FEWEST
        }
        known, line = sorted((one.scores[name], one.worth) for one in turns if name in one.scores), None
        if len(known) >= _FEWEST and known[0][0] < known[-1][0]:
            line = linear_regression(*zip(*known, strict=True))
        cuts = [round(len(known) * part / 5) for part in range(6)] if line else []
        own |= {"slope": line and line.slope, "intercept": line and line.intercept}
        own["fifths"] = [list(map(fmean, zip(*known[a:b], strict=True))) for a, b in pairwise(cuts)]
        methods[name] = own | {"turns": len(known), "tokens": tokens}
    main, sign, last = ("lost", 1, math.inf) if sampled else ("spearman", -1, -2.0)
    values = {name: one[main]["value"] for name, one in methods.items()}
    order = sorted(methods, key=lambda name: sign * (last if values[name] is None else values[name]))
    error = fmean(((one.high - one.low) / (2 * Z)) ** 2 for one in turns)
    spread = pvariance([one.worth for one in turns])
    numbers: dict[str, Any] = {"measured": measured, "scores": list(scores), "settings": settings}
    numbers |= {"tasks": len(tasks), "states": len(states) if sampled else None, "turns": len(turns)}
    numbers["clear"] = sum(abs(one.clear) for one in turns)
    numbers["most"] = math.sqrt(max(0.0, 1 - error / spread)) if spread > 0 else None
    most = max(methods, key=lambda name: methods[name]["turns"])  # some methods score no candidates
    numbers["random"] = picked(most, "random", states) if sampled else None
    return numbers | {"methods": {name: methods[name] for name in order}}


# ---- shown

_COLUMNS: Final = {
    "turns": ("turns", 0), "lost": ("value lost", 3), "repeats": ("repeats picked", 2), "lost_without_repeats": ("without repeats", 3),
    "within": ("Spearman in a state", 2), "spearman": ("Spearman", 2), "auc": ("AUC", 2), "slope": ("slope", 3), "tokens": ("tokens a turn", 0),
}  # fmt: skip
"""What a table has of each method: its head, and digits behind the point."""


def cell(value: Any, digits: int = 2) -> str:
    """A number, or an estimate with its interval; a hyphen where there is none."""
    if not isinstance(value, Mapping):
        return _NONE if value is None else f"{value:,.{digits}f}"
    text, low, high = (cell(value[name], digits) for name in ("value", "low", "high"))
    return text if low == _NONE else f"{text} [{low}, {high}]"


def table(numbers: Mapping[str, Any]) -> list[list[str]]:
    """Heads, then a row for each method."""
    methods = numbers["methods"]
    columns = {name: one for name, one in _COLUMNS.items() if name in next(iter(methods.values()))}
    rows = [
        [name, *(cell(one[what], digits) for what, (_, digits) in columns.items())]
        for name, one in methods.items()
    ]
    return [["method", *(head for head, _ in columns.values())], *rows]


def headline(numbers: Mapping[str, Any]) -> str:
    """What was measured, in a few sentences."""
    of_states = f" candidates of {numbers['states']:,}" if numbers["states"] else ""
    text = f"{numbers['turns']:,}{of_states} turns in {numbers['tasks']:,} tasks; the worth of {numbers['clear']:,} is clearly not 0."
    if numbers["most"] is not None:
        text += f" The error of the measurement leaves room for a correlation of about {numbers['most']:.2f}."
    return text if numbers["random"] is None else f"{text} A random pick loses {numbers['random']:.3f}."


def text_of(numbers: Mapping[str, Any]) -> str:
    """The table that is printed."""
    rows = table(numbers)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    cells = [[row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])] for row in rows]
    return "\n".join([headline(numbers), "", *map("  ".join, cells)])


def page_of(numbers: Mapping[str, Any], **made: str) -> str:
    """The same as an HTML page, with a picture of each method's calibration."""
    told = {"headline": headline(numbers), "version": __version__}
    about: dict[str, Any] = {"numbers": numbers, "rows": table(numbers), "cell": cell} | told
    return from_template("sweet_rl.credit", "compare.html", style="compare.css", **about, **made)
