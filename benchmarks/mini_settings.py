"""Settings for the mini study, chosen on mini:dev: every method gets a grid of its own.

All settings of all methods learn from the same dialogues; those of SWEET-RL share one critic. The grids
of the rivals hold settings with as many updates as SWEET-RL makes. The winners stand in
`sweet_rl/studies/sweet/recipe.py`; the test tasks are never touched.

Run: python benchmarks/mini_settings.py [--folder outputs/mini/settings] [--output FILE]
(about a quarter of an hour on two cores; an interrupted run resumes where it stopped)
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from _machine import machine_line

from sweet_rl.pipelines.running import How, run_steps
from sweet_rl.pipelines.steps import in_rounds
from sweet_rl.studies.chains import Chain
from sweet_rl.studies.sweet import recipe as recipes
from sweet_rl.studies.sweet.recipe import Study
from sweet_rl.studies.sweet.results import success_of, updates_of
from sweet_rl.users.server_process import start_server

GRIDS: dict[str, dict[str, list[Any]]] = {
    "rejection fine-tuning": {"learning_rate": [2e-4, 5e-4, 1e-3], "max_epochs": [4, 8, 20]},
    "trajectory DPO": {
        "learning_rate": [1e-4, 2e-4, 4e-4],
        "beta": [0.1, 0.3],
        "nll_loss_coef": [0.3],
        "max_epochs": [2, 8],
    },
    "SWEET-RL": {
        "learning_rate": [1e-4, 2e-4, 4e-4],
        "beta": [0.1, 0.3],
        "nll_loss_coef": [0.1, 0.3],
        "max_epochs": [1],
    },
}


def main() -> None:
    """Train and measure every setting, then print and save the tables."""
    arguments = _arguments()
    folder = Path(arguments.folder)
    methods = arguments.methods.split(",")
    with start_server() as server:
        study = Study(
            folder,
            agent=arguments.agent,
            human=server.base_url,
            seed=arguments.seed,
            world=arguments.world,
            test_split="dev",
            train_tasks=arguments.train_tasks,
            test_tasks=arguments.test_tasks,
        )
        first = [recipes.critic(study), recipes.candidates(study)]
        chains = {
            (method, *settings.values()): _chain(study, method, settings)
            for method in methods
            for settings in _settings(method, arguments.first)
        }
        steps = in_rounds([[recipes.data(study)], first, list(chains.values())])
        run_steps(steps, folder, How(jobs=arguments.jobs, fresh=False, small=True))
    found = {
        method: [
            {
                **settings,
                "updates": updates_of(study, (name := _name(method, settings))),
                "success": success_of(study, name),
            }
            for settings in _settings(method, arguments.first)
        ]
        for method in methods
    }
    print("\n".join(_table(method, rows) for method, rows in found.items()))
    if arguments.output:
        saved = {"world": arguments.world, "split": "dev", "seed": arguments.seed, "methods": found}
        Path(arguments.output).write_text(json.dumps(saved | {"machine": machine_line()}, indent=1) + "\n")


def _settings(method: str, first: int | None) -> Iterator[dict[str, Any]]:
    grid = GRIDS[method]
    found = (dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values()))
    return itertools.islice(found, first)


def _name(method: str, settings: Mapping[str, Any]) -> str:
    return "_".join([method.rsplit(maxsplit=1)[-1], *(str(value) for value in settings.values())])


def _chain(study: Study, method: str, settings: Mapping[str, Any]) -> Chain:
    name = _name(method, settings)
    if method == "rejection fine-tuning":
        return recipes.rejection(study, name, settings)
    if method == "trajectory DPO":
        return recipes.dialogue_dpo(study, name, settings)
    return recipes.sweet(study, replace(recipes.SWEETS[0], name=name, settings=settings))


def _table(method: str, rows: list[dict[str, Any]]) -> str:
    names = [name for name in rows[0] if name != "success"]
    lines = [
        "",
        f"| {method}: {' | '.join(names)} | success % on mini:dev |",
        "|---" * (len(names) + 1) + "|",
    ]
    for row in sorted(rows, key=lambda row: -row["success"]["mean"]):
        success = row["success"]
        shown = f"{100 * success['mean']:.1f} [{100 * success['low']:.1f}, {100 * success['high']:.1f}]"
        lines.append(f"| {' | '.join(str(row[name]) for name in names)} | {shown} |")
    return "\n".join(lines)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--agent", default="embedded")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--world", choices=["usual", "easy"], default="usual")
    parser.add_argument("--train_tasks", type=int, default=600)
    parser.add_argument("--test_tasks", type=int, default=500)
    parser.add_argument("--methods", default=",".join(GRIDS), help="separated by commas")
    parser.add_argument("--first", type=int, help="so many settings of each grid only")
    parser.add_argument("--folder", default="outputs/mini/settings")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--output", help="file for the numbers")
    arguments = parser.parse_args()
    if unknown := set(arguments.methods.split(",")) - set(GRIDS):
        parser.error(f"--methods knows {', '.join(GRIDS)}; not {', '.join(sorted(unknown))}")
    return arguments


if __name__ == "__main__":
    main()
