"""DangerousTaxi: Taxi-v3 in which an action that changes nothing ends the game.

The rules are a table of 500 states (`((row * 5 + column) * 5 + passenger) * 4 + destination`) and six
actions. By default the danger begins with the first step, and a game without curriculum has a threshold that
a success can reach. Published behaviour: docs/published/reflect_rl.md#dangeroustaxi, #deviations,
#curriculum.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from functools import lru_cache
from random import Random
from typing import Final, NamedTuple

from sweet_rl.chat.reflect_format import resolve_label
from sweet_rl.prompts import packaged_text
from sweet_rl.text_game import GameStep, bad_task
from sweet_rl.types import Compat, Json, Task, derive_seed
from sweet_rl.worlds.text_games import ACTION_HEAD

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
    *("move south", "move north", "move east", "move west"),
    *("pickup passenger", "drop off passenger"),
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
    return Place(*divmod(rest, SIZE), passenger, destination)


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
    line, middle = MAP[row + 1], 2 * column + 1  # a wall or the border leaves the taxi where it is
    row = min(max(row + (action == SOUTH) - (action == NORTH), 0), SIZE - 1)
    column += (action == EAST and line[middle + 1] == ":") - (action == WEST and line[middle - 1] == ":")
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
    ways: dict[int, tuple[int, ...]] = {state: ()}
    waiting = deque([state])
    while waiting:
        here = waiting.popleft()
        for action, transition in enumerate(TABLE[here]):
            way = (*ways[here], action)
            if transition.done:
                return way
            if transition.state not in ways:
                ways[transition.state] = way
                waiting.append(transition.state)
    return ()  # as published; from no state of the table


def plan_to_pickup(state: int) -> tuple[int, ...]:
    """The part of `plan` after which the passenger is in the taxi; empty where that is so already."""
    way = plan(state)
    return () if decode(state).passenger == IN_TAXI else way[: way.index(PICKUP) + 1]


@lru_cache(maxsize=STATES)
def draw(state: int) -> str:
    """Seven lines of eleven characters: `T` the taxi, `P` the waiting passenger, `D` the destination, `O` the
    taxi where the passenger waits, `X` with them in it. The taxi hides the destination."""
    row, column, passenger, destination = decode(state)
    taxi = (row, column)
    cells = {DEPOTS[destination]: "D"}  # later signs hide earlier ones
    if passenger == IN_TAXI:
        cells[taxi] = "X"
    else:
        cells[DEPOTS[passenger]] = "P"
        cells[taxi] = "O" if taxi == DEPOTS[passenger] else "T"
    lines = [list(line) for line in MAP]
    for row in range(SIZE):
        for column in range(SIZE):
            lines[row + 1][2 * column + 1] = cells.get((row, column), " ")
    return "\n".join("".join(line) for line in lines)


@lru_cache(maxsize=1)
def _by_picture() -> dict[str, int]:
    """States by their picture; of two alike the one that is not delivered."""
    delivered = [state for state in range(STATES) if decode(state).passenger == decode(state).destination]
    return {draw(state): state for state in (*delivered, *sorted({*range(STATES)} - {*delivered}))}


def read_state(text: str) -> int | None:
    """The state that the last picture in a text shows, if any: a destination that is not to be seen is under
    the taxi."""
    length = len("\n".join(MAP))
    end = text.rfind(MAP[-1]) + len(MAP[-1])
    return _by_picture().get(text[end - length : end]) if end >= length else None


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
    offered = "".join(f"\nAction {label}: {name}" for label, name in _OFFERED.items())
    return f"{rules}{history}\n\n--- Current State ---\n\n{draw(states[-1])}{ACTION_HEAD}{offered}\n"


def rules_text() -> str:
    """The rules in words, for `with_prompt`."""
    return packaged_text("taxi_rules")


def game_instruction() -> str:
    """The text before the state when an agent reflects."""
    return packaged_text("taxi_instruction")


CURRICULA: Final[tuple[str | None, ...]] = (None, "pickup", "dropoff", "full")
"""None: deliver. pickup: ends when the passenger is in the taxi. dropoff: begins there. full: both count."""

REWARD_SCALE: Final = 20
"""Rewards are Taxi-v3's own divided by this."""

SUCCESS_THRESHOLDS: Final[Mapping[str | None, float]] = {None: 0, "pickup": 0, "dropoff": 0, "full": -1}
"""An episode is a success when its costs sum to less."""

_OFFERED: Final = dict(zip(LABELS, ACTION_NAMES, strict=True))


class TaxiGame:
    """One game; a `sweet_rl.text_game.TextGame`.

    A task's row may name `start` (else the seed draws one) and `curriculum`. `info` has `outcome` ("moved",
    "picked_up" where that pays, "delivered", "no_effect", "no_such_action") and `won`. As published, the
    first step may change nothing, and the history of `dropoff` begins before the oracle's drive.
    """

    head = ACTION_HEAD
    max_labels: Sequence[str] = LABELS
    labels: Sequence[str] = LABELS  # all six, always: not every one is safe

    def __init__(
        self,
        *,
        max_turns: int = 15,
        with_prompt: bool = False,
        with_history: bool = False,
        compat: Compat = "fixed",
    ) -> None:
        self.max_turns = max_turns
        self.with_prompt, self.with_history = with_prompt, with_history
        self.compat = compat
        self.begin(START_STATES[0])

    @property
    def instruction(self) -> str:
        return game_instruction()

    @property
    def state(self) -> int:
        return self._states[-1]

    @property
    def text(self) -> str:
        return prompt(
            self._states,
            self._actions,
            with_prompt=self.with_prompt,
            with_history=self.with_history,
            initial=self._initial,
        )

    @property
    def success_threshold(self) -> float:
        """Costs of a success sum to less. As published: -1 without curriculum, which nothing reaches."""
        unreachable = self.compat == "published" and self.curriculum is None
        return -1 if unreachable else SUCCESS_THRESHOLDS[self.curriculum]

    def reset(self, task: Task, *, seed: int) -> str:
        start, curriculum = task.row.get("start"), task.row.get("curriculum")
        if start is None:
            start = Random(derive_seed(seed, "taxi")).choice(START_STATES)
        if start not in START_STATES or isinstance(start, (bool, float)):
            wanted = "one of the 300 start states (`START_STATES` of sweet_rl/worlds/dangerous_taxi/game.py)"
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
        """Take one action. A label that there is not costs a step; after the end nothing changes."""
        if self._terminated or self._truncated:
            return self._moved(0, "over")
        self.steps += 1
        self._truncated = self.steps >= self.max_turns
        found = resolve_label(label, _OFFERED)
        if found is None:
            return self._moved(STEP_REWARD, "no_such_action")
        before, action = self.state, LABELS.index(found)
        state, reward, delivered = TABLE[before][action]
        self._states.append(state)
        self._actions.append(action)
        if delivered:
            self._terminated = True
            return self._moved(reward, "delivered", won=True)
        riding = decode(state).passenger == IN_TAXI
        if riding and self.curriculum in {"pickup", "full"} and not self._picked_up:
            self._picked_up = True
            self._truncated |= self.curriculum == "pickup"
            return self._moved(DELIVERY_REWARD, "picked_up", won=self.curriculum == "pickup")
        if state == before:  # published: the same picture twice, which no other action gives
            if self.compat == "published" and len(self._actions) == 1:
                return self._moved(reward, "no_effect")
            self._terminated = self._truncated = True
            return self._moved(ILLEGAL_REWARD, "no_effect")
        return self._moved(reward, "moved")

    def best_actions(self) -> tuple[int, ...]:
        """The oracle's way to the delivery from here; empty when the game is over."""
        return () if self._terminated or self._truncated else plan(self.state)

    def close(self) -> None:
        """Do nothing: the game is a number in memory."""

    def _moved(self, reward: int, outcome: str, *, won: bool = False) -> GameStep:
        info: dict[str, Json] = {"outcome": outcome, "won": won}
        return GameStep(self.text, reward / REWARD_SCALE, self._terminated, self._truncated, info)
