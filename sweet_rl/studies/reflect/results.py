"""The results of a Reflect-RL study, from the reports of evaluations and the logs of online runs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any, Final

from sweet_rl.errors import DataError
from sweet_rl.studies import results as study_results
from sweet_rl.studies.reflect import worlds
from sweet_rl.studies.reflect.recipe import LAYERS, RANDOM_SHARE, WIDTH, ReflectStudy
from sweet_rl.studies.reflect.worlds import TAXI
from sweet_rl.studies.results import Axes, Comparison, Counted, Measure, Method, Results, Run, texts_of
from sweet_rl.types import Json

TEXTS: Final = texts_of(__package__)
TITLES: Final[Mapping[str, tuple[str, str]]] = TEXTS["worlds"]
NAMES: Final[Mapping[str, tuple[str, str]]] = TEXTS["methods"]
CLAIMS: Final[list[tuple[str, str, str]]] = TEXTS["claims"]

TUNED: Final = {"sft": NAMES["sft"][0], "policy": "policy", "reflection": "reflection model"}

AXES = Axes("success", "success", "episodes played to learn from", "share", main=True)
"""Of an online run: the games that it plays to learn from."""


def results(study: ReflectStudy, seconds: Mapping[str, float]) -> Results:
    settings: dict[str, Json] = {
        "seeds": list(study.each_seed),
        "records": study.records,
        "repositories": study.repositories,
        "random moves of the taxi's driver": RANDOM_SHARE,
    }
    for world in study.worlds:
        settings[f"{world}: pointing head"] = study.amounts[world].points
        for kind, name in TUNED.items():
            tuning = study.tuning(world, kind)._asdict()
            settings |= {f"{world}, {name}: fine-tuning {what}": value for what, value in tuning.items()}
        for method in study.methods[world]:
            if method.online and not method.policy_of:
                online = study.online(world, method)._asdict()
                settings |= {
                    f"{world}, {NAMES[method.key][0]}: {what}": value for what, value in online.items()
                }
    for kind in ("training", "fine_tuning", "online"):
        given = worlds.SETTINGS[kind].items()
        settings |= {f"{kind.replace('_', '-')}: {name}": value for name, value in given if name != "quiet"}
    return Results(
        "reflect",
        "Reflect-RL from nothing",
        "Two tiny models act in a text world: one writes what it thinks of the situation, the other reads that and chooses. "
        "Both imitate a teacher; then the second learns from its own games. Does the thinking help? "
        f"{study.seeds} seed{'s' if study.seeds > 1 else ''}, {LAYERS} layers, width {WIDTH}.",
        with_claims([_world(study, world) for world in study.worlds]),
        settings=settings,
        provenance=study_results.provenance(),
        seconds=seconds,
        notes=tuple(TEXTS["notes"]),
    )


def _world(study: ReflectStudy, world: str) -> Comparison:
    methods = []
    for one in study.methods[world]:
        runs = tuple(_run(study, world, one, seed) for seed in study.each_seed)
        methods.append(Method(one.key, *NAMES[one.key], runs, bound=one.bound))
    measures = dict.fromkeys(name for method in methods for run in method.runs for name in run.measures)
    own = next(method for method in study.methods[world] if method.key == "reflect_rl")
    found = set()  # where levels of the curriculum begin, and their names; none where seeds differ in that
    for run in next(method for method in methods if method.name == own.key).runs:
        levels = _read(study, world, own, run.seed, "trainer_state.json").get("levels", {})
        begins = {at: name for name, at in levels.items()}  # of levels that begin together the last is played
        steps = [step for step, _ in run.curves["success"]]
        changes = tuple((steps[at], name) for at, name in begins.items())
        found.add(changes if len(changes) > 1 else ())
    curve = replace(AXES, changes=found.pop() if len(found) == 1 else ())
    title, text = TITLES[world]
    return Comparison(
        world,
        title,
        own=own.key,
        text=text,
        measures=tuple(Measure(name, name) for name in measures),
        curves=(curve,),
        methods=tuple(methods),
    )


def with_claims(comparisons: Sequence[Comparison]) -> tuple[Comparison, ...]:
    known = [
        study_results.claims_about(CLAIMS, {method.name: method for method in part.methods})
        for part in comparisons
    ]
    among = sum(map(len, known))
    return tuple(
        replace(
            part,
            claims=tuple(study_results.claim_over_seeds(*claim, "success", among=among) for claim in claims),
        )
        for part, claims in zip(comparisons, known, strict=True)
    )


def _run(study: ReflectStudy, world: str, method: worlds.Method, seed: int) -> Run:
    levels = _levels(study, world, method, seed)
    measures = {"success": _success(world, levels)}
    if len(levels) > 1:  # one alone is the success
        measures |= {level["level"]: Counted(level["success"], n=level["episodes"]) for level in levels}
    if not method.online or method.policy_of:
        return Run(seed, measures)
    # Of each iteration, the episodes learned from before it and the share of its own that succeeded: fewer than
    # were asked for where a pass over the tasks ended, or the world broke some.
    entries = _read(study, world, method, seed, "logs.json")
    before = accumulate((float(len(entry["log"])) for entry in entries), initial=0.0)
    curve = tuple(zip(before, (float(entry["succ"]) for entry in entries), strict=False))
    return Run(seed, measures, {"success": curve})


def success_of(study: ReflectStudy, world: str, method: worlds.Method, seed: int) -> Counted:
    return _success(world, _levels(study, world, method, seed))


def _success(world: str, levels: Sequence[Mapping[str, Json]]) -> Counted:
    """The taxi's last level is the whole task; of AutoExplore every level is a part of the questions."""
    counted = levels[-1:] if world == TAXI else levels
    episodes = sum(int(level["episodes"]) for level in counted)
    return Counted(sum(level["success"] * level["episodes"] for level in counted) / episodes, n=episodes)


def _levels(study: ReflectStudy, world: str, method: worlds.Method, seed: int) -> list[dict[str, Json]]:
    path = study.report(world, method, seed)
    levels: list[dict[str, Json]] = json.loads(path.read_text())["checkpoints"][0]["levels"]
    for level in levels:
        if level["failed"] or not level["episodes"]:
            raise DataError("must be played to the end", path=path, field=level["level"], value=level)
    return levels


def _read(study: ReflectStudy, world: str, method: worlds.Method, seed: int, name: str) -> Any:
    return json.loads((study.checkpoint(world, method, seed) / name).read_text())
