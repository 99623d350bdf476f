"""Comparisons in words and numbers, for a terminal and for a page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from sweet_rl.evaluation.comparison import Comparison, Pairing, Row
from sweet_rl.evaluation.measures import Unit
from sweet_rl.evaluation.report import aligned, one_line
from sweet_rl.evaluation.sources import Training
from sweet_rl.viewer.documents import Curve

_MOST = 10
"""So many tasks are named in the table."""
_TAIL = 10
"""A training's number at a step is the mean of so many before it, or of a tenth of them."""


def value(number: float | None, unit: Unit) -> str:
    """A mean; a share in percent."""
    if number is None:
        return ""
    return f"{number:.2f}" if unit == "number" else f"{100 * number:.1f}"


def signed(number: float | None, unit: Unit) -> str:
    """A difference; of shares in points."""
    if number is None:
        return ""
    text = f"{number:+.2f}" if unit == "number" else f"{100 * number:+.1f}"
    return text.replace("+0.0", "0.0") if float(text) == 0 else text


def span(row: Row) -> str:
    """The interval of a difference."""
    low, high = row.difference.low, row.difference.high
    return "" if low is None or high is None else f"[{signed(low, row.unit)}, {signed(high, row.unit)}]"


def chance(p: float | None) -> str:
    """A p-value."""
    if p is None:
        return ""
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def headline(found: Comparison, pairing: Pairing) -> str:
    """The first number in a sentence."""
    row, ours, theirs = pairing.rows[0], found.labels[0], found.labels[pairing.other]
    points = " points" if row.unit != "number" else ""
    said = {
        "better": f"{ours} is better than {theirs}",
        "worse": f"{ours} is worse than {theirs}",
        "open": f"{ours} and {theirs}: the difference is not settled",
    }[row.verdict]
    return f"{said}: {row.name} {signed(row.difference.mean, row.unit)}{points} {span(row)}".rstrip()


def text_of(found: Comparison) -> str:
    """Everything that is printed."""
    lines = [f"Warning: {warning}." for warning in found.warnings]
    for pairing in found.pairings:
        lines += ["", *_lines(found, pairing)]
    return "\n".join(lines).strip()


def _lines(found: Comparison, pairing: Pairing) -> Iterator[str]:
    ours, theirs = found.labels[0], found.labels[pairing.other]
    yield f"{headline(found, pairing)}."
    yield ""
    interval = "95 % interval" + (" (bootstrap)" if found.interval == "bootstrap" else "")
    head = ("", ours, theirs, "difference", interval, "p", "test", "wins", "losses", "ties")
    yield from aligned([head, *(_cells(row) for row in pairing.rows)])
    if pairing.families:
        yield ""
        yield from aligned([(f"{pairing.rows[0].name} by family", *head[1:]), *map(_cells, pairing.families)])
    if len(pairing.endings) > 1:
        unit = pairing.rows[0].unit
        yield ""
        name = pairing.rows[0].name
        rows = [
            (
                turns(each.first, each.last),
                *(f"{count:,}" for count in each.episodes),
                *(value(mean, unit) for mean in each.means),
            )
            for each in pairing.endings
        ]
        percent = "" if unit == "number" else ", %"
        shown = (
            f"{ours}, episodes",
            f"{theirs}, episodes",
            f"{ours}, {name}{percent}",
            f"{theirs}, {name}{percent}",
        )
        yield from aligned([("", *shown), *rows])
    for label, tasks in ((ours, pairing.only_ours), (theirs, pairing.only_theirs)):
        if tasks and pairing.rows[0].unit == "success":
            more = ", ..." if len(tasks) > _MOST else ""
            yield ""
            yield f"Only {label} solves {len(tasks)}: {', '.join(map(one_line, tasks[:_MOST]))}{more}"


def turns(first: int, last: int | None = None) -> str:
    """A number of turns, or a range of them."""
    if last is None or last == first:
        return f"{first} turn{'s' if first != 1 else ''}"
    return f"{first} to {last} turns"


def _cells(row: Row) -> Sequence[str]:
    each = row.difference
    return (
        f"{row.name}{'' if row.unit == 'number' else ', %'}",
        value(row.ours.mean, row.unit),
        value(row.theirs.mean, row.unit),
        signed(each.mean, row.unit),
        span(row),
        chance(each.p),
        each.test,
        *((f"{each.wins:,}", f"{each.losses:,}", f"{each.ties:,}") if row.better else ("", "", "")),
    )


# ---- trainings


def common_step(trainings: Sequence[Training]) -> float:
    """The last step that all of them came to."""
    return min(training.last_step for training in trainings)


def numbers_at(step: float, trainings: Sequence[Training]) -> dict[str, list[float | None]]:
    """Each number of trainings at a step, means over the last ones before it; those first that all have."""
    found = {name: [_at(step, each.curves.get(name, [])) for each in trainings] for name in _names(trainings)}
    return dict(sorted(found.items(), key=lambda each: each[1].count(None)))


def _names(trainings: Sequence[Training]) -> Iterable[str]:
    return dict.fromkeys(name for training in trainings for name in training.curves)


def _at(step: float, curve: Curve) -> float | None:
    numbers = [number for at, number in curve if at <= step]
    tail = numbers[-max(1, min(_TAIL, len(numbers) // 10)) :]
    return sum(tail) / len(tail) if tail else None


def trainings_text(trainings: Sequence[Training], labels: Sequence[str]) -> str:
    """The numbers of trainings at the last step that all came to, side by side."""
    step = common_step(trainings)
    found = numbers_at(step, trainings)
    rows = [(name, *("" if one is None else f"{one:.4g}" for one in each)) for name, each in found.items()]
    ends = ("last step", *(f"{training.last_step:,g}" for training in trainings))
    return "\n".join(aligned([(f"at step {step:,g}", *labels), ends, *rows]))
