"""Tasks of DangerousTaxi, each a start state and a curriculum, and who drives without a model. A fifth of
300 states is held out.

Published behaviour: docs/published/reflect_rl.md#dangeroustaxi, #data-of-recorded-states.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Final

from sweet_rl.errors import UsageError
from sweet_rl.policies.scripted import ScriptedPolicy, skill_of
from sweet_rl.types import Json, Observation, derive_seed
from sweet_rl.worlds.dangerous_taxi.game import (
    ACTION_NAMES,
    DEPOTS,
    DROPOFF,
    IN_TAXI,
    LABELS,
    PICKUP,
    START_STATES,
    decode,
    plan,
    plan_to_pickup,
    read_state,
)

TEST_SHARE: Final = 0.2

_ERRANDS: Final = {
    "none": "Bring the passenger to the destination.",
    "pickup": "Pick the passenger up.",
    "dropoff": "The passenger is in the taxi. Bring them to the destination.",
    "full": "Pick the passenger up and bring them to the destination.",
}
"""What is asked for in each curriculum, by its name in a task source."""


def taxi_tasks(where: str = "") -> list[dict[str, Json]]:
    """The tasks of a curriculum."""
    first, _, split = where.partition(":")
    if first in {"train", "test", "any"} and not split:
        first, split = "", first
    name = first or "full"
    if name not in _ERRANDS or split not in {"", "train", "test", "any"}:
        raise UsageError(
            f"'taxi:{where}' is no source of tasks. Use 'taxi:CURRICULUM' or 'taxi:CURRICULUM:SPLIT', with "
            f"{', '.join(_ERRANDS)} for the one and train, test or any for the other."
        )
    return [taxi_row(name)] if split == "any" else [taxi_row(name, start) for start in start_states(split)]


def drawn_tasks(name: str, count: int) -> list[dict[str, Json]]:
    """As many tasks of a curriculum, whose starts the episodes' seeds draw."""
    return [{**taxi_row(name), "task_id": f"dangerous_taxi/{name}/{number}"} for number in range(count)]


def start_states(split: str = "") -> Sequence[int]:
    """The start states of "train", "test", or all of them, in their order."""
    if not split:
        return START_STATES
    draws = Random("dangerous taxi, held out")
    held_out = set(draws.sample(START_STATES, round(TEST_SHARE * len(START_STATES))))
    return tuple(state for state in START_STATES if (state in held_out) == (split == "test"))


def taxi_row(name: str, start: int | None = None) -> dict[str, Json]:
    """One task of a curriculum, by its name in a task source; without `start` the episode's seed draws one."""
    begins = "any" if start is None else start
    row: dict[str, Json] = {
        "task_id": f"dangerous_taxi/{name}/{begins}",
        "problem_description": _ERRANDS[name],
        "ground_truth": f"start {begins}, curriculum {name}",
        "instruction": f"{_ERRANDS[name]} Start: {begins}.",
        "start": start,
        "curriculum": None if name == "none" else name,
    }
    if start is None:
        return row
    to_pickup, whole = len(plan_to_pickup(start)), plan(start)
    way = {"pickup": whole[:to_pickup], "dropoff": whole[to_pickup:]}.get(name, whole)
    return row | {"hidden_information": ", ".join(ACTION_NAMES[action] for action in way)}


class TaxiDriver(ScriptedPolicy):
    """Reads the last picture; with probability `skill` takes the oracle's next step, else any, drawn by the
    seed."""

    def __init__(self, name: str = "planner", *, skill: float | None = None, system_prompt: str = "") -> None:
        super().__init__(system_prompt)
        self.name = name
        skills = {
            "planner": 1.0,
            "careless": 0.1,
            "random": 0.0,
        }  # published data: one step of ten is planned
        self._skill = skill_of("driver", name, skill, skills)

    def _say(self, observation: Observation) -> str:
        rng = Random(derive_seed(observation.seed, observation.turn, "taxi driver"))
        if rng.random() >= self._skill:
            return rng.choice(LABELS)
        state = read_state(observation.messages[-1].content)
        way = () if state is None else plan(state)
        return LABELS[way[0]] if way else LABELS[0]


def thought(before: int | None, action: int | None, state: int, draws: Random) -> str:
    """The embedded teacher's text about a state: what the last action did, where all are, what is next and
    why."""
    parts = [] if before is None or action is None else [_verdict(before, action, state, draws)]
    row, column, passenger, destination = decode(state)
    riding, goal = passenger == IN_TAXI, _cell(*DEPOTS[destination])
    taxi, waiting = _cell(row, column), goal if riding else _cell(*DEPOTS[passenger])
    parts.append(
        draws.choice(
            (
                f"The passenger is in the taxi at {taxi} and wants to go to {goal}.",
                f"The taxi at {taxi} has the passenger, the destination is {goal}.",
                f"We are at {taxi} with the passenger and must get to {goal}.",
            )
            if riding
            else (
                f"The taxi is at {taxi}, the passenger waits at {waiting}.",
                f"The passenger waits at {waiting} and the taxi is at {taxi}.",
                f"We are at {taxi} and must fetch the passenger at {waiting}.",
            )
        )
    )
    way = plan(state)
    if not way:
        return " ".join([*parts, "Nothing is left to do."])
    name = ACTION_NAMES[way[0]]
    if way[0] in {PICKUP, DROPOFF}:
        here = way[0] == PICKUP
        why = "because the passenger waits right here" if here else "because this is the destination"
    else:
        to_row, to_column = DEPOTS[destination if riding else passenger]
        down, right = ((1, 0), (-1, 0), (0, 1), (0, -1))[way[0]]
        nearer = down * (to_row - row) > 0 or right * (to_column - column) > 0
        whom = "destination" if riding else "passenger"
        why = f"towards the {whom}" if nearer else f"around the wall to the {whom}"
    parts.append(
        draws.choice((f"Next {name}, {why}.", f"Now {name}, {why}.", f"Best to {name} next, {why}."))
    )
    return " ".join(parts)


def _verdict(before: int, action: int, state: int, draws: Random) -> str:
    """What the last action did."""
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


def _cell(row: int, column: int) -> str:
    return f"row {row} column {column}"
