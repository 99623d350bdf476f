"""The shortest way to the delivery, by breadth-first search over the table.

Published behaviour: docs/published/reflect_rl.md#dangeroustaxi.
"""

from __future__ import annotations

from collections import deque
from functools import lru_cache

from sweet_rl.worlds.dangerous_taxi.rules import IN_TAXI, STATES, TABLE, decode


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
