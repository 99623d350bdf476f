"""Settings for the mini study, chosen on development tasks: every method gets a grid of its own.

All settings of all methods learn from the same dialogues of a world, with ten trades and with forty; the best
has the highest mean over both. The winners stand in `sweet_rl/studies/sweet/settings.py`; the test tasks are
never touched.

Run: python benchmarks/mini_settings.py [--folder outputs/mini/settings] [--output FILE]
(about two hours on two cores; an interrupted run resumes where it stopped)
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

from _machine import machine_line

from sweet_rl.pipelines.running import How, run_steps
from sweet_rl.pipelines.steps import in_rounds
from sweet_rl.records import replace_file
from sweet_rl.studies.chains import Chain
from sweet_rl.studies.sweet import recipe as recipes
from sweet_rl.studies.sweet.results import success_of, updates_of
from sweet_rl.studies.sweet.settings import SWEETS, Study, Sweet
from sweet_rl.users.server_process import start_server

CRITICS: dict[str, dict[str, Any]] = {
    "beta 100": {"learning_rate": 1e-4, "max_epochs": 4, "beta": 100.0},
    "beta 30": {"learning_rate": 1e-4, "max_epochs": 4, "beta": 30.0},
}
"""Trainings of the critic. A high beta holds it to the agent: below 30 it comes to like early answers."""

Grid: TypeAlias = list[dict[str, Any]]


def _product(**values: list[Any]) -> Grid:
    """All combinations."""
    return [dict(zip(values, each, strict=True)) for each in itertools.product(*values.values())]


_POLICY: dict[str, list[Any]] = {"learning_rate": [1e-3], "beta": [0.1], "nll_loss_coef": [0.3]}
STEPS = [
    *_product(
        critic=["beta 100"], **_POLICY | {"beta": [0.1, 0.3], "nll_loss_coef": [0.1, 0.3]}, max_epochs=[2]
    ),
    *_product(critic=["beta 100"], **_POLICY, max_epochs=[1, 3]),
    *_product(critic=["beta 100"], **_POLICY, max_epochs=[2], min_score=[None]),
    *_product(critic=["beta 30"], **_POLICY, max_epochs=[2]),
]
"""Where no least score stands, it is 0: a turn is chosen that the critic likes more than the agent does."""

GRIDS: dict[str, Grid] = {
    "rft": [
        *_product(learning_rate=[2e-4], max_epochs=[40, 80, 160]),
        *_product(learning_rate=[5e-4], max_epochs=[25, 40, 80]),
        *_product(learning_rate=[1e-3], max_epochs=[25, 40]),
    ],
    "dpo": [
        *_product(learning_rate=[3e-4], beta=[0.1, 0.3], nll_loss_coef=[1.0], max_epochs=[16, 32, 64]),
        *_product(learning_rate=[1e-3], beta=[0.3], nll_loss_coef=[1.0], max_epochs=[8, 16]),
    ],
    "sweet": STEPS,
    "sweet_blind": STEPS,
}
"""Eight settings for each method."""


def main() -> None:
    """Train and measure every setting in every world, then print and save the tables."""
    arguments = _arguments()
    found = {world: _measured(arguments, world) for world in arguments.worlds.split(",")}
    best = {method: _best(list(found.values()), method) for method in arguments.methods.split(",")}
    print("\n".join(_table(method, found, best[method]) for method in best))
    if arguments.output:
        saved = {
            "measured on": "mini:WORLD:dev",
            "seed": arguments.seed,
            "agent": arguments.agent,
            "train tasks x dialogues": f"{arguments.train_tasks} x {Study.repeats}",
            "test tasks": arguments.test_tasks,
            "best": best,
            "worlds": found,
            "machine": machine_line(),
        }
        replace_file(Path(arguments.output), [f"{json.dumps(saved, indent=1)}\n".encode()])


def _measured(arguments: argparse.Namespace, world: str) -> dict[str, list[dict[str, Any]]]:
    """All settings of all methods in one world: updates and success beside each."""
    methods = arguments.methods.split(",")
    folder = Path(arguments.folder) / world.replace("=", "")
    with start_server() as server:
        study = Study(
            folder,
            agent=arguments.agent,
            human=server.base_url,
            seed=arguments.seed,
            world=world,
            test_split="dev",
            train_tasks=arguments.train_tasks,
            test_tasks=arguments.test_tasks,
        )
        first = [recipes.candidates(study), *_critics(study, methods)]
        chains = [
            _chain(study, method, settings)
            for method in methods
            for settings in _settings(method, arguments.first)
        ]
        steps = in_rounds([[recipes.data(study)], first, chains])
        run_steps(steps, folder, How(jobs=arguments.jobs, fresh=False, small=True))
    return {
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


def _best(worlds: Sequence[Mapping[str, list[dict[str, Any]]]], method: str) -> int:
    """Place in the grid of the settings with the highest mean success over the worlds."""
    of_worlds = zip(*(world[method] for world in worlds), strict=True)
    means = [sum(row["success"]["mean"] for row in rows) for rows in of_worlds]
    return max(range(len(means)), key=means.__getitem__)


def _settings(method: str, first: int | None) -> Grid:
    return GRIDS[method][:first]


def _name(method: str, settings: Mapping[str, Any]) -> str:
    return "_".join([method, *(str(value) for value in settings.values())]).replace(" ", "_")


def _critics(study: Study, methods: Sequence[str]) -> list[Chain]:
    return [
        recipes.critic(study, _critic(way, kind), hidden=way.given == "own", settings=settings)
        for way in SWEETS
        if way.name in methods
        for kind, settings in CRITICS.items()
    ]


def _critic(way: Sweet, kind: str) -> str:
    return f"{way.critic}_{kind}".replace(" ", "_")


def _chain(study: Study, method: str, settings: Mapping[str, Any]) -> Chain:
    name = _name(method, settings)
    if method == "rft":
        return recipes.rejection(study, name, settings)
    if method == "dpo":
        return recipes.dialogue_dpo(study, name, settings)
    way = next(way for way in SWEETS if way.name == method)
    policy = {flag: value for flag, value in settings.items() if flag not in {"critic", "min_score"}}
    critic, least = _critic(way, settings["critic"]), settings.get("min_score", way.min_score)
    return recipes.sweet(study, replace(way, name=name, critic=critic, min_score=least, settings=policy))


def _table(method: str, worlds: Mapping[str, Mapping[str, list[dict[str, Any]]]], best: int) -> str:
    names = list(dict.fromkeys(name for row in GRIDS[method] for name in row))
    heads = [*names, *(f"{world}, success % (updates)" for world in worlds)]
    lines = ["", f"{method}:", f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for place, rows in enumerate(zip(*(world[method] for world in worlds.values()), strict=True)):
        settings = [str(rows[0].get(name, "")) for name in names]
        shown = [f"{_success(row['success'])} ({row['updates']})" for row in rows]
        mark = " best" if place == best else ""
        lines.append(f"| {' | '.join([*settings, *shown])} |{mark}")
    return "\n".join(lines)


def _success(found: Mapping[str, float]) -> str:
    return f"{100 * found['mean']:.1f} [{100 * found['low']:.1f}, {100 * found['high']:.1f}]"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--agent", default="embedded")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--worlds", default="trades=10,trades=40", help="trades=K, usual or easy, separated by commas"
    )
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
