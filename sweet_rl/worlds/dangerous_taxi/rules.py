"""The rules of Taxi-v3 as a table: 500 states, six actions, computed from the map.

A state is `((row * 5 + column) * 5 + passenger) * 4 + destination`. The passenger is at depot 0 to 3 or, as
`IN_TAXI`, with the driver; the destination is a depot.

Published behaviour: docs/published/reflect_rl.md#dangeroustaxi.
"""

from __future__ import annotations

from collections import deque
from functools import lru_cache
from typing import Final, NamedTuple

MAP: Final = (
    "+---------+",
    "|R: | : :G|",
    "| : | : : |",
    "| : : : : |",
    "| | : | : |",
    "|Y| : |B: |",
    "+---------+",
)
"""A cell is every second character; what stands between two cells is a wall `|` or a way `:`."""

SIZE: Final = 5
STATES: Final = 500
DEPOTS: Final = ((0, 0), (0, 4), (4, 0), (4, 3))
"""Row and column of R, G, Y and B."""
IN_TAXI: Final = 4

SOUTH, NORTH, EAST, WEST, PICKUP, DROPOFF = range(6)
ACTION_NAMES: Final = (
    "move south",
    "move north",
    "move east",
    "move west",
    "pickup passenger",
    "drop off passenger",
)
LABELS: Final = ("0", "1", "2", "3", "4", "5")
"""What an agent writes for each action."""

STEP_REWARD: Final = -1
DELIVERY_REWARD: Final = 20
ILLEGAL_REWARD: Final = -10


class Place(NamedTuple):
    """A state's parts: row, column, passenger, destination."""

    row: int
    column: int
    passenger: int
    destination: int


class Transition(NamedTuple):
    """What an action does in a state; `reward` is Taxi-v3's own, `done` is a delivery."""

    state: int
    reward: int
    done: bool


def encode(row: int, column: int, passenger: int, destination: int) -> int:
    """The number of a state's parts, 0 to 499."""
    return ((row * SIZE + column) * 5 + passenger) * 4 + destination


def decode(state: int) -> Place:
    """The parts of the state with this number."""
    rest, destination = divmod(state, 4)
    rest, passenger = divmod(rest, 5)
    row, column = divmod(rest, SIZE)
    return Place(row, column, passenger, destination)


def _moved(row: int, column: int, action: int) -> tuple[int, int]:
    """Where a move leads; a wall or the border leaves the taxi where it is."""
    line, here = MAP[row + 1], 2 * column + 1
    if action == SOUTH:
        return min(row + 1, SIZE - 1), column
    if action == NORTH:
        return max(row - 1, 0), column
    if action == EAST:
        return row, column + (line[here + 1] == ":")
    return row, column - (line[here - 1] == ":")


def _transition(state: int, action: int) -> Transition:
    row, column, passenger, destination = decode(state)
    here = (row, column)
    if action == PICKUP:
        if passenger != IN_TAXI and here == DEPOTS[passenger]:
            return Transition(encode(row, column, IN_TAXI, destination), STEP_REWARD, done=False)
        return Transition(state, ILLEGAL_REWARD, done=False)
    if action == DROPOFF:
        if passenger != IN_TAXI or here not in DEPOTS:
            return Transition(state, ILLEGAL_REWARD, done=False)
        depot = DEPOTS.index(here)
        done = depot == destination
        reward = DELIVERY_REWARD if done else STEP_REWARD  # a wrong depot is legal
        return Transition(encode(row, column, depot, destination), reward, done)
    row, column = _moved(row, column, action)
    return Transition(encode(row, column, passenger, destination), STEP_REWARD, done=False)


TABLE: Final[tuple[tuple[Transition, ...], ...]] = tuple(
    tuple(_transition(state, action) for action in range(len(LABELS))) for state in range(STATES)
)
"""`TABLE[state][action]`."""

START_STATES: Final[tuple[int, ...]] = tuple(
    state
    for state in range(STATES)
    if (place := decode(state)).passenger != IN_TAXI and place.passenger != place.destination
)
"""The 300 states that a game may begin in: a passenger waits, with a destination elsewhere."""


@lru_cache(maxsize=STATES)
def plan(state: int) -> tuple[int, ...]:
    """The actions from a state to the delivery; of the shortest ways the first in the actions' order."""
    came_from: dict[int, tuple[int, int]] = {}
    seen, waiting = {state}, deque([state])
    while waiting:
        here = waiting.popleft()
        for action, transition in enumerate(TABLE[here]):
            if transition.done:
                return (*_way_to(here, came_from), action)
            if transition.state not in seen:
                seen.add(transition.state)
                came_from[transition.state] = (here, action)
                waiting.append(transition.state)
    return ()  # as published; from no state of the table


def plan_to_pickup(state: int) -> tuple[int, ...]:
    """The part of `plan` after which the passenger is in the taxi; empty where that is so already."""
    actions: list[int] = []
    for action in plan(state):
        if decode(state).passenger == IN_TAXI:
            break
        actions.append(action)
        state = TABLE[state][action].state
    return tuple(actions)


def _way_to(state: int, came_from: dict[int, tuple[int, int]]) -> list[int]:
    actions: list[int] = []
    while state in came_from:
        state, action = came_from[state]
        actions.append(action)
    return actions[::-1]
