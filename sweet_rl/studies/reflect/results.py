"""What came of a Reflect-RL study, as the report page and the table want it.

Reads the reports of evaluations and the logs of online runs, and nothing else.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping, Sequence
from statistics import fmean

from sweet_rl.errors import DataError
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
    Method,
    ReflectStudy,
)
from sweet_rl.studies.report import reflect_data
from sweet_rl.studies.report.reflect_data import read_reflect_report
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
}
"""Every method's name, and what it is, in one sentence."""

CLAIMS: Sequence[tuple[str, str, str]] = (
    ("Reflect-RL beats fine-tuning alone", "reflect_rl", "sft"),
    ("Reflect-RL beats online learning alone", "reflect_rl", "rl"),
    ("Online learning improves on fine-tuning with reflections", "reflect_rl", "reflect_sft"),
    ("Reflections help without online learning", "reflect_sft", "sft"),
    ("A curriculum helps", "reflect_rl", "reflect_rl_flat"),
    ("Wrong ways in the texts help", "reflect_rl", "reflect_rl_positive"),
)
"""Published orderings: what is claimed, the better method, the worse one."""

_POINTS = 20
"""Of a curve: each is the mean of some iterations."""


def results(study: ReflectStudy) -> dict[str, Json]:
    """Worlds with their methods, curves and claims."""
    return {"worlds": [_world(study, world) for world in study.worlds]}


def _world(study: ReflectStudy, world: str) -> dict[str, Json]:
    keys = {method.key for method in METHODS[world]}
    return {
        "name": TITLES[world][0],
        "text": TITLES[world][1],
        "methods": [
            {
                "key": method.key,
                "name": NAMES[method.key][0],
                "description": NAMES[method.key][1],
                "seeds": [_run(study, world, method, seed) for seed in range(study.seeds)],
            }
            for method in METHODS[world]
        ],
        "orderings": [
            {"claim": claim, "better": better, "worse": worse}
            for claim, better, worse in CLAIMS
            if {better, worse} <= keys
        ],
    }


def _run(study: ReflectStudy, world: str, method: Method, seed: int) -> dict[str, Json]:
    levels = _levels(study, world, method, seed)
    # The taxi's last level is the whole task; of AutoExplore every level is a part of the questions.
    counted = levels[-1:] if world == TAXI else levels
    episodes = sum(level["episodes"] for level in counted)
    return {
        "seed": seed,
        "success": sum(level["success"] * level["episodes"] for level in counted) / episodes,
        "levels": {level["level"]: level["success"] for level in levels},
        "episodes": episodes,
        "cost": sum(level["cost"] * level["episodes"] for level in counted) / episodes,
        "curve": _curve(study, world, method, seed) if method.online else [],
    }


def _levels(study: ReflectStudy, world: str, method: Method, seed: int) -> list[dict[str, Json]]:
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


def _curve(study: ReflectStudy, world: str, method: Method, seed: int) -> list[list[float]]:
    """Episodes played and the share that succeeded: means of some iterations, so that they can be seen."""
    path = study.checkpoint(world, method, seed) / "logs.json"
    found = [float(entry["succ"]) for entry in json.loads(path.read_text())]
    size = max(1, -(-len(found) // _POINTS))
    batch = AMOUNTS[world].episodes
    chunks = [found[at : at + size] for at in range(0, len(found), size)]
    return [[batch * (at * size + len(chunk) / 2), fmean(chunk)] for at, chunk in enumerate(chunks)]


def _amounts(study: ReflectStudy, world: str) -> dict[str, Json]:
    return {
        f"{world}: updates of a policy's fine-tuning": study.updates_of(world, "policy"),
        f"{world}: of a reflection model's": study.updates_of(world, "reflection"),
        f"{world}: iterations of an online run": study.iterations_of(world),
        f"{world}: episodes of an iteration": AMOUNTS[world].episodes,
        f"{world}: online learning rate": AMOUNTS[world].online_rate,
    }


def describe(study: ReflectStudy, seconds: Mapping[str, float]) -> dict[str, Json]:
    """What the report says about a study besides its numbers."""
    return {
        "title": "Reflect-RL from nothing",
        "subtitle": (
            f"{study.seeds} seeds; a policy and a reflection model of {LAYERS} layers and width {WIDTH}, "
            "which learn from an embedded teacher, then online."
        ),
        "machine": f"{os.cpu_count()} cores, Python {platform.python_version()}, {platform.system()}",
        "settings": {
            "states of the taxi": study.records,
            "repositories": study.repositories,
            "random moves of the taxi's driver": RANDOM_SHARE,
            **{name: number for world in study.worlds for name, number in _amounts(study, world).items()},
            **{f"training: {name}": value for name, value in TRAINING.items() if name != "quiet"},
            **{f"fine-tuning: {name}": value for name, value in FINE_TUNING.items()},
            **{f"online: {name}": value for name, value in ONLINE.items()},
        },
        "seconds": _by_kind(study, seconds),
        "notes": [
            "All policies of a world are measured on the same games; nothing was learned from these.",
            "A curve follows the games that are played to learn from: where a level begins, it may fall.",
            "Seconds are added up over runs; some of them ran at the same time.",
        ],
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


def table(found: Mapping[str, Json]) -> str:
    """Success rates by method, and what the numbers say of every claim, as plain text."""
    lines = []
    for world in read_reflect_report(found).worlds:
        heads = "".join(f"{level:>10}" for level in world.levels)
        lines.append(f"{world.name:<22}{'success':>9}{heads}   seeds")
        lines += [_line(method, world.levels) for method in world.methods]
        lines += ["", *map(_claim, world.orderings), ""]
    return "\n".join(lines).rstrip()


def _line(method: reflect_data.Method, levels: Sequence[str]) -> str:
    each = " ".join(_percent(run.success) for run in method.seeds)
    by_level = "".join(f"{_percent(method.level(level)):>10}" for level in levels)
    return f"{method.name:<22}{_percent(method.success):>9}{by_level}   {each}"


def _claim(ordering: reflect_data.Ordering) -> str:
    found = ordering.lead
    if found is None:
        return f"  {ordering.claim}: not measured"
    said = f"  {ordering.claim}: {100 * found.mean:+.1f} points"
    if found.low is not None and found.high is not None:
        said += f", 95 % interval [{100 * found.low:+.1f}, {100 * found.high:+.1f}]"
    return f"{said}: {reflect_data.VERDICTS[ordering.verdict]}"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f} %"
