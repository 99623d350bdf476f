"""Settings for the Reflect-RL study, chosen on development seeds: every method gets a grid of four rates.

First fine-tuning, without and with reflections; then online learning from the best of these: from nothing,
after fine-tuning on actions, and Reflect-RL. The reflection model has the settings that stand in
`sweet_rl/studies/reflect/settings.toml`. The winner has the highest mean success over the seeds, and belongs
there, too; the seeds of the study are never touched.

Run: python benchmarks/reflect_settings.py [--worlds taxi,two_hops] [--seeds 3] [--folder FOLDER]
     [--output FILE]
(about twenty minutes for a world and seed on one core; an interrupted run resumes where it stopped)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

from _measure import flags, save

from sweet_rl.pipelines.running import run_steps
from sweet_rl.pipelines.steps import in_rounds
from sweet_rl.studies.reflect.recipe import ReflectStudy, rounds
from sweet_rl.studies.reflect.results import success_of
from sweet_rl.studies.reflect.worlds import METHODS, MOVED, TAXI, Amount, Online, Tuning
from sweet_rl.studies.runner import Chain

FIRST_SEED = 100

FINE_TUNED = {"sft": "sft", "policy": "reflect_sft"}
"""Fields of `Amount`, and the methods that they are measured by."""
ONLINE = {"rl": "rl", "sft_rl": "sft_rl", "reflect_rl": "reflect_rl"}


def grid(amount: Amount, field: str) -> list[Tuning | Online]:
    found = getattr(amount, field)
    rates = (5e-4, 1e-3, 3e-3, 2e-4) if isinstance(found, Tuning) else (2e-4, 5e-4, 1e-3, 5e-5)
    return [found._replace(rate=rate) for rate in rates]


def main() -> None:
    given = flags(
        __doc__,
        worlds=f"{TAXI},{MOVED}",
        seeds=3,
        folder="outputs/reflect_settings",
        jobs=2,
        tiny=False,
        output=None,
    )
    found: dict[str, Any] = {}
    names = ("records", "repositories", "sft_updates", "iterations", "test_games")
    tiny: dict[str, Any] = dict.fromkeys(names, 2) if given.tiny else {}
    for world in given.worlds.split(","):
        study = ReflectStudy(Path(given.folder), given.seeds, FIRST_SEED, worlds=(world,), **tiny)
        found[world] = {}
        for kind in (FINE_TUNED, ONLINE):
            tried = {field: _tries(study, world, field, key) for field, key in kind.items()}
            _run(given.folder, given.jobs, [each for tries in tried.values() for each in tries])
            for field, key in kind.items():
                rows = [_row(each, world, field) for each in tried[field]]
                best = max(range(len(rows)), key=lambda place: fmean(rows[place]["success"]))
                won = tried[field][best]
                study = _with(study, world, field, key, won.amounts[world], won.labels[key])
                found[world][key] = rows
                print(f"{world}, {key}: {rows[best]}; all: {rows}", flush=True)
        seeds = list(study.each_seed)
    save(given.output, seeds=seeds, worlds=found)


def _tries(study: ReflectStudy, world: str, field: str, key: str) -> list[ReflectStudy]:
    """A study of one method for each setting; what they have in common has the same names."""
    only = {**METHODS, world: [method for method in METHODS[world] if method.key == key]}
    amount = study.amounts[world]
    return [
        _with(
            replace(study, methods=only), world, field, key, replace(amount, **{field: one}), f"-try{place}"
        )
        for place, one in enumerate(grid(amount, field))
    ]


def _with(study: ReflectStudy, world: str, field: str, key: str, amount: Amount, label: str) -> ReflectStudy:
    kept = replace(study.amounts[world], **{field: getattr(amount, field)})
    return replace(
        study, amounts={**study.amounts, world: kept}, labels={**study.labels, field: label, key: label}
    )


def _run(folder: str, jobs: int, tries: Sequence[ReflectStudy]) -> None:
    known: set[str] = set()
    merged: list[list[Chain]] = []
    for chains in zip(*map(rounds, tries), strict=True):
        fresh = []
        for chain in (chain for each in chains for chain in each):
            fresh.append(tuple(step for step in chain if step.name not in known))
            known |= {step.name for step in chain}
        merged.append([chain for chain in fresh if chain])
    run_steps(in_rounds(merged), Path(folder), jobs=jobs, fresh=False, small=True)


def _row(study: ReflectStudy, world: str, field: str) -> dict[str, Any]:
    (method,) = study.methods[world]
    success = [round(success_of(study, world, method, seed).mean, 4) for seed in study.each_seed]
    return {"settings": list(getattr(study.amounts[world], field)), "success": success}


if __name__ == "__main__":
    main()
