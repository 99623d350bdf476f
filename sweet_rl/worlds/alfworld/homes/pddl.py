"""A household game in ALFWorld's format: the PDDL problem of its domain, and its trajectory data.

Written for the package's own `alfred.pddl` and `alfred.twl2`. Nothing here needs the package.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from sweet_rl.types import Json
from sweet_rl.worlds.alfworld.homes.catalogue import CLEANABLE, COOLABLE, FITS, HEATABLE, LAMP, OPENABLE
from sweet_rl.worlds.alfworld.homes.homes import Entity, Game

_STATE: Final = {
    "pick_clean_then_place_in_recep": "(isClean ?o)",
    "pick_heat_then_place_in_recep": "(isHot ?o)",
    "pick_cool_then_place_in_recep": "(isCool ?o)",
}
_NAMED_BY_THE_DOMAIN: Final = (
    *("SinkBasinType - rtype", "MicrowaveType - rtype", "FridgeType - rtype"),
    *("KnifeType - otype", "ButterKnifeType - otype"),
)
"""Its actions speak of them, so every problem has to know them."""


def problem(game: Game) -> str:
    """The PDDL problem (`initial_state.pddl`), the metric behind the goal: no other order parses."""
    objects = dict.fromkeys((*_objects(game), *_NAMED_BY_THE_DOMAIN))
    return "\n".join(
        (
            f"(define (problem plan_{game.name.replace('-', '_')})",
            "  (:domain alfred)",
            "  (:objects",
            *(f"    {line}" for line in objects),
            "  )",
            "  (:init",
            "    (= (total-cost) 0)",
            "    (atLocation agent1 loc_0)",
            *(f"    {line}" for line in _facts(game)),
            "  )",
            f"  (:goal {_goal(game)})",
            "  (:metric minimize (total-cost))",
            ")",
            "",
        )
    )


def trajectory_data(game: Game) -> dict[str, Json]:
    """What `traj_data.json` says that the text engine reads."""
    light = game.family == "look_at_obj_in_light"
    return {
        "task_id": game.name,
        "task_type": game.family,
        "pddl_params": {
            "object_target": game.thing,
            "parent_target": "" if light else game.place,
            "toggle_target": game.place if light else "",
            "mrecep_target": "",
            "object_sliced": False,
        },
        "turk_annotations": {"anns": [{"task_desc": game.sentence}]},
    }


def write_game(game: Game, folder: Path) -> Path:
    """Write a game as ALFWorld's data folder has it: `folder/NAME/trial_0/`."""
    place = folder / game.name / "trial_0"
    place.mkdir(parents=True, exist_ok=True)
    (place / "initial_state.pddl").write_text(problem(game), encoding="utf-8")
    (place / "traj_data.json").write_text(json.dumps(trajectory_data(game), indent=1), encoding="utf-8")
    return place


def _objects(game: Game) -> Iterator[str]:
    yield "agent1 - agent"
    yield "loc_0 - location"
    for number, place in enumerate(game.places, start=1):
        yield f"loc_{number} - location"
        yield f"{place.id} - receptacle"
        yield f"{place.kind}Type - rtype"
    for thing, _ in game.lying:
        yield f"{thing.id} - object"
        yield f"{thing.kind}Type - otype"


def _facts(game: Game) -> Iterator[str]:
    """What is true at first: where things are, and what can be done to them."""
    location = {place: f"loc_{number}" for number, place in enumerate(game.places, start=1)}
    for place in game.places:
        yield f"(receptacleType {place.id} {place.kind}Type)"
        yield f"(receptacleAtLocation {place.id} {location[place]})"
        if place.kind in OPENABLE:
            yield f"(openable {place.id})"
    for thing, place in game.lying:
        yield f"(objectType {thing.id} {thing.kind}Type)"
        yield f"(inReceptacle {thing.id} {place.id})"
        yield f"(objectAtLocation {thing.id} {location[place]})"
        yield from _properties(thing)
    there = {place.kind for place in game.places}
    for kind in dict.fromkeys(thing.kind for thing, _ in game.lying):
        for place_kind in FITS.get(kind, ()):
            if place_kind in there:
                yield f"(canContain {place_kind}Type {kind}Type)"


def _properties(thing: Entity) -> Iterator[str]:
    if thing.kind == LAMP:
        yield f"(toggleable {thing.id})"
        return
    yield f"(pickupable {thing.id})"
    for name, kinds in (("heatable", HEATABLE), ("coolable", COOLABLE), ("cleanable", CLEANABLE)):
        if thing.kind in kinds:
            yield f"({name} {thing.id})"


def _goal(game: Game) -> str:
    if game.family == "look_at_obj_in_light":
        return (
            "(and"
            " (exists (?t - object ?r - receptacle ?a - agent ?l - location)"
            f" (and (objectType ?t {LAMP}Type) (isToggled ?t) (inReceptacle ?t ?r)"
            " (receptacleAtLocation ?r ?l) (atLocation ?a ?l)))"
            f" (exists (?o - object ?a - agent) (and (objectType ?o {game.thing}Type) (holds ?a ?o))))"
        )
    return (
        "(exists (?r - receptacle ?o - object) (and"
        f" (objectType ?o {game.thing}Type) (receptacleType ?r {game.place}Type)"
        f" {_STATE.get(game.family, '')} (inReceptacle ?o ?r)))"
    )
