"""The solution of Lantern for all 100 points: an order of goals, and the shortest paths between them."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from sweet_rl.worlds.lantern.map import MOVABLE, Room, island

_ERRANDS = (
    ("garden", "turn windlass"),
    ("garden", "take brass key"),
    ("kitchen", "unlock cupboard"),
    ("kitchen", "take flask"),
    ("kitchen", "light lamp"),
    ("store", "fill flask"),
    ("cliff", "tie rope"),
    ("cave", "take lens"),
    ("cave", "take iron key"),
    ("yard", "unlock door"),
    ("gallery", "fit lens"),
    ("gallery", "fit wick"),
    ("gallery", "pour oil"),
    ("gallery", "light lantern"),
)
"""Room and command, once everything that lies about has been picked up."""


def solve(variant: int = 0) -> tuple[str, ...]:
    """Commands that win a variant with all 100 points; not the shortest ones."""
    land = island(variant)
    here, commands = "jetty", list[str]()
    wanted = {thing for thing in MOVABLE if thing != "chart"}

    def gather() -> None:
        for thing in sorted(wanted):
            if land.places[thing] == here:
                commands.append(f"take {thing}")
                wanted.discard(thing)

    def walk(goal: str) -> None:
        nonlocal here
        for way in _way(land.rooms, here, goal):
            commands.append(way)
            here = land.rooms[here].exits[way].to
            gather()

    gather()
    while wanted:
        nearest = min(sorted(wanted), key=lambda thing: len(_way(land.rooms, here, land.places[thing])))
        walk(land.places[nearest])
    for room, command in _ERRANDS:
        walk(room)
        commands.append(command)
    return tuple(commands)


def _way(rooms: Mapping[str, Room], start: str, goal: str) -> tuple[str, ...]:
    """The shortest way, whatever bars it; errands are in an order in which nothing does."""
    ways: dict[str, tuple[str, ...]] = {start: ()}
    edge = deque([start])
    while goal not in ways:
        room = edge.popleft()
        for way, leads in rooms[room].exits.items():
            if leads.to not in ways:
                ways[leads.to] = (*ways[room], way)
                edge.append(leads.to)
    return ways[goal]
