"""ArCHer in worlds that the demo does not play, from a policy that imitates the world's scripted agent.

Each seed: run_bc, then a short run_archer, whose critic begins as the policy. Writes study.json and
report.html with the curves: whether each configuration learns at this size. Of the settings
the policy's learning rate alone was chosen, between two, on a development seed of lantern.

Run: python benchmarks/archer_worlds.py [--worlds guess_my_city,lantern,webshop] [--seeds 3]
     [--folder FOLDER] [--plot outputs/archer_worlds.png]
(resumes where it stopped)
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from statistics import fmean

from _measure import Line, flags, plot

from sweet_rl.pipelines.running import run_steps
from sweet_rl.pipelines.steps import in_rounds
from sweet_rl.records import read_rows
from sweet_rl.studies.results import Axes, Comparison, Counted, Measure, Method, Results, Run, provenance
from sweet_rl.studies.runner import Chain, call, finish
from sweet_rl.worlds import world_of

CONFIGS = {"guess_my_city": "archer_city", "lantern": "archer_debug", "webshop": "archer_webshop"}

SETTINGS = {  # Of every run
    "iterations": 20,
    "rollout_size": 32,
    "eval_freq": 1000,
    "save_freq": 5,
    "keep_checkpoints": 1,
    "warmup_iter": 4,
    "capacity": 4000,
    "batch_size": 16,
    "grad_accum_steps": 2,
    "epochs": 10,
    "actor_epochs": 4,
    "max_new_tokens": 32,
    "critic_lr": 5e-4,
    "lm_lr": 1e-4,
    "normalize_advantages": "true",
    "tau": 0.3,
    "dtype": "float32",
    "use_wandb": "false",
    "quiet": "true",
}

LAST = 5  # Iterations whose games say what was reached

MEASURES = (Measure("last", f"return, last {LAST} iterations", "number"), Measure("first", "first", "number"))
CURVES = (Axes("return", "mean return of an iteration's games", "turns played to learn from", main=True),)
"""Of `run_of`."""


def main() -> None:
    given = flags(
        __doc__, worlds=[*CONFIGS], seeds=3, folder="outputs/archer_worlds", jobs=2, tiny=False, plot=None
    )
    folder, seeds = Path(given.folder), range(given.seeds)
    if given.tiny:
        SETTINGS.update(iterations=2, rollout_size=2, warmup_iter=0, epochs=1, actor_epochs=1)
    chains = [_chain(folder, world, seed) for world in given.worlds for seed in seeds]
    run_steps(in_rounds([chains]), folder, jobs=given.jobs, fresh=False, small=True)
    parts = []
    for world in given.worlds:
        runs = tuple(run_of(folder / f"{world}-archer-{seed}", seed) for seed in seeds)
        methods = (Method("archer", "ArCHer", runs=runs),)
        parts.append(
            Comparison(world, world, own="archer", measures=MEASURES, curves=CURVES, methods=methods)
        )
    settings = {name: value for name, value in SETTINGS.items() if name != "quiet"}
    found = Results("archer_worlds", "ArCHer in other worlds", comparisons=tuple(parts), settings=settings)
    finish(folder, replace(found, provenance=provenance()))
    plot(dict(map(panel, parts)), given.plot)


def _chain(folder: Path, world: str, seed: int) -> Chain:
    start, run = folder / f"{world}-start-{seed}", folder / f"{world}-archer-{seed}"
    own = {"checkpoint_path": start, "critic_lm": start / "policy", "save_path": run, "seed": seed}
    if CONFIGS[world] == "archer_debug":
        own |= {
            "world": world,
            "tasks": world_of(world).tasks.train,
            "eval_tasks": world_of(world).tasks.test,
        }
    overrides = tuple(f"{name}={value}" for name, value in {**SETTINGS, **own}.items())
    imitating = {"world": world, "seed": seed, "overwrite": True, "quiet": True}
    return (
        call("run_bc", start, (str(start),), imitating),
        call("run_archer", run, overrides, {"config_name": CONFIGS[world]}),
    )


def run_of(folder: Path, seed: int) -> Run:
    """What the games of a run's own iterations returned."""
    rows = [row for _, row in read_rows(folder / "metrics.jsonl")]
    returns = [row["rollout.mean"] for row in rows]
    turns = [0, *(row["env_steps"] for row in rows)]
    return Run(
        seed,
        {"last": Counted(fmean(returns[-LAST:])), "first": Counted(returns[0])},
        {"return": tuple(zip(turns, returns, strict=False))},
    )


def panel(part: Comparison) -> tuple[tuple[str, str], list[Line]]:
    """The first curves of a comparison: every seed of each method, faint, and their mean."""
    shown, lines = part.curves[0], list[Line]()
    for method in part.methods:
        curves = [run.curves[shown.name] for run in method.runs]
        lines += [(f"_{method.title}", curve) for curve in curves]
        steps = [tuple(zip(*points, strict=True)) for points in zip(*curves, strict=True)]
        lines.append((method.title, [(fmean(turns), fmean(values)) for turns, values in steps]))
    return (part.title, f"{shown.along}; {shown.title}"), lines


if __name__ == "__main__":
    main()
