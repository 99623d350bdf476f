"""ArCHer in worlds that the demo does not play, from a policy that imitates the world's scripted agent.

Each seed: run_bc, then a short run_archer, whose critic begins as the policy. Writes study.json and
report.html with the curves: whether each configuration learns at this size. Of the settings
the policy's learning rate alone was chosen, between two, on a development seed of lantern.

Run: python benchmarks/archer_worlds.py [--worlds guess_my_city,lantern,webshop] [--seeds 3]
     [--folder FOLDER] [--plot docs/images/archer_worlds.png]
(resumes where it stopped)
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from itertools import cycle
from pathlib import Path
from statistics import fmean

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

COLOURS = ("#1155cc", "#b45f06", "#777777")
"""Of methods in a picture."""


def main() -> None:
    arguments = _arguments()
    folder, seeds, worlds = Path(arguments.folder), range(arguments.seeds), arguments.worlds.split(",")
    if arguments.tiny:
        SETTINGS.update(iterations=2, rollout_size=2, warmup_iter=0, epochs=1, actor_epochs=1)
    chains = [_chain(folder, world, seed) for world in worlds for seed in seeds]
    run_steps(in_rounds([chains]), folder, jobs=arguments.jobs, fresh=False, small=True)
    parts = tuple(_comparison(folder, world, seeds) for world in worlds)
    settings = {name: value for name, value in SETTINGS.items() if name != "quiet"}
    title = "ArCHer in other worlds"
    finish(
        folder, Results("archer_worlds", title, comparisons=parts, settings=settings, provenance=provenance())
    )
    if arguments.plot:
        plot(parts, Path(arguments.plot))


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


def _comparison(folder: Path, world: str, seeds: Sequence[int]) -> Comparison:
    runs = tuple(run_of(folder / f"{world}-archer-{seed}", seed) for seed in seeds)
    return Comparison(
        world,
        world,
        own="archer",
        measures=MEASURES,
        curves=CURVES,
        methods=(Method("archer", "ArCHer", runs=runs),),
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


def plot(parts: Sequence[Comparison], path: Path) -> None:
    """A panel for each part, of its first curves: every seed of each method, and their mean."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(
        1, len(parts), figsize=(4 * len(parts), 3.4), layout="constrained", squeeze=False
    )
    for axis, part in zip(axes[0], parts, strict=True):
        shown = part.curves[0]
        for method, colour in zip(part.methods, cycle(COLOURS), strict=False):
            curves = [run.curves[shown.name] for run in method.runs]
            for curve in curves:
                axis.plot(*zip(*curve, strict=True), color=colour, alpha=0.25, linewidth=1)
            mean = [
                (fmean(turns), fmean(values))
                for turns, values in (zip(*points, strict=True) for points in zip(*curves, strict=True))
            ]
            axis.plot(*zip(*mean, strict=True), "o-", color=colour, markersize=3, label=method.title)
        axis.set(title=part.title, xlabel=shown.along)
        axis.grid(alpha=0.3)
        if len(part.methods) > 1:
            axis.legend(frameon=False, fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.16))
    axes[0][0].set_ylabel(parts[0].curves[0].title)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--worlds", default=",".join(CONFIGS), help="with commas between")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--folder", default="outputs/archer_worlds")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--tiny", action="store_true", help="on next to nothing: only whether it runs")
    parser.add_argument("--plot", help="draw the curves there")
    arguments = parser.parse_args()
    if unknown := set(arguments.worlds.split(",")) - CONFIGS.keys():
        parser.error(f"--worlds knows {', '.join(CONFIGS)}; not {', '.join(sorted(unknown))}")
    return arguments


if __name__ == "__main__":
    main()
