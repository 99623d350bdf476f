"""Generated household games: a goal and a home, both from the game's name alone.

A name is ALFWorld's for a problem, `FAMILY-THING-None-PLACE-NUMBER`; the number stands for a home. Every game
can be solved, and `Game.way` holds a solution: a test holds the way to the real engine and its planner.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Final, NamedTuple

from sweet_rl.errors import UsageError
from sweet_rl.types import derive_seed
from sweet_rl.worlds.alfworld.homes.catalogue import (
    BEGINS,
    CLEANABLE,
    COOLABLE,
    FITS,
    HEATABLE,
    LAMP,
    OPENABLE,
    ROOMS,
    THINGS,
)

FAMILIES: Final = (
    "pick_and_place_simple",
    "pick_clean_then_place_in_recep",
    "pick_heat_then_place_in_recep",
    "pick_cool_then_place_in_recep",
    "look_at_obj_in_light",
)
"""ALFWorld's names of tasks."""

SENTENCES: Final = {
    "pick_and_place_simple": "put some {thing} in {place}",
    "pick_clean_then_place_in_recep": "clean some {thing} and put it in {place}",
    "pick_heat_then_place_in_recep": "heat some {thing} and put it in {place}",
    "pick_cool_then_place_in_recep": "cool some {thing} and put it in {place}",
    "look_at_obj_in_light": "look at {thing} under the {place}",
}
"""What is asked for."""

_TREATMENT: Final = {
    "pick_clean_then_place_in_recep": ("clean", "SinkBasin", CLEANABLE),
    "pick_heat_then_place_in_recep": ("heat", "Microwave", HEATABLE),
    "pick_cool_then_place_in_recep": ("cool", "Fridge", COOLABLE),
}
_MANY_THINGS: Final = 6
_TWO_OF_A_KIND: Final = 0.3


class Entity(NamedTuple):
    """A receptacle or a thing: its kind, and its place in the order of its kind (from 1)."""

    kind: str
    number: int

    @property
    def id(self) -> str:
        """Its name in the problem; the engine makes a readable one of it."""
        if self.kind == "SinkBasin":
            return f"Sink_bar_{self.number:02d}_bar_SinkBasin"
        return f"{self.kind}_bar_{self.number:02d}"


@dataclass(frozen=True, slots=True)
class Game:
    """One game.

    `places` are the receptacles; `lying` says where each thing is at first, a bedroom's lamp included.
    """

    name: str
    family: str
    thing: str
    place: str
    room: str
    places: tuple[Entity, ...]
    lying: tuple[tuple[Entity, Entity], ...]

    @property
    def sentence(self) -> str:
        """The goal as a sentence of the game."""
        return SENTENCES[self.family].format(thing=self.thing.lower(), place=self.place.lower())

    def called(self, entity: Entity) -> str:
        """What the engine calls it: it counts the entities of a kind from behind."""
        everything = (*self.places, *(thing for thing, _ in self.lying))
        many = sum(other.kind == entity.kind for other in everything)
        return f"{entity.kind.lower()} {many - entity.number + 1}"

    def way(self) -> tuple[str, ...]:
        """Commands that solve it, by a player who knows where everything is."""
        ways = [self._way_with(thing, lies) for thing, lies in self.lying if thing.kind == self.thing]
        return min(ways, key=len)

    def _way_with(self, thing: Entity, lies: Entity) -> tuple[str, ...]:
        name, there = self.called(thing), self.called(lies)
        way = [f"go to {there}", *self._open(lies), f"take {name} from {there}"]
        if self.family == "look_at_obj_in_light":
            lamp, stands = next((what, on) for what, on in self.lying if what.kind == LAMP)
            if stands != lies:
                way.append(f"go to {self.called(stands)}")
            return (*way, f"use {self.called(lamp)}")
        if self.family in _TREATMENT:
            verb, kind, _ = _TREATMENT[self.family]
            tool = next(place for place in self.places if place.kind == kind)
            if tool != lies:
                way.append(f"go to {self.called(tool)}")
            way.append(f"{verb} {name} with {self.called(tool)}")
            lies = tool
        goals = [place for place in self.places if place.kind == self.place]
        goal = lies if lies in goals else goals[0]
        if goal != lies:
            way += [f"go to {self.called(goal)}", *self._open(goal)]
        elif f"open {self.called(goal)}" not in way:
            way += self._open(goal)
        return (*way, f"move {name} to {self.called(goal)}")

    def _open(self, place: Entity) -> list[str]:
        return [f"open {self.called(place)}"] if place.kind in OPENABLE else []


@cache
def game(name: str) -> Game:
    """The game of a name; the same for everybody, always."""
    family, thing, place = _read(name)
    room = next(room for room, things in THINGS.items() if thing in things)
    draw = Random(derive_seed("household", name))
    places = tuple(
        Entity(kind, number)
        for kind, fewest, most in ROOMS[room]
        for number in range(1, max(fewest, draw.randint(fewest, most), kind == place) + 1)
    )
    lying = list[tuple[Entity, Entity]]()
    kinds = [thing] * (1 + (draw.random() < _TWO_OF_A_KIND))
    kinds += draw.sample(
        [kind for kind in THINGS[room] if kind != thing], min(_MANY_THINGS, len(THINGS[room]) - 1)
    )
    for kind in kinds:
        number = 1 + sum(other.kind == kind for other, _ in lying)
        lying.append((Entity(kind, number), draw.choice(_beginnings(kind, places, thing, place))))
    if room == "bedroom":
        lying.append((Entity(LAMP, 1), draw.choice([on for on in places if on.kind in BEGINS[LAMP]])))
    return Game(name, family, thing, place, room, places, tuple(lying))


def _beginnings(kind: str, places: Sequence[Entity], thing: str, goal: str) -> list[Entity]:
    """Where a thing may lie at first: never where it is to be brought."""
    return [
        place for place in places if place.kind in BEGINS[kind] and not (kind == thing and place.kind == goal)
    ]


def _read(name: str) -> tuple[str, str, str]:
    """Family, thing and place of a name."""
    family, thing, *rest = (*name.split("-"), "", "", "", "")[:5]
    none, place, number = rest
    if family not in FAMILIES or none != "None" or not number.isdecimal() or name.count("-") != 4:
        raise UsageError(
            f"{name!r} is no household game. Names are FAMILY-THING-None-PLACE-NUMBER, with one of the "
            f"families {', '.join(FAMILIES)}."
        )
    treated = _TREATMENT.get(family)
    known = thing in FITS and (treated is None or thing in treated[2])
    fits = place == LAMP if family == "look_at_obj_in_light" else place in FITS.get(thing, ())
    rooms = [room for room, things in THINGS.items() if thing in things]
    if fits and known and family == "look_at_obj_in_light":
        known = rooms == ["bedroom"]
    elif fits and known:
        there = {furniture.kind for room in rooms for furniture in ROOMS[room]}
        fits = place in there and (treated is None or treated[1] in there)
    if not known or not fits:
        raise UsageError(f"{name!r} is no household game: {thing!r} and {place!r} do not go with {family}.")
    return family, thing, place
