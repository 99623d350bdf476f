"""The results of a study: seeds x methods x measurements, paired differences, and how they were made; as JSON.

Every study ends in one `Results`, of which its table and its page are made; shares are of 1. A study on several seeds
comes with the package, and other runs show it before their own results.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import platform
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import files
from pathlib import Path
from statistics import fmean
from typing import Any, Final, Literal, TypeAlias

from sweet_rl import tracking
from sweet_rl.errors import DataError
from sweet_rl.statistics import Estimate, mean_of
from sweet_rl.types import Json
from sweet_rl.version import __version__

FORMAT = "sweet_rl.study/1"  # Of the file: what its numbers mean

ORIGIN: Final = "From the full study that comes with the package, not from this run."

Points: TypeAlias = tuple[tuple[float, float], ...]  # A curve: (x, y) with rising x

Verdict: TypeAlias = Literal["holds", "reversed", "open", "unknown"]
"""What an interval says of a claim: above 0, below 0, around 0, or there is none: of one seed, or of seeds that are all alike."""


@dataclass(frozen=True, slots=True)
class Counted(Estimate):
    """A mean over the episodes of one run, with its interval, and of how many it is."""

    n: int | None = None


@dataclass(frozen=True, slots=True)
class Run:
    seed: int
    measures: Mapping[str, Counted] = field(default_factory=dict)
    curves: Mapping[str, Points] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Method:
    """One way to make an agent; `facts` count what it learned from; a `bound` is a floor or a ceiling."""

    name: str
    title: str
    text: str = ""
    runs: tuple[Run, ...] = ()
    facts: Mapping[str, int] = field(default_factory=dict)
    bound: bool = False

    def measured(self, measure: str) -> dict[int, Counted]:
        return {run.seed: run.measures[measure] for run in self.runs if measure in run.measures}

    def mean(self, measure: str) -> float | None:
        known = [each.mean for each in self.measured(measure).values()]
        return fmean(known) if known else None

    def estimate(self, measure: str) -> Counted | None:
        """The measure over seeds; with one seed, that run's own interval."""
        known = list(self.measured(measure).values())
        if len(known) < 2:
            return known[0] if known else None
        found = mean_of([each.mean for each in known])
        n = sum(each.n or 0 for each in known) or None
        return Counted(found.mean, found.low, found.high, found.error, n)


@dataclass(frozen=True, slots=True)
class Measure:
    """A number that every run has; `better` is the good direction, `group` the section that shows it."""

    name: str
    title: str
    unit: Literal["share", "number", "count"] = "share"
    group: Literal["result", "behaviour", "critic"] = "result"
    better: Literal["more", "fewer", "turns", ""] = "more"

    def of(self, method: Method) -> Counted | None:
        """The measure of a method over its seeds; the interval of a share ends at 0 and 1."""
        found = method.estimate(self.name)
        if found is None or found.low is None or found.high is None or self.unit != "share":
            return found
        return replace(found, low=max(0.0, found.low), high=min(1.0, found.high))


@dataclass(frozen=True, slots=True)
class Axes:
    """What a curve shows, in powers of 2 if `log`; from the places of `changes` on something else is measured."""

    name: str
    title: str
    along: str
    unit: Literal["share", "number"] = "number"
    main: bool = False
    log: bool = False
    changes: tuple[tuple[float, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Claim:
    """That one method is better, and the first minus the second, pair by pair (`each`: seed, difference)."""

    text: str
    better: str
    worse: str
    over: Literal["seeds", "tasks"] = "seeds"
    mean: float | None = None
    low: float | None = None
    high: float | None = None
    each: tuple[tuple[int, float], ...] = ()
    among: int = 1

    @property
    def verdict(self) -> Verdict:
        if self.low is None or self.high is None:
            return "unknown"
        return "holds" if self.low > 0 else "reversed" if self.high < 0 else "open"

    def measured(self, differences: Sequence[float], **ends: float) -> Claim:
        """With the mean of these differences and its interval, which `ends` bound; without any it stays as it is."""
        if not differences:
            return self
        found = mean_of(differences, among=self.among, **ends)
        return replace(self, mean=found.mean, low=found.low, high=found.high)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Methods in one world; claims are about the first measure. `origin` says what else made the numbers."""

    name: str
    title: str
    own: str
    start: str = ""
    text: str = ""
    measures: tuple[Measure, ...] = ()
    curves: tuple[Axes, ...] = ()
    methods: tuple[Method, ...] = ()
    claims: tuple[Claim, ...] = ()
    origin: str = ""

    def method(self, name: str) -> Method:
        return {method.name: method for method in self.methods}[name]


@dataclass(frozen=True, slots=True)
class Candidate:
    """One reply that the model could have given at a turn, `count` times among its samples."""

    text: str
    score: float | None = None
    count: int = 1
    verdict: str = ""


@dataclass(frozen=True, slots=True)
class Turn:
    agent: str
    human: str | None = None
    verdict: str = ""
    score: float | None = None
    candidates: tuple[Candidate, ...] = ()


@dataclass(frozen=True, slots=True)
class Dialogue:
    """An episode worth reading; neighbours with the same request are shown side by side."""

    method: str
    title: str
    reward: float | None = None
    request: str = ""
    solution: str = ""
    turns: tuple[Turn, ...] = ()


@dataclass(frozen=True, slots=True)
class Frame:
    label: str
    picture: str
    score: float | None = None


@dataclass(frozen=True, slots=True)
class Strip:
    request: str
    frames: tuple[Frame, ...] = ()


@dataclass(frozen=True, slots=True)
class Results:
    """Everything that a study found; what failed on the way is in no number.

    `credit` is one recorded dialogue, scored by each critic; `full` has the settings of the full study beside it.
    """

    study: str
    title: str
    subtitle: str = ""
    comparisons: tuple[Comparison, ...] = ()
    dialogues: tuple[Dialogue, ...] = ()
    strips: tuple[Strip, ...] = ()
    settings: Mapping[str, Json] = field(default_factory=dict)
    provenance: Mapping[str, str] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()
    credit: tuple[Dialogue, ...] = ()
    full: Mapping[str, Json] = field(default_factory=dict)
    format: str = FORMAT


def texts_of(package: str) -> dict[str, Any]:
    """The texts of a study: its `claims`, `measures` and `curves`; of its `methods` title and what each is."""
    texts = tomllib.loads(files(package).joinpath("texts.toml").read_text(encoding="utf-8"))
    kinds = {"measures": Measure, "curves": Axes}
    return texts | {
        name: tuple(kind(*each) for each in texts[name]) for name, kind in kinds.items() if name in texts
    }


def provenance() -> dict[str, str]:
    from sweet_rl.runs import facts

    known = {"machine": f"{os.cpu_count()} cores, {platform.system()}", "python": platform.python_version()}
    known |= {"sweet_rl": __version__, "commit": facts.commit()}
    known |= {"day": dt.datetime.now(tz=dt.UTC).date().isoformat()}
    known |= {"run": tracking.current().id or "", "command": tracking.current().command or ""}
    return {name: value for name, value in known.items() if value}


def claims_about(
    claims: Iterable[Sequence[str]], methods: Mapping[str, Method]
) -> list[tuple[str, Method, Method]]:
    """Of claims (text, better, worse) those both of whose methods are there, with these."""
    return [
        (text, methods[better], methods[worse])
        for text, better, worse in claims
        if {better, worse} <= methods.keys()
    ]


def claim_over_seeds(text: str, better: Method, worse: Method, measure: str, *, among: int = 1) -> Claim:
    """The claim with its result, paired over the seeds that both methods have; `among` as of `Claim`."""
    ours, theirs = better.measured(measure), worse.measured(measure)
    each = tuple((seed, ours[seed].mean - theirs[seed].mean) for seed in sorted(ours.keys() & theirs.keys()))
    claim = Claim(text, better.name, worse.name, "seeds", each=each, among=among)
    return claim.measured([value for _, value in each])


def claim_over_tasks(
    text: str, better: tuple[str, Mapping[str, float]], worse: tuple[str, Mapping[str, float]]
) -> Claim:
    """The claim with its result, paired over the tasks that both methods (name, values in [0, 1]) were given."""
    tasks = better[1].keys() & worse[1].keys()
    each = [better[1][task] - worse[1][task] for task in sorted(tasks)]
    return Claim(text, better[0], worse[0], "tasks").measured(each, low=-1.0, high=1.0)


def beside(results: Results, path: Path) -> Results:
    """The results after those of a full study, where its file is there, which are marked as such."""
    if not path.exists():
        return results
    found, parts = read_study(path)
    here = {part.name for part in results.comparisons}
    # first the curves over all worlds, then the world of this run
    order = sorted(parts, key=lambda part: (bool(part.measures), part.name not in here))
    full = (replace(part, name=f"full-{part.name}", origin=ORIGIN) for part in order)
    made = {**found["settings"], **found["provenance"]}
    return replace(results, comparisons=(*full, *results.comparisons), full=made)


def read_study(path: Path) -> tuple[dict[str, Any], tuple[Comparison, ...]]:
    """A `study.json` as it is, and its own comparisons: not those of a study that was shown beside it."""
    found = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        repair = "Put the study.json of a finished study there."
        raise DataError(f"must have the format {FORMAT}", path=path, repair=repair)
    try:
        parts = tuple(_comparison(row) for row in found["comparisons"] if not row["origin"])
        found["settings"].keys(), found["provenance"].keys(), found["seconds"].keys()
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise DataError(
            f"is no whole study ({type(error).__name__}: {error})",
            path=path,
            repair="Restore it, or put the study.json of a finished study there.",
        ) from None
    return found, parts


def _comparison(row: Mapping[str, Any]) -> Comparison:
    def pairs(rows: Iterable[Any]) -> tuple[tuple[Any, Any], ...]:
        return tuple((first, second) for first, second in rows)

    def run(row: Mapping[str, Any]) -> Run:
        measures = {name: Counted(**each) for name, each in row["measures"].items()}
        return Run(row["seed"], measures, {name: pairs(points) for name, points in row["curves"].items()})

    parts: dict[str, Any] = {
        "measures": tuple(Measure(**each) for each in row["measures"]),
        "curves": tuple(
            Axes(**{**each, "changes": pairs(each.get("changes", ()))}) for each in row["curves"]
        ),
        "methods": tuple(
            Method(**{**each, "runs": tuple(map(run, each["runs"]))}) for each in row["methods"]
        ),
        "claims": tuple(Claim(**{**each, "each": pairs(each["each"])}) for each in row["claims"]),
    }
    return Comparison(**{**row, **parts})
