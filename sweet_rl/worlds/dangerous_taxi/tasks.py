"""Tasks of DangerousTaxi, as rows that `sweet_rl.records.task_from_row` reads.

A task is a start state and a curriculum. There are 300 start states; a fifth of them is held out, the same
ones for everybody and in every curriculum.

Published behaviour: docs/published/reflect_rl.md#dangeroustaxi.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Final

from sweet_rl.errors import UsageError
from sweet_rl.types import Json
from sweet_rl.worlds.dangerous_taxi.rules import ACTION_NAMES, START_STATES, plan, plan_to_pickup

CURRICULA: Final[dict[str, str | None]] = {
    "none": None,
    "pickup": "pickup",
    "dropoff": "dropoff",
    "full": "full",
}
"""What stands in a task source, and what in a row."""

TEST_SHARE: Final = 0.2
_SPLIT_SEED: Final = "dangerous taxi, held out"

_ERRANDS: Final = {
    None: "Bring the passenger to the destination.",
    "pickup": "Pick the passenger up.",
    "dropoff": "The passenger is in the taxi. Bring them to the destination.",
    "full": "Pick the passenger up and bring them to the destination.",
}


def taxi_tasks(where: str = "") -> list[dict[str, Json]]:
    """The tasks of a curriculum."""
    first, _, split = where.partition(":")
    if first in {"train", "test", "any"} and not split:
        first, split = "", first
    name = first or "full"
    if name not in CURRICULA or split not in {"", "train", "test", "any"}:
        raise UsageError(
            f"'taxi:{where}' is no source of tasks. Use 'taxi:CURRICULUM' or 'taxi:CURRICULUM:SPLIT', with "
            f"{', '.join(CURRICULA)} for the one and train, test or any for the other."
        )
    if split == "any":
        return [taxi_row(name)]
    return [taxi_row(name, start) for start in start_states(split)]


def drawn_tasks(name: str, count: int) -> list[dict[str, Json]]:
    """As many tasks of a curriculum, whose starts the episodes' seeds draw."""
    return [{**taxi_row(name), "task_id": f"dangerous_taxi/{name}/{number}"} for number in range(count)]


def start_states(split: str = "") -> Sequence[int]:
    """The start states of "train", "test", or all of them, in their order."""
    if not split:
        return START_STATES
    held_out = set(Random(_SPLIT_SEED).sample(START_STATES, round(TEST_SHARE * len(START_STATES))))
    return tuple(state for state in START_STATES if (state in held_out) == (split == "test"))


def taxi_row(name: str, start: int | None = None) -> dict[str, Json]:
    """One task of a curriculum, by its name in `CURRICULA`; without `start` the episode's seed draws one."""
    curriculum = CURRICULA[name]
    row: dict[str, Json] = {
        "task_id": f"dangerous_taxi/{name}/{'any' if start is None else start}",
        "problem_description": _ERRANDS[curriculum],
        "ground_truth": f"start {'any' if start is None else start}, curriculum {name}",
        "instruction": f"{_ERRANDS[curriculum]} Start: {'any' if start is None else start}.",
        "start": start,
        "curriculum": curriculum,
    }
    if start is None:
        return row
    to_pickup, whole = len(plan_to_pickup(start)), plan(start)
    way = {"pickup": whole[:to_pickup], "dropoff": whole[to_pickup:]}.get(name, whole)
    return row | {"hidden_information": ", ".join(ACTION_NAMES[action] for action in way)}
