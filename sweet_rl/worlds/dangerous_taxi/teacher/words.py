"""The embedded teacher's thoughts in the taxi: positions, what happened, the next step.

It knows the shortest way. Short sentences, varied by draws; the best action is named and given a reason.

Published behaviour: docs/published/reflect_rl.md#data-of-recorded-states, #deviations.
"""

from __future__ import annotations

import random
from typing import Final

from sweet_rl.types import Compat
from sweet_rl.worlds.dangerous_taxi.planner import plan
from sweet_rl.worlds.dangerous_taxi.rules import ACTION_NAMES, DEPOTS, DROPOFF, IN_TAXI, PICKUP, decode

_MOVES: Final = ((1, 0), (-1, 0), (0, 1), (0, -1))
"""Rows and columns that south, north, east and west lead on."""


def thought(before: int | None, action: int | None, state: int, draws: random.Random) -> str:
    """The text about a state."""
    parts = [] if before is None or action is None else [_verdict(before, action, state, draws)]
    return " ".join([*parts, _where(state, draws), _next(state, draws)])


def hint_of(best: int | None, *, compat: Compat = "fixed") -> str:
    """A hint for the teacher that its text must not repeat."""
    if best is None or (compat == "published" and best == 0):
        return "The game is over."
    return f"The best next action is: {ACTION_NAMES[best]}."


def _where(state: int, draws: random.Random) -> str:
    place = decode(state)
    goal = _cell(*DEPOTS[place.destination])
    taxi = _cell(place.row, place.column)
    if place.passenger == IN_TAXI:
        return draws.choice(
            (
                f"The passenger is in the taxi at {taxi} and wants to go to {goal}.",
                f"The taxi at {taxi} has the passenger, the destination is {goal}.",
                f"We are at {taxi} with the passenger and must get to {goal}.",
            )
        )
    waiting = _cell(*DEPOTS[place.passenger])
    return draws.choice(
        (
            f"The taxi is at {taxi}, the passenger waits at {waiting}.",
            f"The passenger waits at {waiting} and the taxi is at {taxi}.",
            f"We are at {taxi} and must fetch the passenger at {waiting}.",
        )
    )


def _verdict(before: int, action: int, state: int, draws: random.Random) -> str:
    name = ACTION_NAMES[action]
    if state == before:
        return draws.choice((f"To {name} changed nothing, a mistake.", f"Bad: {name} had no effect."))
    if action == PICKUP:
        return draws.choice(("Good, the passenger is in now.", "The pickup worked."))
    if action == DROPOFF:
        return draws.choice(("The passenger got out at a wrong place.", "Bad: that was not the destination."))
    if len(plan(state)) < len(plan(before)):
        return draws.choice((f"Good, {name} brought us nearer.", f"To {name} was a good step."))
    return draws.choice((f"Bad, {name} led us away.", f"To {name} was a detour."))


def _next(state: int, draws: random.Random) -> str:
    way = plan(state)
    if not way:
        return "Nothing is left to do."
    name, why = ACTION_NAMES[way[0]], _reason(state, way[0])
    return draws.choice((f"Next {name}, {why}.", f"Now {name}, {why}.", f"Best to {name} next, {why}."))


def _reason(state: int, action: int) -> str:
    place = decode(state)
    if action == PICKUP:
        return "because the passenger waits right here"
    if action == DROPOFF:
        return "because this is the destination"
    riding = place.passenger == IN_TAXI
    row, column = DEPOTS[place.destination if riding else place.passenger]
    down, right = _MOVES[action]
    nearer = down * (row - place.row) > 0 or right * (column - place.column) > 0
    goal = "destination" if riding else "passenger"
    return f"towards the {goal}" if nearer else f"around the wall to the {goal}"


def _cell(row: int, column: int) -> str:
    return f"row {row} column {column}"
