"""Runs of the same tasks, compared task by task: the first one with each of the others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Literal

from sweet_rl.errors import UsageError
from sweet_rl.evaluation.episodes import Episode
from sweet_rl.evaluation.report import ByTask, Measure, Unit, aligned, measures_of, one_line, value
from sweet_rl.evaluation.sources import Source, Training, labels_of, unknown, unlike
from sweet_rl.statistics import Difference, Estimate, difference
from sweet_rl.types import Json

FORMAT = "sweet_rl.compare/1"
_BINS = 8

IntervalWay = Literal["student", "bootstrap"]


@dataclass(frozen=True, slots=True)
class Row:
    """A number of two runs over the tasks that both have it: both means, and their difference task by task."""

    name: str
    unit: Unit
    better: str
    ours: Estimate
    theirs: Estimate
    difference: Difference

    @property
    def verdict(self) -> str:
        """What the interval says: "better", "worse", "open", or "" where no direction is good."""
        if not self.better:
            return ""
        if not self.difference.sign:
            return "open"
        return "better" if (self.difference.sign > 0) == (self.better == "more") else "worse"


@dataclass(frozen=True, slots=True)
class Ending:
    """Episodes that ended after `first` to `last` turns: of each run how many, and their mean of a number."""

    first: int
    last: int
    episodes: Sequence[int]
    means: Sequence[float | None]


@dataclass(frozen=True, slots=True)
class Pairing:
    """The first run and another one, whose place among the runs is `other`."""

    other: int
    rows: Sequence[Row]
    families: Sequence[Row]  # the first number by kinds of tasks
    endings: Sequence[Ending]  # and by turns
    only_ours: Sequence[
        str
    ]  # tasks that the first solves in every repeat and the other in none; without success,
    only_theirs: Sequence[str]  # tasks in which it is better, the largest differences first


@dataclass(frozen=True, slots=True)
class Comparison:
    """What came out: `str` of it is the table that `sweet-rl compare` prints."""

    sources: Sequence[Source]  # the first is compared with each other one
    labels: Sequence[str]  # short names of them
    pairings: Sequence[Pairing]  # one for each other run
    warnings: Sequence[str] = ()  # why the numbers might not be comparable
    interval: str = "student"
    failed: Sequence[int] = ()  # episodes that failed, of each run

    def __str__(self) -> str:
        lines = [f"Warning: {warning}." for warning in self.warnings]
        for pairing in self.pairings:
            lines += ["", *_lines(self, pairing)]
        return "\n".join(lines).strip()

    def to_json(self) -> dict[str, Json]:
        """All numbers; differences are the first run's minus the other's."""
        return {
            "format": FORMAT,
            "runs": [
                {
                    "label": label,
                    "path": str(source.path),
                    "episodes": len(source.episodes.episodes),
                    "failed": failed,
                }
                for label, source, failed in zip(self.labels, self.sources, self.failed, strict=True)
            ],
            "interval": self.interval,
            "warnings": list(self.warnings),
            "pairings": [
                {"other": self.labels[each.other]}
                | {name: value for name, value in asdict(each).items() if name != "other"}
                for each in self.pairings
            ],
        }


def compared(
    sources: Sequence[Source], *, interval: IntervalWay = "student", force: bool = False
) -> Comparison:
    """Compare the first run with each of the others; `force` compares what unlike ones share, with warnings."""
    if len(sources) < 2:
        raise UsageError("Name at least two runs to compare.")
    first, *others = sources
    labels = labels_of([str(source.path) for source in sources])
    named = [
        Source(label, source.path, source.episodes) for label, source in zip(labels, sources, strict=True)
    ]
    warnings = list(dict.fromkeys(why for other in named[1:] for why in unlike(named[0], other)))
    if warnings and not force:
        listed = "\n".join(f"  - {why}." for why in warnings)
        raise UsageError(
            f"These runs cannot be compared task by task:\n{listed}\n--force compares what they share; "
            "the page then says this on top."
        )
    measures = measures_of([source.episodes for source in sources])
    for source in sources:
        if all(one.reward is None for one in source.episodes.episodes):
            raise UsageError(
                f"{str(source.path)!r} has no rewards: `sweet-rl evaluate {source.path}` grades it."
            )
    pairings = [
        _pairing(first, other, place, measures, interval, among=len(others))
        for place, other in enumerate(others, start=1)
    ]
    failed = [sum(one.failed for one in source.episodes.episodes) for source in sources]
    return Comparison(sources, labels, pairings, [*warnings, *unknown(named)], interval, failed)


def _pairing(
    first: Source, other: Source, place: int, measures: Sequence[Measure], interval: str, *, among: int
) -> Pairing:
    ours, theirs = first.episodes.episodes, other.episodes.episodes
    rows = []
    for measure in measures:
        row = _row(measure.name, measure, measure.by_task(ours), measure.by_task(theirs), interval, among)
        if row is not None:
            rows.append(row)
    if not rows or rows[0].name != measures[0].name:
        raise UsageError(f"No task has been graded in both {str(first.path)!r} and {str(other.path)!r}.")
    top = measures[0]
    mine, yours = top.by_task(ours), top.by_task(theirs)
    family = {one.task: one.family for one in ours if one.family}
    names = sorted(set(family.values()))
    families = [
        _row(
            name, top, {task: mine[task] for task in mine if family.get(task) == name}, yours, interval, among
        )
        for name in (names if len(names) > 1 else ())
    ]
    return Pairing(
        place,
        rows,
        [row for row in families if row is not None],
        _endings(top, ours, theirs),
        _solved_alone(top, mine, yours),
        _solved_alone(top, yours, mine),
    )


def _row(name: str, measure: Measure, ours: ByTask, theirs: ByTask, interval: str, among: int) -> Row | None:
    both = [task for task in ours if task in theirs]
    if not both:
        return None
    mine, yours = {task: ours[task] for task in both}, {task: theirs[task] for task in both}
    found = difference(
        list(mine.values()),
        list(yours.values()),
        among=among,
        bootstrap=interval == "bootstrap",
        **({} if measure.unit == "number" else {"low": -1.0, "high": 1.0}),
    )
    return Row(name, measure.unit, measure.better, measure.estimate(mine), measure.estimate(yours), found)


def _endings(measure: Measure, *runs: Iterable[Episode]) -> list[Ending]:
    """Episodes by their turns; many numbers of turns become a few ranges of about as many episodes each."""
    by_turns: list[dict[int, list[float]]] = []
    for run in runs:
        values: dict[int, list[float]] = {}
        for one in run:
            value = getattr(one, measure.field)
            if not one.failed and value is not None:
                values.setdefault(one.turns, []).append(value)
        by_turns.append(values)
    counts = {turns: sum(len(run.get(turns, ())) for run in by_turns) for run in by_turns for turns in run}
    known = sorted(counts)
    ranges = [(turns, turns) for turns in known]
    if len(known) > _BINS:
        enough, ranges, held, low = sum(counts.values()) / _BINS, [], 0, known[0]
        for place, turns in enumerate(known):
            held += counts[turns]
            if held >= enough or place == len(known) - 1:
                ranges.append((low, turns))
                held, low = 0, known[min(place + 1, len(known) - 1)]
    endings = []
    for low, high in ranges:
        inside = [[v for turns, vs in run.items() if low <= turns <= high for v in vs] for run in by_turns]
        means = [sum(values) / len(values) if values else None for values in inside]
        endings.append(Ending(low, high, [len(values) for values in inside], means))
    return endings


def _solved_alone(measure: Measure, ours: ByTask, theirs: ByTask) -> list[str]:
    both = [
        (task, sum(ours[task]) / len(ours[task]), sum(theirs[task]) / len(theirs[task]))
        for task in ours
        if task in theirs
    ]
    if measure.unit == "success":
        return [task for task, mine, yours in both if mine == 1 and yours == 0]
    better = [(mine - yours, task) for task, mine, yours in both if mine > yours]
    return [task for _, task in sorted(better, key=lambda each: -each[0])]


# ---- in words and numbers, for a terminal and for a page

_MOST = 10  # tasks are named in the table


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
        named = f"{name}{'' if unit == 'number' else ', %'}"
        table: list[Sequence[str]] = [
            ("", f"{ours}, episodes", f"{theirs}, episodes", f"{ours}, {named}", f"{theirs}, {named}")
        ]
        for each in pairing.endings:
            means = (value(mean, unit) for mean in each.means)
            table.append((turns(each.first, each.last), *(f"{count:,}" for count in each.episodes), *means))
        yield from aligned(table)
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


def trainings_text(trainings: Sequence[Training], labels: Sequence[str]) -> str:
    """The numbers of trainings at the last step that all came to, side by side; those first that all have.

    A number at a step is the mean of the last tenth before it, of ten at most.
    """
    step = min(training.last_step for training in trainings)
    rows = []
    for name in dict.fromkeys(name for training in trainings for name in training.curves):
        cells = []
        for training in trainings:
            numbers = [number for at, number in training.curves.get(name, []) if at <= step]
            tail = numbers[-max(1, min(10, len(numbers) // 10)) :]
            cells.append(f"{sum(tail) / len(tail):.4g}" if tail else "")
        rows.append((name, *cells))
    ends = ("last step", *(f"{training.last_step:,g}" for training in trainings))
    rows.sort(key=lambda row: row.count(""))
    return "\n".join(aligned([(f"at step {step:,g}", *labels), ends, *rows]))
