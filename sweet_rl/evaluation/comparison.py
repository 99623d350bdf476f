"""What a path names, what two runs do not share, and runs of the same tasks compared task by task: the first with each other."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final, Literal

from sweet_rl.errors import UsageError
from sweet_rl.evaluation.episodes import Episode, Episodes, read_episodes
from sweet_rl.evaluation.report import ByTask, Measure, Unit, aligned, measures_of, one_line, value
from sweet_rl.records import read_rows
from sweet_rl.statistics import Difference, Estimate, difference
from sweet_rl.types import Json
from sweet_rl.viewer.library import Curve, curves_of

EPISODES: Final = "episodes.jsonl"
"""The file of trajectories in a folder of `eval`."""

_METRICS: Final = "metrics.jsonl"
_OF_AGENTS: Final = frozenset(
    {
        "agent_model", "agent_prompt", "agent", "temperature", "max_tokens", "seed", "skill", "num_questions",
        "reflection_model", "reflection_prompt", "reflection_tokens", "reflect_prob",
        "agent_best_of_n", "critic", "critic_sees",
    }
)  # fmt: skip
"""Settings of an episode in which agents may differ that are compared."""
_OF_HUMANS: Final = frozenset({"env_model", "user_prompt"})
_SHOWN: Final = 3  # tasks that are named in a warning
_MOST: Final = 10  # and in the table
_BINS: Final = 8  # ranges of turns at most
FORMAT = "sweet_rl.compare/1"

IntervalWay = Literal["student", "bootstrap"]


@dataclass(frozen=True, slots=True)
class Source:
    """A run that has been played, as tables call it, and its file."""

    label: str
    path: Path
    episodes: Episodes


@dataclass(frozen=True, slots=True)
class Training:
    """A run of a training: its numbers by their names, each with the step at which it was taken."""

    label: str
    path: Path
    curves: Mapping[str, Curve]

    @property
    def last_step(self) -> float:
        """How far it came."""
        return max(points[-1][0] for points in self.curves.values())


def opened(path: str) -> Source | Training:
    """What is there."""
    place, name = Path(path).expanduser(), path.rstrip("/")
    rows: Iterable[Mapping[str, Json]]
    if not place.is_dir() and place.name != _METRICS:
        return Source(path, place, read_episodes(place))
    if (place / EPISODES).is_file():
        return Source(name, place / EPISODES, read_episodes(place / EPISODES))
    if not place.is_dir() or (place / _METRICS).is_file():
        rows = (row for _, row in read_rows(place / _METRICS if place.is_dir() else place))
    elif sorted(place.glob("checkpoint-*/logs.json")):
        from sweet_rl.online.reflect.settings import read_logs  # few runs are of this kind

        rows = read_logs(place)
    else:
        raise UsageError(
            f"{path!r} holds neither {EPISODES} (of `sweet-rl eval`) nor {_METRICS} or "
            "checkpoint-N/logs.json (of a training). Name a file of trajectories."
        )
    if not (curves := curves_of(rows)):
        raise UsageError(f"{path!r} holds no numbers yet.")
    return Training(name, place, curves)


def labels_of(paths: Sequence[str]) -> list[str]:
    """Short names that differ: as much of the end of each path as is needed."""
    parts = [[part for part in Path(path).with_suffix("").parts if part != "/"] for path in paths]
    parts = [part[:-1] if len(part) > 1 and part[-1] == Path(EPISODES).stem else part for part in parts]
    for length in range(1, max(map(len, parts)) + 1):
        names = ["/".join(part[-length:]) for part in parts]
        if len(set(names)) == len(names):
            words = [name.split("-") for name in names]  # `code-test-a` and `code-test-b` are a and b
            while all(len(each) > 1 for each in words) and len({each[0] for each in words}) == 1:
                words = [each[1:] for each in words]
            return ["-".join(each) for each in words]
    return [f"{name} ({place})" for place, name in enumerate(paths, 1)]


def facts_of(source: Source) -> dict[str, str]:
    """Who played, answered and graded, by which rules: as most rows of a run say it."""
    found, graders = source.episodes.provenances, source.episodes.graders
    said: dict[str, Json] = json.loads(max(found, key=found.__getitem__)) if found else {}
    settings = said.pop("settings", None) or {}
    grader = json.loads(max(graders, key=graders.__getitem__)) if graders else {}
    known = {
        "agent": said.get("agent_model"),
        "human": said.get("env_model"),
        "human's prompt": settings.get("user_prompt"),
        "grader": " ".join(map(str, grader.values())) if graders else None,
        "sweet_rl": said.get("sweet_rl"),
    }
    rest = {name: value for name, value in settings.items() if name not in _OF_HUMANS | {"agent_model"}}
    return {name: str(value) for name, value in {**known, **rest}.items() if value is not None}


# ---- what two runs do not share


def unlike(one: Source, other: Source) -> Iterator[str]:
    """Why their numbers cannot be compared task by task; nothing where they can.

    Each is a sentence without its end: other worlds, tasks, humans, rules or graders.
    """
    yield from (f"{each.label}: {problem}" for each in (one, other) for problem in each.episodes.problems)
    ours, theirs = one.episodes, other.episodes
    if ours.world is not theirs.world:
        names = [str(each.world.name if each.world else "none that has a name") for each in (ours, theirs)]
        yield f"they are of different worlds ({one.label}: {names[0]}; {other.label}: {names[1]})"
    here, there = ours.contents, theirs.contents
    if here.keys().isdisjoint(there):
        raise UsageError(f"{one.label} and {other.label} have no task in common: nothing can be compared.")
    for mine, yours, label in ((here, there, one.label), (there, here, other.label)):
        if alone := [task for task in mine if task not in yours]:
            some = ", ".join(alone[:_SHOWN]) + (", ..." if len(alone) > _SHOWN else "")
            yield f"{len(alone)} of {len(mine)} tasks are in {label} alone ({some})"
    if changed := [task for task, content in here.items() if there.get(task, content) != content]:
        yield f"{len(changed)} tasks have the same name and another content ({', '.join(changed[:_SHOWN])})"
    kinds: tuple[tuple[str, frozenset[str] | None], ...] = (("humans", _OF_HUMANS), ("rules", None))
    for what, settings in kinds:
        said, told = _said(ours, settings), _said(theirs, settings)
        if said and told and said != told:
            yield f"their {what} differ ({_differences(said, told)})"
    graders = [sorted(each.graders) for each in (ours, theirs)]
    if all(graders) and graders[0] != graders[1]:
        one_s, other_s = (json.loads(each[0]) for each in graders)
        shown = _differences({"": one_s}, {"": other_s})
        yield f"their graders differ ({shown}): grade both again with `sweet-rl evaluate FILE --regrade`"


def _said(episodes: Episodes, names: frozenset[str] | None) -> dict[str, Json]:
    """Settings of humans, or (None) of all that is no agent's and no human's, in each form that rows have."""
    found: dict[str, Json] = {}
    for text in episodes.provenances:
        said = json.loads(text)
        settings = dict(said.get("settings") or {})
        if not settings:
            continue
        settings["env_model"] = said.get("env_model") or settings.get("env_model")
        kept = {
            name: value
            for name, value in settings.items()
            if (name in names if names is not None else name not in _OF_AGENTS | _OF_HUMANS)
        }
        found[json.dumps(kept, sort_keys=True)] = kept
    return dict(sorted(found.items()))


def _differences(mine: Mapping[str, Json], yours: Mapping[str, Json]) -> str:
    ours, theirs = next(iter(mine.values())), next(iter(yours.values()))
    names = [name for name in {**ours, **theirs} if ours.get(name) != theirs.get(name)]
    if not names:
        return "one file has several"
    return ", ".join(f"{name} {ours.get(name)!r} and {theirs.get(name)!r}" for name in names)


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
    only_ours: Sequence[str]  # tasks that only it solves, in every repeat and the other in none;
    only_theirs: Sequence[str]  # without success those in which it is better, the largest differences first


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
        runs = [
            {"label": label, "path": str(one.path), "episodes": len(one.episodes.episodes), "failed": failed}
            for label, one, failed in zip(self.labels, self.sources, self.failed, strict=True)
        ]
        pairings = [asdict(each) | {"other": self.labels[each.other]} for each in self.pairings]
        said = {"interval": self.interval, "warnings": list(self.warnings)}
        return {"format": FORMAT, "runs": runs, **said, "pairings": pairings}


def compared(
    sources: Sequence[Source], *, interval: IntervalWay = "student", force: bool = False
) -> Comparison:
    """Compare the first run with each of the others; `force` compares what unlike ones share, with warnings."""
    if len(sources) < 2:
        raise UsageError("Name at least two runs to compare.")
    first, *others = sources
    labels = labels_of([str(source.path) for source in sources])
    named = [replace(source, label=label) for label, source in zip(labels, sources, strict=True)]
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
    several = enumerate(others, start=1)
    pairings = [_pairing(first, other, place, measures, interval, len(others)) for place, other in several]
    failed = [sum(one.failed for one in source.episodes.episodes) for source in sources]
    return Comparison(sources, labels, pairings, warnings, interval, failed)


def _pairing(
    first: Source, other: Source, place: int, measures: Sequence[Measure], interval: IntervalWay, among: int
) -> Pairing:
    ours, theirs = first.episodes.episodes, other.episodes.episodes

    def rows(name: str, measure: Measure, ours: ByTask, theirs: ByTask) -> Iterator[Row]:
        """A row, where they have tasks in common."""
        both = [task for task in ours if task in theirs]
        if both:
            mine, yours = {task: ours[task] for task in both}, {task: theirs[task] for task in both}
            low, high = (None, None) if measure.unit == "number" else (-1.0, 1.0)
            values, drawn = (list(mine.values()), list(yours.values())), interval == "bootstrap"
            found = difference(*values, among=among, bootstrap=drawn, low=low, high=high)
            means = measure.estimate(mine), measure.estimate(yours)
            yield Row(name, measure.unit, measure.better, *means, found)

    tables = [(each.name, each, each.by_task(ours), each.by_task(theirs)) for each in measures]
    found = [row for each in tables for row in rows(*each)]
    top, (_, _, mine, yours) = measures[0], tables[0]
    if not found or found[0].name != top.name:
        raise UsageError(f"No task has been graded in both {str(first.path)!r} and {str(other.path)!r}.")
    family = {one.task: one.family for one in ours if one.family}
    names = sorted(set(family.values()))
    families = [
        row
        for name in (names if len(names) > 1 else ())
        for row in rows(name, top, {task: mine[task] for task in mine if family.get(task) == name}, yours)
    ]
    alone = _solved_alone(top, mine, yours), _solved_alone(top, yours, mine)
    return Pairing(place, found, families, _endings(top, ours, theirs), *alone)


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
    def mean(values: Sequence[float]) -> float:
        return sum(values) / len(values)

    both = [(task, mean(ours[task]), mean(theirs[task])) for task in ours if task in theirs]
    if measure.unit == "success":
        return [task for task, mine, yours in both if mine == 1 and yours == 0]
    better = [(mine - yours, task) for task, mine, yours in both if mine > yours]
    return [task for _, task in sorted(better, key=lambda each: -each[0])]


# ---- in words and numbers, for a terminal and for a page


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
    return "" if p is None else "< 0.001" if p < 0.001 else f"{p:.3f}"


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
        columns = (f"{run}, {what}" for what in ("episodes", named) for run in (ours, theirs))
        table: list[Sequence[str]] = [("", *columns)]
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
