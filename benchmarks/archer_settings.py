"""Settings for the ArCHer study, chosen on development seeds: every method gets three learning rates.

All settings of all methods begin with the same policies and play as many games. The winner has the highest
mean return over the seeds and stands in `sweet_rl/studies/archer/recipe.py`; ablations take those of the
whole. The seeds of the study are never touched.

Run: python benchmarks/archer_settings.py [--methods archer,ppo,...] [--seeds 3] [--folder FOLDER]
     [--output FILE]
(about ten minutes a seed on two cores; an interrupted run resumes where it stopped)
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from _measure import flags, save

from sweet_rl.pipelines.running import run_steps
from sweet_rl.pipelines.steps import in_rounds
from sweet_rl.studies.archer.recipe import METHODS, START, OnlineStudy, rounds
from sweet_rl.studies.archer.results import mean_return
from sweet_rl.studies.runner import Chain

FIRST_SEED = 100

GRIDS: dict[str, dict[str, list[Any]]] = {  # Every combination of these; all else stays as it is
    "ppo": {"lm_lr": [3e-4, 5e-4, 1e-3]},
    "online_filteredbc": {"lm_lr": [1e-4, 3e-4, 1e-3]},
    "archer": {"lm_lr": [1e-4, 3e-4, 1e-3]},
    "reinforce": {"lm_lr": [3e-4, 5e-4, 1e-3]},
    "chai": {"critic_lr": [3e-4, 1e-3, 3e-3]},
}


def main() -> None:
    given = flags(
        __doc__, methods=[*GRIDS], seeds=1, folder="outputs/archer_settings", jobs=2, tiny=False, output=None
    )
    named = {f"{method}-{place}": one for method in given.methods for place, one in enumerate(tries(method))}
    tiny = {"iterations": 1, "teacher_games": 20, "test_games": 2} if given.tiny else {}
    study = OnlineStudy(Path(given.folder), given.seeds, FIRST_SEED, methods=named, **tiny)
    run_steps(in_rounds(_rounds(study)), study.folder, jobs=given.jobs, fresh=False, small=True)
    found: dict[str, Any] = {}
    for method in given.methods:
        found[method] = []
        for place, one in enumerate(tries(method)):
            returns = [round(mean_return(study, f"{method}-{place}", seed), 3) for seed in study.numbers]
            found[method].append({"settings": dict(one), "returns": returns})
        found[method].sort(key=lambda row: -fmean(row["returns"]))
        print(f"\n{method}, best first:")
        for row in found[method]:
            varied = {name: row["settings"][name] for name in GRIDS[method]}
            print(f"  {fmean(row['returns']):6.2f}  {row['returns']}  {varied}")
    save(given.output, seeds=list(study.numbers), methods=found)


def tries(method: str) -> list[dict[str, Any]]:
    grid = GRIDS[method]
    return [
        dict(METHODS[method]) | dict(zip(grid, values, strict=True))
        for values in itertools.product(*grid.values())
    ]


def _rounds(study: OnlineStudy) -> list[list[Chain]]:
    """Those of a study without what no setting is chosen by: greedy games, swap tests, scripted players."""
    games = {
        study.games(method, seed, greedy=False).name for method in study.methods for seed in study.numbers
    }
    runs = {study.run(method, seed).name for method in study.methods for seed in study.numbers}
    begins = {study.teacher(seed).name for seed in study.numbers} | {
        study.run(START, seed).name for seed in study.numbers
    }
    kept = games | runs | begins
    return [only(chains, kept) for chains in rounds(study)]


def only(chains: Sequence[Chain], names: Collection[str]) -> list[Chain]:
    return [kept for chain in chains if (kept := tuple(step for step in chain if step.name in names))]


if __name__ == "__main__":
    main()
