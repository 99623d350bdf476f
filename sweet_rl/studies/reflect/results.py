"""The results of a Reflect-RL study, as the report page and the table use them.

Reads the reports of evaluations and the logs of online runs, and nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any, Final

from sweet_rl.errors import DataError
from sweet_rl.studies.reflect import worlds
from sweet_rl.studies.reflect.recipe import (
    FINE_TUNING,
    LAYERS,
    ONLINE,
    RANDOM_SHARE,
    TRAINING,
    WIDTH,
    ReflectStudy,
)
from sweet_rl.studies.reflect.worlds import TAXI
from sweet_rl.studies.results import (
    Axes,
    Comparison,
    Counted,
    Measure,
    Method,
    Points,
    Results,
    Run,
    claims_about,
    claims_over_seeds,
    provenance,
    texts_of,
)
from sweet_rl.types import Json

TEXTS: Final = texts_of(__package__)
TITLES: Final = {name: (title, text) for name, (title, text) in TEXTS["worlds"].items()}
"""Every world's name, and what is played in it."""

NAMES: Final = {name: (title, text) for name, (title, text) in TEXTS["methods"].items()}
"""Every method's name, and what it is, in one sentence."""

CLAIMS: Final = [(text, better, worse) for text, better, worse in TEXTS["claims"]]
"""What is claimed, the better method, the worse one; the published orderings, and what else thoughts may be worth."""

AXES = Axes("success", "success", "episodes played to learn from", "share", main=True)
"""Of an online run: the games that it plays to learn from."""


def results(study: ReflectStudy, seconds: Mapping[str, float]) -> Results:
    """Worlds with their methods, curves and claims."""
    return Results(
        "reflect",
        "Reflect-RL from nothing",
        f"{study.seeds} seed{'s' if study.seeds > 1 else ''}; a policy and a reflection model of {LAYERS} layers and width {WIDTH}, "
        "which learn from an embedded teacher, then online.",
        with_claims([_world(study, world) for world in study.worlds]),
        settings=_settings(study),
        provenance=provenance(),
        seconds=_by_kind(study, seconds),
        notes=(
            "All policies of a seed are measured on the same games. Nothing was learned from these repositories and households; the taxi's games are drawn anew, from the same 300 starts.",
            "Each seed has texts, models and test games of its own: an interval over seeds is one over tasks, too.",
            "A curve follows the games that are played to learn from, a point an iteration: it may fall with a level.",
            "Seconds are added up over runs; some of them ran at the same time.",
        ),
    )


def _world(study: ReflectStudy, world: str) -> Comparison:
    methods = {method.key: _method(study, world, method) for method in study.methods[world]}
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
        curves=(replace(AXES, changes=_changes(study, world, methods["reflect_rl"].runs)),),
        methods=tuple(methods.values()),
    )


def with_claims(comparisons: Sequence[Comparison]) -> tuple[Comparison, ...]:
    """The comparisons with what their numbers say of the claims, corrected for those of all."""
    methods = [{method.name: method for method in part.methods} for part in comparisons]
    known = [claims_about(CLAIMS, there) for there in methods]
    among = sum(map(len, known))
    return tuple(
        replace(part, claims=claims_over_seeds(claims, there, "success", among=among))
        for part, there, claims in zip(comparisons, methods, known, strict=True)
    )


def _method(study: ReflectStudy, world: str, method: worlds.Method) -> Method:
    runs = tuple(_run(study, world, method, seed) for seed in study.each_seed)
    return Method(method.key, *NAMES[method.key], runs, bound=method.bound)


def _run(study: ReflectStudy, world: str, method: worlds.Method, seed: int) -> Run:
    levels = _levels(study, world, method, seed)
    several = levels if len(levels) > 1 else []  # one alone is the success
    return Run(
        seed,
        {"success": _success(world, levels)}
        | {level["level"]: Counted(level["success"], n=level["episodes"]) for level in several},
        {"success": _curve(study, world, method, seed)} if method.online and not method.policy_of else {},
    )


def success_of(study: ReflectStudy, world: str, method: worlds.Method, seed: int) -> Counted:
    """The success of the policy that a method made, in the whole task."""
    return _success(world, _levels(study, world, method, seed))


def _success(world: str, levels: Sequence[Mapping[str, Json]]) -> Counted:
    """The taxi's last level is the whole task; of AutoExplore every level is a part of the questions."""
    counted = levels[-1:] if world == TAXI else levels
    episodes = sum(int(level["episodes"]) for level in counted)
    return Counted(sum(level["success"] * level["episodes"] for level in counted) / episodes, n=episodes)


def _levels(study: ReflectStudy, world: str, method: worlds.Method, seed: int) -> list[dict[str, Json]]:
    """The levels of one evaluation."""
    path = study.report(world, method, seed)
    levels: list[dict[str, Json]] = json.loads(path.read_text())["checkpoints"][0]["levels"]
    for level in levels:
        if level["failed"] or not level["episodes"]:
            raise DataError("must be played to the end", path=path, field=level["level"], value=level)
    return levels


def _curve(study: ReflectStudy, world: str, method: worlds.Method, seed: int) -> Points:
    """Of each iteration, the episodes learned from before it and the share of its own that succeeded.

    Fewer than were asked for where a pass over the tasks ended, or the world broke some.
    """
    entries = _read(study, world, method, seed, "logs.json")
    before = accumulate((float(len(entry["log"])) for entry in entries), initial=0.0)
    return tuple(zip(before, (float(entry["succ"]) for entry in entries), strict=False))


def _changes(study: ReflectStudy, world: str, runs: Sequence[Run]) -> tuple[tuple[float, str], ...]:
    """Where levels of the curriculum begin, and their names; none where they begin elsewhere for another seed."""
    (own,) = (method for method in study.methods[world] if method.key == "reflect_rl")
    found = set()
    for run in runs:
        levels = _read(study, world, own, run.seed, "trainer_state.json").get("levels", {})
        begins = {at: name for name, at in levels.items()}  # of levels that begin together the last is played
        steps = [step for step, _ in run.curves["success"]]
        changes = tuple((steps[at], name) for at, name in begins.items())
        found.add(changes if len(changes) > 1 else ())
    return found.pop() if len(found) == 1 else ()


def _read(study: ReflectStudy, world: str, method: worlds.Method, seed: int, name: str) -> Any:
    return json.loads((study.checkpoint(world, method, seed) / name).read_text())


def _amounts(study: ReflectStudy, world: str) -> dict[str, Json]:
    found: dict[str, Json] = {f"{world}: pointing head": study.amounts[world].points}
    for kind in ("sft", "policy", "reflection"):
        found[f"{world}, fine-tuning of {kind}: updates, rate"] = list(study.tuning(world, kind))
    for method in study.methods[world]:
        if method.online and not method.policy_of:
            found[f"{world}, {method.key}: iterations, episodes, rate"] = list(study.online(world, method))
    return found


def _settings(study: ReflectStudy) -> dict[str, Json]:
    return {
        "seeds": list(study.each_seed),
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
    places = [(world, seed) for world in study.worlds for seed in study.each_seed]
    kinds: dict[str, set[str]] = {
        "models": {base(*place).name for place in places for base in (study.base, study.reflecting_base)}
    }
    for world, seed in places:
        title = TITLES[world][0]
        for method in study.methods[world]:
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
