"""Comparisons in words and numbers, for a terminal and for a page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sweet_rl.evaluation.comparison import Comparison, Pairing, Row
from sweet_rl.evaluation.measures import Unit
from sweet_rl.evaluation.report import aligned
from sweet_rl.evaluation.sources import Training

_MOST = 10
"""So many tasks are named in the table."""
_TAIL = 10
"""The last number of a training is the mean of so many rows at its end, or of a tenth of them."""


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
        yield from aligned([("turns", f"episodes {ours}", theirs, f"{name} {ours}", theirs), *rows])
    for label, tasks in ((ours, pairing.only_ours), (theirs, pairing.only_theirs)):
        if tasks and pairing.rows[0].unit == "success":
            more = ", ..." if len(tasks) > _MOST else ""
            yield ""
            yield f"Only {label} solves {len(tasks)}: {', '.join(tasks[:_MOST])}{more}"


def turns(first: int, last: int) -> str:
    """A range of numbers of turns."""
    return str(first) if first == last else f"{first} to {last}"


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


def last_numbers(training: Training) -> dict[str, float]:
    """Each number at the end of a training: a mean over its last rows that have it."""
    found = {}
    for name in dict.fromkeys(name for row in training.rows for name in row):
        values = [row[name] for row in training.rows if name in row]
        tail = values[-max(1, min(_TAIL, len(values) // 10)) :]
        found[name] = sum(tail) / len(tail)
    return found


def trainings_text(trainings: Sequence[Training], labels: Sequence[str]) -> str:
    """The last numbers of trainings, side by side; those first that all have."""
    ends = [last_numbers(training) for training in trainings]
    names = list(dict.fromkeys(name for end in ends for name in end))
    names.sort(key=lambda name: -sum(name in end for end in ends))
    rows = [(name, *(f"{end[name]:.4g}" if name in end else "" for end in ends)) for name in names]
    steps = ("rows", *(f"{len(training.rows):,}" for training in trainings))
    return "\n".join(aligned([("at the end", *labels), steps, *rows]))
