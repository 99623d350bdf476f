"""DangerousTaxi: Taxi-v3 in which an action that changes nothing ends the game.

Two things are right by default, but not with `compat="published"`: the danger begins with the
first step, and a game without curriculum has a threshold that a success can reach. Seeds count and a game
begins without a history in both (there the published code depends on what happened before).

Published behaviour: docs/published/reflect_rl.md#dangeroustaxi, #deviations, #curriculum.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from random import Random
from typing import Final

from sweet_rl.chat.reflect_format import resolve_label
from sweet_rl.errors import UsageError
from sweet_rl.prompts import packaged_text
from sweet_rl.text_game import GameStep, bad_task
from sweet_rl.types import Compat, Json, Task, derive_seed
from sweet_rl.worlds.dangerous_taxi.rules import (
    ACTION_NAMES,
    DELIVERY_REWARD,
    DEPOTS,
    ILLEGAL_REWARD,
    IN_TAXI,
    LABELS,
    MAP,
    SIZE,
    START_STATES,
    STATES,
    STEP_REWARD,
    TABLE,
    decode,
    plan,
    plan_to_pickup,
)
from sweet_rl.worlds.text_game_world import ACTION_HEAD

_PICTURE_LENGTH: Final = len("\n".join(MAP))

_ACTIONS: Final = "".join(
    f"\nAction {label}: {name}" for label, name in zip(LABELS, ACTION_NAMES, strict=True)
)


@lru_cache(maxsize=STATES)
def draw(state: int) -> str:
    """Seven lines of eleven characters, without a newline at the end.

    `T` is the taxi, `P` the waiting passenger, `D` the destination, `O` the taxi where the passenger waits,
    `X` the taxi with the passenger in it. The taxi hides the destination.
    """
    place = decode(state)
    cells = {DEPOTS[place.destination]: "D"}
    taxi = (place.row, place.column)
    if place.passenger == IN_TAXI:
        cells[taxi] = "X"
    else:
        waiting = DEPOTS[place.passenger]
        cells[waiting] = "P"  # later signs hide earlier ones
        cells[taxi] = "O" if taxi == waiting else "T"
    lines = [list(line) for line in MAP]
    for row in range(SIZE):
        for column in range(SIZE):
            lines[row + 1][2 * column + 1] = cells.get((row, column), " ")
    return "\n".join("".join(line) for line in lines)


def read_state(text: str) -> int | None:
    """The state that the last picture in a text shows; None where there is none.

    Everything can be read off: a destination that is not to be seen is under the taxi.
    """
    bottom = text.rfind(MAP[-1])
    begin = bottom + len(MAP[-1]) - _PICTURE_LENGTH  # at the border line above the picture
    return _by_picture().get(text[begin : begin + _PICTURE_LENGTH]) if bottom >= 0 and begin >= 0 else None


def prompt(
    states: Sequence[int],
    actions: Sequence[int],
    *,
    with_prompt: bool = False,
    with_history: bool = False,
    initial: int | None = None,
) -> str:
    """The whole text that an agent is shown, the list of actions at its end."""
    if with_history:
        path = "".join(
            f"--- Step: {step} ---\nAction: {ACTION_NAMES[action]}\nObservation:\n{draw(state)}\n\n"
            for step, (action, state) in enumerate(zip(actions, states[1:], strict=True))
        )
        first = states[0] if initial is None else initial
        history = f"--- Initial State ---\n{draw(first)}\n\n\n\nHere is the previous path:\n{path}"
    else:
        names = "\n".join(ACTION_NAMES[action] for action in actions)
        history = f"You have already completed the following actions:\n{names}"
    rules = f"{rules_text()}\n" if with_prompt else ""
    return f"{rules}{history}\n\n--- Current State ---\n\n{draw(states[-1])}{ACTION_HEAD}{_ACTIONS}\n"


@lru_cache(maxsize=1)
def _by_picture() -> dict[str, int]:
    """States by their picture; of two alike the one that is not delivered."""
    delivered = [state for state in range(STATES) if decode(state).passenger == decode(state).destination]
    waiting = [state for state in range(STATES) if state not in delivered]
    return {draw(state): state for state in (*delivered, *waiting)}


def rules_text() -> str:
    """The rules in words, for `with_prompt`."""
    return packaged_text("taxi_rules")


def game_instruction() -> str:
    """The text before the state when an agent reflects."""
    return packaged_text("taxi_instruction")


MAX_TURNS: Final = 15
CURRICULA: Final[tuple[str | None, ...]] = (None, "pickup", "dropoff", "full")
"""None: deliver. pickup: ends when the passenger is in the taxi. dropoff: begins there. full: both count."""

REWARD_SCALE: Final = 20
"""Rewards are Taxi-v3's own divided by this."""

SUCCESS_THRESHOLDS: Final[Mapping[str | None, float]] = {None: 0, "pickup": 0, "dropoff": 0, "full": -1}
"""An episode is a success when its costs sum to less."""

_OFFERED: Final = dict(zip(LABELS, ACTION_NAMES, strict=True))
_PICKUP_PAYS: Final = ("pickup", "full")


class TaxiGame:
    """One game; a `sweet_rl.text_game.TextGame`.

    A task's row may name `start` (of `START_STATES`; else the seed draws one) and `curriculum` (of
    `CURRICULA`). `GameStep.info` has `outcome`: "moved", "picked_up" (where that pays), "delivered",
    "no_effect" or "no_such_action", and `won`: whether the curriculum's goal was reached with this step.

    Args:
        compat: "published": the first step may change nothing without ending the game, and the history of
            `dropoff` begins before the oracle's drive, of which it says nothing else.
    """

    head = ACTION_HEAD
    max_labels: Sequence[str] = LABELS

    def __init__(
        self,
        *,
        max_turns: int = MAX_TURNS,
        with_prompt: bool = False,
        with_history: bool = False,
        compat: Compat = "fixed",
    ) -> None:
        if max_turns < 1:
            raise UsageError(f"max_turns must be at least 1, got {max_turns}.")
        self.max_turns = max_turns
        self.with_prompt = with_prompt
        self.with_history = with_history
        self.compat = compat
        self.begin(START_STATES[0])

    @property
    def instruction(self) -> str:
        """The text before the state when an agent reflects."""
        return game_instruction()

    @property
    def state(self) -> int:
        """The number of the current state, 0 to 499."""
        return self._states[-1]

    @property
    def text(self) -> str:
        """The whole prompt of the current state."""
        return prompt(
            self._states,
            self._actions,
            with_prompt=self.with_prompt,
            with_history=self.with_history,
            initial=self._initial,
        )

    @property
    def labels(self) -> Sequence[str]:
        """All six, always: not every one is safe."""
        return LABELS

    @property
    def success_threshold(self) -> float:
        """Costs of a success sum to less. As published: -1 without curriculum, which nothing reaches."""
        return (
            -1
            if self.compat == "published" and self.curriculum is None
            else SUCCESS_THRESHOLDS[self.curriculum]
        )

    def reset(self, task: Task, *, seed: int) -> str:
        """Begin a task's game."""
        start, curriculum = task.row.get("start"), task.row.get("curriculum")
        if start is None:
            start = Random(derive_seed(seed, "taxi")).choice(START_STATES)
        if start not in START_STATES or isinstance(start, (bool, float)):
            wanted = "one of the 300 start states (`START_STATES` of sweet_rl/worlds/dangerous_taxi/rules.py)"
            raise bad_task(task, f"'start' must be {wanted}, got {start!r}")
        if curriculum is not None and curriculum not in CURRICULA:
            wanted = "null, pickup, dropoff or full"
            raise bad_task(task, f"'curriculum' must be {wanted}, got {curriculum!r}")
        return self.begin(start, curriculum)

    def begin(self, start: int, curriculum: str | None = None) -> str:
        """Begin in a start state; in `dropoff` where the oracle has picked the passenger up from there."""
        self._initial = start if self.compat == "published" else None
        if curriculum == "dropoff":
            for action in plan_to_pickup(start):
                start = TABLE[start][action].state
        self.curriculum = curriculum
        self.steps = 0
        self._states, self._actions = [start], list[int]()
        self._picked_up = False
        self._terminated = self._truncated = False
        return self.text

    def step(self, label: str) -> GameStep:
        """Take one action. A label that there is not costs a step and changes nothing.

        After the end nothing changes and nothing is rewarded.
        """
        if self._terminated or self._truncated:
            return GameStep(self.text, 0.0, self._terminated, self._truncated, _info("over"))
        self.steps += 1
        self._truncated = self.steps >= self.max_turns
        found = resolve_label(label, _OFFERED)
        if found is None:
            return self._moved(STEP_REWARD, "no_such_action")
        return self._act(LABELS.index(found))

    def best_actions(self) -> tuple[int, ...]:
        """The oracle's way to the delivery from here; empty when the game is over."""
        return () if self._terminated or self._truncated else plan(self.state)

    def close(self) -> None:
        """Do nothing: the game is a number in memory."""

    def _act(self, action: int) -> GameStep:
        before = self.state
        state, reward, delivered = TABLE[before][action]
        self._states.append(state)
        self._actions.append(action)
        if delivered:
            self._terminated = True
            return self._moved(reward, "delivered", won=True)
        riding = decode(state).passenger == IN_TAXI
        if riding and self.curriculum in _PICKUP_PAYS and not self._picked_up:
            self._picked_up = True
            self._truncated |= self.curriculum == "pickup"
            return self._moved(DELIVERY_REWARD, "picked_up", won=self.curriculum == "pickup")
        if state == before:  # published: the same picture twice, which no other action gives
            if self.compat == "published" and len(self._actions) == 1:
                return self._moved(reward, "no_effect")
            self._terminated = self._truncated = True
            return self._moved(ILLEGAL_REWARD, "no_effect")
        return self._moved(reward, "moved")

    def _moved(self, reward: int, outcome: str, *, won: bool = False) -> GameStep:
        info = _info(outcome, won=won)
        return GameStep(self.text, reward / REWARD_SCALE, self._terminated, self._truncated, info)


def _info(outcome: str, *, won: bool = False) -> dict[str, Json]:
    return {"outcome": outcome, "won": won}
