"""The results of a Reflect-RL study, as the report page and the table use them.

Reads the reports of evaluations and the logs of online runs, and nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from sweet_rl.errors import DataError
from sweet_rl.studies.reflect import worlds
from sweet_rl.studies.reflect.data import RANDOM_SHARE
from sweet_rl.studies.reflect.recipe import FINE_TUNING, LAYERS, ONLINE, TRAINING, WIDTH, ReflectStudy
from sweet_rl.studies.reflect.worlds import AMOUNTS, EXPLORE, HOUSEHOLD, METHODS, MOVED, TAXI
from sweet_rl.studies.results import (
    Axes,
    Comparison,
    Estimate,
    Measure,
    Method,
    Points,
    Results,
    Run,
    claim_over_seeds,
    provenance,
)
from sweet_rl.types import Json

TITLES: Mapping[str, tuple[str, str]] = {
    TAXI: (
        "DangerousTaxi",
        "Bring a passenger to their goal, on a grid of text where a move without effect ends the game.",
    ),
    EXPLORE: (
        "AutoExplore",
        "Find the one file of a repository that answers a question, by cd, cat and id, in fifteen steps.",
    ),
    MOVED: (
        "AutoExplore, two hops",
        "The same, where names tell nothing: a file says who keeps a thing, and where.",
    ),
    HOUSEHOLD: ("ALFWorld", "Do a task in a made household: find a thing, change it, put it somewhere."),
}
"""Every world's name, and what is played in it."""

NAMES: Mapping[str, tuple[str, str]] = {
    "sft": ("SFT only", "Imitates recorded actions, without reflections."),
    "rl": ("RL only", "Learns online from nothing, without reflections."),
    "reflect_sft": ("SFT with reflection", "Imitates recorded actions, beside a model that reflects."),
    "reflect_rl": ("Reflect-RL", "Both models are fine-tuned, then the policy learns online."),
    "reflect_rl_flat": ("No curriculum", "Reflect-RL on the whole task from the first iteration on."),
    "reflect_rl_positive": ("No negatives", "Reflect-RL whose texts show no way back from a wrong file."),
    "reflect_rl_swapped": (
        "Others' reflections",
        "Reflect-RL's policy, given the reflection of another state: a policy that does as well reads none.",
    ),
    "planner": ("Planner", "The ceiling: is given the way, or what the world hides."),
    "random": ("Random", "A floor: any command on offer, each as likely."),
    "linear": (
        "Linear",
        "A floor: a linear policy on counts of words, fitted to the texts without reflections.",
    ),
    "linear_reflect": (
        "Linear with reflection",
        "The same on the texts with them, beside the reflection model.",
    ),
}
"""Every method's name, and what it is, in one sentence."""

CLAIMS: Sequence[tuple[str, str, str]] = (
    ("Reflect-RL beats fine-tuning alone", "reflect_rl", "sft"),
    ("Reflect-RL beats online learning alone", "reflect_rl", "rl"),
    ("Online learning improves on fine-tuning with reflections", "reflect_rl", "reflect_sft"),
    ("Reflections help without online learning", "reflect_sft", "sft"),
    ("A curriculum helps", "reflect_rl", "reflect_rl_flat"),
    ("Wrong ways in the texts help", "reflect_rl", "reflect_rl_positive"),
    ("The policy reads its reflections", "reflect_rl", "reflect_rl_swapped"),
)
"""Published orderings, and what they rest on: what is claimed, the better method, the worse one."""

AXES = (Axes("success", "success", "episodes played to learn from", "share", main=True),)
"""Of an online run: the games that it plays to learn from."""


def results(study: ReflectStudy, seconds: Mapping[str, float]) -> Results:
    """Worlds with their methods, curves and claims."""
    return Results(
        "reflect",
        "Reflect-RL from nothing",
        f"{study.seeds} seeds; a policy and a reflection model of {LAYERS} layers and width {WIDTH}, "
        "which learn from an embedded teacher, then online.",
        tuple(_world(study, world) for world in study.worlds),
        settings=_settings(study),
        provenance=provenance(),
        seconds=_by_kind(study, seconds),
        notes=(
            "All policies of a world are measured on the same games; nothing was learned from these.",
            "A curve follows the games that are played to learn from, a point an iteration: it may fall with a level.",
            "Planner, random and the linear policy without reflections are the same for every seed.",
            "Seconds are added up over runs; some of them ran at the same time.",
        ),
    )


def _world(study: ReflectStudy, world: str) -> Comparison:
    methods = {method.key: _method(study, world, method) for method in METHODS[world]}
    levels = dict.fromkeys(
        name
        for method in methods.values()
        for run in method.runs
        for name in run.measures
        if name != "success"
    )
    return Comparison(
        world,
        TITLES[world][0],
        own="reflect_rl",
        text=TITLES[world][1],
        measures=(Measure("success", "success"), *(Measure(level, level) for level in levels)),
        curves=AXES,
        methods=tuple(methods.values()),
        claims=tuple(
            claim_over_seeds(claim, methods[better], methods[worse], "success")
            for claim, better, worse in CLAIMS
            if {better, worse} <= methods.keys()
        ),
    )


def _method(study: ReflectStudy, world: str, method: worlds.Method) -> Method:
    seeds = range(1 if method.once else study.seeds)
    runs = tuple(_run(study, world, method, seed) for seed in seeds)
    return Method(method.key, *NAMES[method.key], runs, bound=method.once or method.linear)


def _run(study: ReflectStudy, world: str, method: worlds.Method, seed: int) -> Run:
    levels = _levels(study, world, method, seed)
    # The taxi's last level is the whole task; of AutoExplore every level is a part of the questions.
    counted = levels[-1:] if world == TAXI else levels
    episodes = sum(level["episodes"] for level in counted)
    success = sum(level["success"] * level["episodes"] for level in counted) / episodes
    return Run(
        seed,
        {"success": Estimate(success, n=episodes)}
        | {level["level"]: Estimate(level["success"], n=level["episodes"]) for level in levels},
        {"success": _curve(study, world, method, seed)} if method.online and not method.policy_of else {},
    )


def _levels(study: ReflectStudy, world: str, method: worlds.Method, seed: int) -> list[dict[str, Json]]:
    """The levels of one evaluation.

    Raises:
        DataError: an episode failed: a mean over the others would say something else.
    """
    path = study.report(world, method, seed)
    levels: list[dict[str, Json]] = json.loads(path.read_text())["checkpoints"][0]["levels"]
    for level in levels:
        if level["failed"] or not level["episodes"]:
            raise DataError("must be played to the end", path=path, field=level["level"], value=level)
    return levels


def _curve(study: ReflectStudy, world: str, method: worlds.Method, seed: int) -> Points:
    """Of each iteration, the episodes learned from before it and the share of its own that succeeded."""
    path = study.checkpoint(world, method, seed) / "logs.json"
    found = [float(entry["succ"]) for entry in json.loads(path.read_text())]
    return tuple((float(AMOUNTS[world].episodes * at), share) for at, share in enumerate(found))


def _amounts(study: ReflectStudy, world: str) -> dict[str, Json]:
    return {
        f"{world}: updates of a policy's fine-tuning": study.updates_of(world, "policy"),
        f"{world}: of a reflection model's": study.updates_of(world, "reflection"),
        f"{world}: iterations of an online run": study.iterations_of(world),
        f"{world}: episodes of an iteration": AMOUNTS[world].episodes,
        f"{world}: online learning rate": AMOUNTS[world].online_rate,
        f"{world}: pointing head": AMOUNTS[world].points,
    }


def _settings(study: ReflectStudy) -> dict[str, Json]:
    return {
        "records": study.records,
        "repositories": study.repositories,
        "random moves of the taxi's driver": RANDOM_SHARE,
        **{name: number for world in study.worlds for name, number in _amounts(study, world).items()},
        **{f"training: {name}": value for name, value in TRAINING.items() if name != "quiet"},
        **{f"fine-tuning: {name}": value for name, value in FINE_TUNING.items()},
        **{f"online: {name}": value for name, value in ONLINE.items()},
    }


def _by_kind(study: ReflectStudy, seconds: Mapping[str, float]) -> dict[str, float]:
    """Seconds of steps of one kind, added up."""
    places = [(world, seed) for world in study.worlds for seed in range(study.seeds)]
    kinds: dict[str, set[str]] = {"models": {study.base(*place).name for place in places}}
    for world, seed in places:
        title = TITLES[world][0]
        for method in METHODS[world]:
            tuned = kinds.setdefault(f"{title}: fine-tuning", set())
            if method.tuned:
                tuned.add(study.tuned(world, method.texts, seed).name)
            if method.reflects:
                tuned.add(study.tuned(world, method.reflection_texts, seed).name)
            if method.online:
                learned = kinds.setdefault(f"{title}: learning online", set())
                learned.add(study.run(world, method, seed).name)
            measured = kinds.setdefault(f"{title}: measuring", set())
            measured.add(study.report(world, method, seed).name)
    known = {name for names in kinds.values() for name in names}
    kinds = {"data": {name for name in seconds if name not in known}} | kinds
    return {kind: round(sum(seconds.get(name, 0.0) for name in names), 2) for kind, names in kinds.items()}
