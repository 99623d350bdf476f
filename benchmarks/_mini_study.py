"""The study over several seeds and numbers of trades: its numbers in one file, and what a page shows of them."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final, TypeAlias

from sweet_rl.errors import DataError
from sweet_rl.records import replace_file
from sweet_rl.studies.results import Axes, Comparison, Counted, Method, Results, Run, claim_over_seeds
from sweet_rl.studies.sweet.results import (
    CLAIMS,
    MEASURES,
    METHODS,
    choosing_agents,
    comparison_at_test_time,
    success_of,
)
from sweet_rl.studies.sweet.settings import LINES, Study
from sweet_rl.types import Json

COMMITTED: Final = Path(__file__).with_name("results") / "mini.json"
"""The study that was run once, by mini.py, on seeds that no setting was chosen on."""

FORMAT: Final = "sweet_rl.mini_study/1"

Numbers: TypeAlias = Mapping[str, Mapping[str, float]]  # The measures of every method of one seed


WARM_START: Final = "warm start"  # What a seed began with, in what made it

SUCCESS: Final = MEASURES[0].name

COLUMNS: Final = (  # Measures in the tables of the full study
    *(SUCCESS, "useful_share", "usual_share", "repeated question", "early answer", "auc_questions"),
    *("auc_useful_early", "auc_answering", "right_pairs"),
)

DOSES: Final = ("sweet", "sweet_blind", "sweet_wrong", "dpo", "rft", "warm_start", "insider")
"""Methods whose success is shown against the number of trades."""


@dataclass(frozen=True, slots=True)
class Seed:
    """One seed: the measures of its methods, and the runs that made them (warm start, commit, machine, day)."""

    numbers: Numbers
    made: tuple[Mapping[str, str], ...]


Seeds: TypeAlias = Mapping[int, Mapping[int, Seed]]  # By number of trades, then by seed


@dataclass(frozen=True, slots=True)
class FullStudy:
    """Many seeds and numbers of trades, all with the same settings: sizes, split, and those of every method."""

    settings: Mapping[str, Json]
    seeds: Seeds

    def comparisons(self) -> Iterator[Comparison]:
        """Success against the number of trades; each number of trades; a critic at test time."""
        if len(self.seeds) > 1:
            yield _against_trades(self.seeds)
        for trades, seeds in sorted(self.seeds.items()):
            yield _at(trades, seeds)
            success = {
                number: {name: found[SUCCESS] for name, found in seed.numbers.items()}
                for number, seed in seeds.items()
            }
            title = f"{_trades(trades)}, a critic chooses at test time"
            if chosen := comparison_at_test_time(f"test_time{trades}", success, title):
                yield chosen

    def with_seed(self, trades: int, number: int, seed: Seed) -> FullStudy:
        """The study with a seed, or with further methods of one, from the same warm start."""
        of_trades = self.seeds.get(trades, {})
        known = of_trades.get(number, Seed({}, ()))
        starts = {each[WARM_START] for each in (*known.made, *seed.made)}
        if len(starts) > 1:
            began = f"began with {known.made[0][WARM_START]}"
            raise DataError(began, field=f"seed {number}", value=seed.made[0][WARM_START])
        made = (*known.made, *(each for each in seed.made if each not in known.made))
        grown = Seed({**known.numbers, **seed.numbers}, made)
        return replace(self, seeds={**self.seeds, trades: {**of_trades, number: grown}})

    def results(self) -> Results:
        made: dict[str, set[str]] = defaultdict(set)
        for run in (run for seeds in self.seeds.values() for seed in seeds.values() for run in seed.made):
            for name, value in run.items():
                made[name].add(value)
        provenance = {name: ", ".join(sorted(values)) for name, values in made.items()}
        title = "SWEET-RL and its rivals in the mini benchmark"
        return Results(
            "sweet", title, "", tuple(self.comparisons()), settings=self.settings, provenance=provenance
        )


def numbers_of(results: Results, study: Study) -> dict[str, dict[str, float]]:
    measured = {
        method.name: {name: found.mean for name, found in method.runs[0].measures.items()}
        for method in results.comparisons[0].methods
        if method.runs[0].measures
    }
    return measured | {name: {SUCCESS: success_of(study, name)["mean"]} for name in choosing_agents(study)}


def read_full_study(path: Path) -> FullStudy | None:
    if not path.exists():
        return None
    found: Json = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise DataError(
            f"must have the format {FORMAT}", path=path, repair="Name a file of benchmarks/mini.py."
        )
    try:
        seeds = {
            int(trades): {
                int(number): Seed(seed["numbers"], tuple(seed["made"])) for number, seed in of_trades.items()
            }
            for trades, of_trades in found["trades"].items()
        }
        return FullStudy(found["settings"], seeds)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise DataError(
            f"is not whole ({type(error).__name__}: {error})",
            path=path,
            repair="Restore it, or remove it and run benchmarks/mini.py again.",
        ) from None


def write_packaged(path: Path, study: FullStudy) -> None:
    """Write the study as the `study.json` that comes with the package, without what is not known."""

    def known(value: Json) -> Json:
        if isinstance(value, dict):
            return {name: known(each) for name, each in value.items() if each is not None}
        return list(map(known, value)) if isinstance(value, list | tuple) else value

    content = known(asdict(study.results())) | {"settings": dict(study.settings)}
    replace_file(path, [f"{json.dumps(content)}\n".encode()])


def write_full_study(path: Path, study: FullStudy) -> None:
    trades = {
        str(k): {str(number): asdict(seeds[number]) for number in sorted(seeds)}
        for k, seeds in sorted(study.seeds.items())
    }
    content = {"format": FORMAT, "settings": study.settings, "trades": trades}
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, [f"{json.dumps(content, indent=1)}\n".encode()])


def _trades(count: int) -> str:
    return f"{count} trade{'s' if count > 1 else ''}"


def _against_trades(seeds: Seeds) -> Comparison:
    numbers = {k: {number: seed.numbers for number, seed in seeds[k].items()} for k in sorted(seeds)}
    common = sorted(set.intersection(*(set(of_trades) for of_trades in numbers.values())))

    def runs(name: str) -> tuple[Run, ...]:
        return tuple(
            Run(seed, curves={SUCCESS: tuple((k, numbers[k][seed][name][SUCCESS]) for k in numbers)})
            for seed in common
            if all(name in numbers[k][seed] for k in numbers)
        )

    return Comparison(
        "trades",
        "The more there is to know, the more a critic that knows it helps",
        own="sweet",
        start="warm_start",
        text=f"Seeds that were measured with every number of trades: {len(common)}.",
        curves=(Axes(SUCCESS, "success", "trades", "share", main=True, log=True),),
        methods=tuple(Method(name, *METHODS[name], found) for name in DOSES if (found := runs(name))),
    )


def _at(trades: int, seeds: Mapping[int, Seed]) -> Comparison:
    methods = {}
    for name in METHODS:
        runs = tuple(
            Run(number, {measure: Counted(value) for measure, value in seed.numbers[name].items()})
            for number, seed in sorted(seeds.items())
            if name in seed.numbers
        )
        if runs:
            methods[name] = Method(name, *METHODS[name], runs=runs, bound=name in LINES)
    # With one trade another task's solution shows the same usual extras, so it is not wrong.
    claims = [claim for claim in CLAIMS if (trades > 1 or claim[1] != "sweet_wrong") and claim[1] in methods]
    measures = {measure.name: replace(measure, group="result") for measure in MEASURES}
    return Comparison(
        f"trades{trades}",
        _trades(trades),
        own="sweet",
        start="warm_start",
        text=f"mini:trades={trades}, {len(seeds)} seed{'s' if len(seeds) > 1 else ''}.",
        measures=tuple(measures[name] for name in COLUMNS),
        methods=tuple(methods.values()),
        claims=tuple(
            claim_over_seeds(text, methods["sweet"], methods[worse], SUCCESS) for text, worse in claims
        ),
    )
