"""Settings for the mini study, chosen on development tasks: every method gets a grid of its own.

All settings of all methods learn from the same dialogues of a world: first with forty trades, then the best
of them with ten. The winner has the highest mean over both, of two within half a point the one with fewer
updates; it stands in `sweet_rl/studies/sweet/settings.py`. The test tasks are never touched.

Run: python benchmarks/mini_settings.py [--folder outputs/mini/settings] [--output FILE]
(about two hours on two cores; an interrupted run resumes where it stopped)

Of a real pretrained model on one GPU, in mini:trades=10:dev: python benchmarks/mini_settings.py --agent smollm2
     --jobs 4 --folder outputs/real/settings --output benchmarks/results/real_settings.json
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

from _measure import flags, save, show

from sweet_rl.errors import no_such
from sweet_rl.pipelines.running import run_steps
from sweet_rl.pipelines.steps import in_rounds
from sweet_rl.studies.runner import Chain
from sweet_rl.studies.sweet import recipe as recipes
from sweet_rl.studies.sweet.results import success_of, updates_of
from sweet_rl.studies.sweet.settings import (
    PRETRAINED,
    SWEETS,
    UNTRAINED,
    Study,
    Sweet,
    begun_with,
    is_pretrained,
)
from sweet_rl.users.server import start_server

CRITICS: dict[str, dict[str, Any]] = {
    "beta 100": {"learning_rate": 1e-4, "max_epochs": 4, "beta": 100.0},
    "beta 30": {"learning_rate": 1e-4, "max_epochs": 4, "beta": 30.0},
    "beta 10": {"learning_rate": 1e-4, "max_epochs": 4, "beta": 10.0},
    "beta 1": {"learning_rate": 1e-4, "max_epochs": 4, "beta": 1.0},
    "pretrained": dict(PRETRAINED.critic),
}
"""Trainings of the critic. A high beta holds it to the agent: below 30 the sighted one comes to like early
answers. The blind one does not, and it learns so little that it then has hardly a pair above the margin."""

Grid: TypeAlias = list[dict[str, Any]]


def _product(**values: list[Any]) -> Grid:
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
"""Where no least score stands, it is 0: a turn is chosen that the critic likes more than the agent does.
Where no margin stands, it is 0.3."""
OF_TEN: dict[str, Grid] = {
    "dpo": _product(learning_rate=[3e-4], beta=[0.3], nll_loss_coef=[1.0], max_epochs=[32]),
    "sweet_blind": [
        *_product(critic=["beta 10"], **_POLICY, max_epochs=[2], min_score=[0.0, None], margin=[0.3]),
        *_product(
            critic=["beta 10"], **_POLICY | {"beta": [0.3], "nll_loss_coef": [0.1]}, max_epochs=[2],
            min_score=[None], margin=[0.3],
        ),
    ],
}  # fmt: skip
"""Rivals' settings that go on whatever came of them: they were best in a grid with ten trades only."""
BLIND = [
    *_product(
        critic=["beta 10", "beta 1"], **_POLICY, max_epochs=[2], min_score=[0.0, None], margin=[0.3, 0.0]
    ),
    OF_TEN["sweet_blind"][-1],
]

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
    "sweet_blind": [*STEPS, *BLIND],
}
"""Eight settings for each method, and nine more for the blind critic: those of the sighted one starve it."""

_CREDIT = _product(
    critic=["pretrained"], learning_rate=[2e-5, 1e-4], beta=[0.3], nll_loss_coef=[0.3], max_epochs=[1, 2]
)
PRETRAINED_GRIDS: dict[str, Grid] = {
    "rft": _product(learning_rate=[5e-5, 1e-4], max_epochs=[4, 8]),
    "dpo": _product(learning_rate=[1e-5, 5e-5], beta=[0.3], nll_loss_coef=[1.0], max_epochs=[3, 6]),
    "sweet": _CREDIT,
    "sweet_blind": _CREDIT,
    "sweet_untrained": _CREDIT,
}
"""For a pretrained model: four settings for each method, a learning rate and a number of epochs each."""


Row: TypeAlias = dict[str, Any]  # Settings, and what came of them in each world


def main() -> None:
    given = flags(
        __doc__,
        agent="embedded",
        seed=0,
        worlds=None,
        keep=3,
        train_tasks=0,
        test_tasks=0,
        methods=None,
        first=99,
        unsafe_no_sandbox=False,
        folder="outputs/mini/settings",
        jobs=2,
        output=None,
    )
    grids, usual = (
        (PRETRAINED_GRIDS, "trades=10") if is_pretrained(given.agent) else (GRIDS, "trades=40,trades=10")
    )
    worlds = (given.worlds or usual).split(",")
    found: dict[str, list[Row]] = {}
    for method in given.methods.split(",") if given.methods else grids:
        if method not in grids:
            raise no_such(f"grid for the agent {given.agent}, of the method", method, grids)
        found[method] = [{"settings": one, "worlds": {}} for one in grids[method][: given.first]]
    going_on: Mapping[str, list[Row]] = found
    for world in worlds:
        study = _measure(given, world, going_on)
        going_on = {method: _kept(method, rows, given.keep) for method, rows in going_on.items()}
    for method, rows in found.items():
        print(f"\n{method}, best first:")
        names = list(dict.fromkeys(name for row in rows for name in row["settings"]))
        show(
            [*names, *(f"{world}, success % (updates)" for world in worlds)],
            [
                [
                    *(row["settings"].get(name, "") for name in names),
                    *map(_cell, map(row["worlds"].get, worlds)),
                ]
                for row in _best(rows)
            ],
        )
    save(
        given.output,
        **{
            "measured on": "mini:WORLD:dev",
            "train tasks x dialogues": f"{study.train_tasks} x {study.repeats}",
        },
        **{"seed": given.seed, "agent": given.agent, "test tasks": study.test_tasks, "methods": found},
    )


def _measure(arguments: argparse.Namespace, world: str, rows: Mapping[str, list[Row]]) -> Study:
    folder = Path(arguments.folder) / world.replace("=", "")
    chosen = {"train_tasks": arguments.train_tasks, "test_tasks": arguments.test_tasks}
    fields = {"train_tasks": 600, "test_tasks": 500} | begun_with(arguments.agent, folder, arguments.jobs)
    with start_server() as server:
        study = Study(
            folder,
            human=server.base_url,
            seed=arguments.seed,
            world=world,
            test_split="dev",
            unsafe_no_sandbox=arguments.unsafe_no_sandbox,
            **fields | {name: number for name, number in chosen.items() if number},
        )
        first = [recipes.candidates(study), *_critics(study, rows)]
        chains = [_chain(study, method, row["settings"]) for method in rows for row in rows[method]]
        steps = in_rounds([[recipes.beginning(study)], [recipes.data(study)], first, chains])
        run_steps(steps, folder, jobs=arguments.jobs, fresh=False, small=True, threads=study.threads)
    for method in rows:
        for row in rows[method]:
            name = _name(method, row["settings"])
            row["worlds"][world] = {"updates": updates_of(study, name), "success": success_of(study, name)}
    return study


def _best(rows: Sequence[Row]) -> list[Row]:
    """By mean success over the worlds, best first; those that were measured in fewer worlds come last."""

    def success(row: Row) -> tuple[int, float]:
        means = [found["success"]["mean"] for found in row["worlds"].values()]
        return len(means), sum(means)

    return sorted(rows, key=success, reverse=True)


def _kept(method: str, rows: Sequence[Row], number: int) -> list[Row]:
    best = _best(rows)
    return [*best[:number], *(row for row in best[number:] if row["settings"] in OF_TEN.get(method, []))]


def _name(method: str, settings: Mapping[str, Any]) -> str:
    return "_".join([method, *(str(value) for value in settings.values())]).replace(" ", "_")


def _critics(study: Study, methods: Mapping[str, list[Row]]) -> list[Chain]:
    return [
        recipes.critic(study, _critic(way, kind), hidden=way.given == "own", flags=CRITICS[kind])
        for way in SWEETS
        if way.name in methods and way.critic != UNTRAINED
        for kind in dict.fromkeys(row["settings"]["critic"] for row in methods[way.name])
    ]


def _critic(way: Sweet, kind: str) -> str:
    return UNTRAINED if way.critic == UNTRAINED else f"{way.critic}_{kind}".replace(" ", "_")


def _chain(study: Study, method: str, settings: Mapping[str, Any]) -> Chain:
    name = _name(method, settings)
    if method == "rft":
        return recipes.rejection(study, name, settings)
    if method == "dpo":
        return recipes.dialogue_dpo(study, name, settings)
    way = next(way for way in SWEETS if way.name == method)
    of_pairs = {field: settings[field] for field in ("min_score", "margin") if field in settings}
    policy = {flag: value for flag, value in settings.items() if flag not in {"critic", *of_pairs}}
    own = study.settings.blind_pairs if way.given == "none" else study.settings.pairs
    pairs = {field: value for field, value in {**own, **of_pairs}.items() if value is not None}
    critic = _critic(way, settings["critic"])
    return recipes.sweet(study, replace(way, name=name, critic=critic, policy=policy, pairs=pairs))


def _cell(found: Row | None) -> str:
    if not found:
        return ""
    mean, low, high = (100 * found["success"][name] for name in ("mean", "low", "high"))
    return f"{mean:.1f} [{low:.1f}, {high:.1f}] ({found['updates']})"


if __name__ == "__main__":
    main()
