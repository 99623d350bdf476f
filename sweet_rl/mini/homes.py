"""Household games of our own in ALFWorld's format: a goal and a home, both from the game's name alone.

A name is ALFWorld's, `FAMILY-THING-None-PLACE-NUMBER`; the number stands for a home. Every game can be solved, and
`Game.way` holds a solution. Nothing here needs the package.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

from sweet_rl.errors import UsageError
from sweet_rl.types import Json, derive_seed

_CATALOGUE: Final[dict[str, Any]] = tomllib.loads(
    files("sweet_rl.mini").joinpath("homes.toml").read_text("utf-8")
)
ROOMS: Final[Mapping[str, Mapping[str, tuple[int, int]]]] = _CATALOGUE["rooms"]
"""How many receptacles of a kind a room has: fewest and most."""
THINGS: Final[Mapping[str, list[str]]] = _CATALOGUE["things"]
FITS: Final[Mapping[str, list[str]]] = _CATALOGUE["fits"]
OPENABLE: Final[list[str]] = _CATALOGUE["openable"]
LAMP: Final = "DeskLamp"

BEGINS: Final[Mapping[str, frozenset[str]]] = {
    thing: frozenset(places) - frozenset(_CATALOGUE["never_at_first"])
    for thing, places in (*FITS.items(), (LAMP, ["Desk", "SideTable"]))
}
"""Where a thing may lie before the game begins, the lamp included."""


class Family(NamedTuple):
    """A family of tasks: what is asked for; the command that treats the thing, with what, and the state it is in then."""

    sentence: str
    verb: str = ""
    tool: str = ""
    state: str = ""


LOOK: Final = "look_at_obj_in_light"
FAMILIES: Final = {name: Family(**given) for name, given in _CATALOGUE["families"].items()}
_GOALS: Final[list[str]] = _CATALOGUE["goals"]


def embedded_games(split: str = "", containing: str = "", homes: range | None = None) -> tuple[str, ...]:
    """Names of the 100 embedded games; `homes` are the numbers of each goal's homes. Every fifth home is held out."""
    return tuple(
        f"{goal}-{home}"
        for goal in _GOALS
        for home in homes or range(20 if goal == _GOALS[0] else 5)
        if containing in f"{goal}-{home}" and (not split or (home % 5 == 4) == (split == "test"))
    )


class Entity(NamedTuple):
    kind: str
    number: int

    @property
    def id(self) -> str:
        if self.kind == "SinkBasin":
            return f"Sink_bar_{self.number:02d}_bar_SinkBasin"
        return f"{self.kind}_bar_{self.number:02d}"


@dataclass(frozen=True, slots=True)
class Game:
    """One game: its receptacles (`places`), and where each thing lies at first, a bedroom's lamp included."""

    name: str
    family: str
    thing: str
    place: str
    room: str
    places: tuple[Entity, ...]
    lying: tuple[tuple[Entity, Entity], ...]

    @property
    def sentence(self) -> str:
        return FAMILIES[self.family].sentence.format(thing=self.thing.lower(), place=self.place.lower())

    def called(self, entity: Entity) -> str:
        """What the engine calls it: it counts the entities of a kind from behind."""
        everything = (*self.places, *(thing for thing, _ in self.lying))
        many = sum(other.kind == entity.kind for other in everything)
        return f"{entity.kind.lower()} {many - entity.number + 1}"

    def way(self) -> tuple[str, ...]:
        ways = [self._way_with(thing, lies) for thing, lies in self.lying if thing.kind == self.thing]
        return min(ways, key=len)

    def _way_with(self, thing: Entity, lies: Entity) -> tuple[str, ...]:
        way: list[str] = []
        here: Entity | None = None

        def go_to(place: Entity, *, opening: bool = True) -> str:
            nonlocal here
            name = self.called(place)
            way.extend([f"go to {name}"] * (place != here))
            if opening and place.kind in OPENABLE and f"open {name}" not in way:
                way.append(f"open {name}")
            here = place
            return name

        name, there = self.called(thing), go_to(lies)
        way.append(f"take {name} from {there}")
        if self.family == LOOK:
            lamp, stands = next((what, on) for what, on in self.lying if what.kind == LAMP)
            go_to(stands, opening=False)
            return (*way, f"use {self.called(lamp)}")
        _, verb, kind, _ = FAMILIES[self.family]
        if verb:
            tool = go_to(next(place for place in self.places if place.kind == kind), opening=False)
            way.append(f"{verb} {name} with {tool}")
        goals = [place for place in self.places if place.kind == self.place]
        there = go_to(here if here in goals else goals[0])
        return (*way, f"move {name} to {there}")


@cache
def game(name: str) -> Game:
    """The game of a name; the same for everybody, always."""
    family, thing, place = _read(name)
    room = next(room for room, things in THINGS.items() if thing in things)
    draw = Random(derive_seed("household", name))
    places = tuple(
        Entity(kind, number)
        for kind, (fewest, most) in ROOMS[room].items()
        for number in range(1, max(fewest, draw.randint(fewest, most), kind == place) + 1)
    )
    lying = list[tuple[Entity, Entity]]()
    kinds = [thing] * (1 + (draw.random() < 0.3))
    kinds += draw.sample([kind for kind in THINGS[room] if kind != thing], min(6, len(THINGS[room]) - 1))
    for kind in kinds:
        number = 1 + sum(other.kind == kind for other, _ in lying)
        begins = [on for on in places if on.kind in BEGINS[kind] and (kind, on.kind) != (thing, place)]
        lying.append((Entity(kind, number), draw.choice(begins)))
    if room == "bedroom":
        lying.append((Entity(LAMP, 1), draw.choice([on for on in places if on.kind in BEGINS[LAMP]])))
    return Game(name, family, thing, place, room, places, tuple(lying))


def _read(name: str) -> tuple[str, str, str]:
    family, thing, *rest = (*name.split("-"), "", "", "", "")[:5]
    none, place, number = rest
    if family not in FAMILIES or none != "None" or not number.isdecimal() or name.count("-") != 4:
        raise UsageError(
            f"{name!r} is no household game. Names are FAMILY-THING-None-PLACE-NUMBER, with one of the "
            f"families {', '.join(FAMILIES)}."
        )
    _, verb, tool, _ = FAMILIES[family]
    rooms = [room for room, things in THINGS.items() if thing in things]
    if family == LOOK:
        fits = place == LAMP and rooms == ["bedroom"]
    else:
        furniture = {kind for room in rooms for kind in ROOMS[room]}
        treatable = not verb or (thing in _CATALOGUE[f"{verb}able"] and tool in furniture)
        fits = place in FITS.get(thing, ()) and place in furniture and treatable
    if not fits:
        raise UsageError(f"{name!r} is no household game: {thing!r} and {place!r} do not go with {family}.")
    return family, thing, place


def problem(game: Game) -> str:
    """The PDDL problem (`initial_state.pddl`), the metric behind the goal: no other order parses."""
    objects = dict.fromkeys(_objects(game))
    if game.family == LOOK:
        goal = (
            "(and"
            " (exists (?t - object ?r - receptacle ?a - agent ?l - location)"
            f" (and (objectType ?t {LAMP}Type) (isToggled ?t) (inReceptacle ?t ?r)"
            " (receptacleAtLocation ?r ?l) (atLocation ?a ?l)))"
            f" (exists (?o - object ?a - agent) (and (objectType ?o {game.thing}Type) (holds ?a ?o))))"
        )
    else:
        goal = (
            "(exists (?r - receptacle ?o - object) (and"
            f" (objectType ?o {game.thing}Type) (receptacleType ?r {game.place}Type)"
            f" {FAMILIES[game.family].state} (inReceptacle ?o ?r)))"
        )
    lines = (
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
        f"  (:goal {goal})",
        "  (:metric minimize (total-cost))",
        ")",
    )
    return "\n".join(lines) + "\n"


def _objects(game: Game) -> Iterator[str]:
    yield "agent1 - agent"
    yield "loc_0 - location"
    for number, place in enumerate(game.places, start=1):
        yield from (f"loc_{number} - location", f"{place.id} - receptacle", f"{place.kind}Type - rtype")
    for thing, _ in game.lying:
        yield from (f"{thing.id} - object", f"{thing.kind}Type - otype")
    # the domain's actions speak of these, so every problem has to know them
    yield from ("SinkBasinType - rtype", "MicrowaveType - rtype", "FridgeType - rtype")
    yield from ("KnifeType - otype", "ButterKnifeType - otype")


def _facts(game: Game) -> Iterator[str]:
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
        yield f"({'toggleable' if thing.kind == LAMP else 'pickupable'} {thing.id})"
        for name in ("heatable", "coolable", "cleanable"):
            if thing.kind in _CATALOGUE[name]:
                yield f"({name} {thing.id})"
    there = {place.kind for place in game.places}
    for kind in dict.fromkeys(thing.kind for thing, _ in game.lying):
        for place_kind in FITS.get(kind, ()):
            if place_kind in there:
                yield f"(canContain {place_kind}Type {kind}Type)"


def trajectory_data(game: Game) -> dict[str, Json]:
    """What `traj_data.json` says that the text engine reads."""
    parent, toggle = ("", game.place) if game.family == LOOK else (game.place, "")
    wanted = {"object_target": game.thing, "parent_target": parent, "toggle_target": toggle}
    return {
        "task_id": game.name,
        "task_type": game.family,
        "pddl_params": {**wanted, "mrecep_target": "", "object_sliced": False},
        "turk_annotations": {"anns": [{"task_desc": game.sentence}]},
    }


def write_game(game: Game, folder: Path) -> Path:
    """Write a game as ALFWorld's data folder has it: `folder/NAME/trial_0/`."""
    place = folder / game.name / "trial_0"
    place.mkdir(parents=True, exist_ok=True)
    (place / "initial_state.pddl").write_text(problem(game), encoding="utf-8")
    (place / "traj_data.json").write_text(json.dumps(trajectory_data(game), indent=1), encoding="utf-8")
    return place
