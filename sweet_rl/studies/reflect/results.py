"""The results of a Reflect-RL study, as the report page and the table use them.

Reads the reports of evaluations and the logs of online runs, and nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from statistics import fmean

from sweet_rl.errors import DataError
from sweet_rl.studies.reflect import recipe
from sweet_rl.studies.reflect.recipe import (
    AMOUNTS,
    EXPLORE,
    FINE_TUNING,
    LAYERS,
    METHODS,
    ONLINE,
    RANDOM_SHARE,
    TAXI,
    TRAINING,
    WIDTH,
    ReflectStudy,
)
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

_POINTS = 20
"""Of a curve: each is the mean of some iterations."""


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
            "A curve follows the games that are played to learn from: where a level begins, it may fall.",
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


def _method(study: ReflectStudy, world: str, method: recipe.Method) -> Method:
    runs = tuple(_run(study, world, method, seed) for seed in range(study.seeds))
    return Method(method.key, *NAMES[method.key], runs)


def _run(study: ReflectStudy, world: str, method: recipe.Method, seed: int) -> Run:
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


def _levels(study: ReflectStudy, world: str, method: recipe.Method, seed: int) -> list[dict[str, Json]]:
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


def _curve(study: ReflectStudy, world: str, method: recipe.Method, seed: int) -> Points:
    """Episodes played and the share that succeeded: means of some iterations, so that they can be seen."""
    path = study.checkpoint(world, method, seed) / "logs.json"
    found = [float(entry["succ"]) for entry in json.loads(path.read_text())]
    size = max(1, -(-len(found) // _POINTS))
    batch = AMOUNTS[world].episodes
    chunks = [found[at : at + size] for at in range(0, len(found), size)]
    return tuple((batch * (at * size + len(chunk) / 2), fmean(chunk)) for at, chunk in enumerate(chunks))


def _amounts(study: ReflectStudy, world: str) -> dict[str, Json]:
    return {
        f"{world}: updates of a policy's fine-tuning": study.updates_of(world, "policy"),
        f"{world}: of a reflection model's": study.updates_of(world, "reflection"),
        f"{world}: iterations of an online run": study.iterations_of(world),
        f"{world}: episodes of an iteration": AMOUNTS[world].episodes,
        f"{world}: online learning rate": AMOUNTS[world].online_rate,
    }


def _settings(study: ReflectStudy) -> dict[str, Json]:
    return {
        "states of the taxi": study.records,
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
            if method.texts:
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
