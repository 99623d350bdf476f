"""Settings for the mini study, chosen on mini:trades=10:dev: every method gets a grid of its own.

All settings of all methods learn from the same dialogues. The winners stand in
`sweet_rl/studies/sweet/settings.py`; the test tasks are never touched.

Run: python benchmarks/mini_settings.py [--folder outputs/mini/settings] [--output FILE]
(about an hour on two cores; an interrupted run resumes where it stopped)
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
    "one epoch": {"learning_rate": 1e-4, "max_epochs": 1, "beta": 0.1},
    "held": {"learning_rate": 1e-4, "max_epochs": 4, "beta": 10.0},
}
"""Trainings of the critic; with a beta of 10 it is held to the agent."""

Grid: TypeAlias = list[dict[str, Any]]


def _product(**values: list[Any]) -> Grid:
    """All combinations."""
    return [dict(zip(values, each, strict=True)) for each in itertools.product(*values.values())]


_HELD = {"critic": "held", "learning_rate": 1e-3, "beta": 0.3, "nll_loss_coef": 0.1, "max_epochs": 2}
STEPS = [
    *_product(
        critic=list(CRITICS),
        learning_rate=[1e-3],
        beta=[0.3],
        nll_loss_coef=[0.1, 0.3],
        max_epochs=[1, 2, 3],
    ),
    *({**_HELD, "margin": margin} for margin in (0.0, 0.1, 1.0)),
    {**_HELD, "learning_rate": 5e-4},
]
"""Where no margin stands, it is 0.3."""

GRIDS: dict[str, Grid] = {
    "rft": [
        *_product(learning_rate=[5e-4, 1e-3, 2e-3], max_epochs=[8, 16, 25, 40]),
        *_product(learning_rate=[2e-4, 5e-4], max_epochs=[80]),
        *_product(learning_rate=[2e-4], max_epochs=[40]),
        *_product(learning_rate=[1e-3], max_epochs=[80]),
    ],
    "dpo": [
        *_product(learning_rate=[3e-4, 1e-3], beta=[0.1, 0.3], nll_loss_coef=[1.0], max_epochs=[4, 8, 16]),
        *_product(learning_rate=[3e-4], beta=[0.1, 0.3], nll_loss_coef=[1.0], max_epochs=[32]),
        *_product(learning_rate=[3e-4], beta=[0.3], nll_loss_coef=[1.0], max_epochs=[64]),
        *_product(learning_rate=[1e-4], beta=[0.1], nll_loss_coef=[1.0], max_epochs=[16, 32]),
        *_product(learning_rate=[3e-4], beta=[0.3], nll_loss_coef=[1.0], max_epochs=[16], guarded=[False]),
    ],
    "sweet": STEPS,
    "sweet_blind": STEPS,
}
"""Sixteen settings for each method, eighteen for trajectory DPO."""


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
        first = [recipes.candidates(study), *_critics(study, methods)]
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
        saved = {
            "measured on": f"mini:{arguments.world}:dev",
            "seed": arguments.seed,
            "agent": arguments.agent,
            "train tasks x dialogues": f"{study.train_tasks} x {study.repeats}",
            "test tasks": study.test_tasks,
            "methods": found,
            "machine": machine_line(),
        }
        replace_file(Path(arguments.output), [f"{json.dumps(saved, indent=1)}\n".encode()])


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
        training = {flag: value for flag, value in settings.items() if flag != "guarded"}
        return recipes.dialogue_dpo(study, name, training, guarded=settings.get("guarded", True))
    way = next(way for way in SWEETS if way.name == method)
    policy = {flag: value for flag, value in settings.items() if flag not in {"critic", "margin"}}
    critic = _critic(way, settings["critic"])
    margin = settings.get("margin", way.margin)
    return recipes.sweet(study, replace(way, name=name, critic=critic, margin=margin, settings=policy))


def _table(method: str, rows: list[dict[str, Any]]) -> str:
    names = list(dict.fromkeys(name for row in rows for name in row if name != "success"))
    lines = [
        "",
        f"| {method}: {' | '.join(names)} | success % on mini:dev |",
        "|---" * (len(names) + 1) + "|",
    ]
    for row in sorted(rows, key=lambda row: -row["success"]["mean"]):
        success = row["success"]
        shown = f"{100 * success['mean']:.1f} [{100 * success['low']:.1f}, {100 * success['high']:.1f}]"
        lines.append(f"| {' | '.join(str(row.get(name, '')) for name in names)} | {shown} |")
    return "\n".join(lines)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--agent", default="embedded")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--world", default="trades=10", help="trades=K, usual or easy")
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
