"""DangerousTaxi: Taxi-v3 in which an action that changes nothing ends the game; its tasks, and who drives without a model.

The rules are a table of 500 states (`((row * 5 + column) * 5 + passenger) * 4 + destination`) and six
actions. By default the danger begins with the first step, and a game without curriculum has a threshold that
a success can reach. Published behaviour: docs/published/reflect_rl.md#dangeroustaxi, #deviations,
#curriculum, #data-of-recorded-states.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from functools import lru_cache
from random import Random
from typing import Final, NamedTuple

from sweet_rl.chat.reflect_format import resolve_label
from sweet_rl.errors import UsageError
from sweet_rl.policies.scripted import ScriptedPolicy, skill_of
from sweet_rl.prompts import packaged_text
from sweet_rl.text_game import GameStep, bad_task
from sweet_rl.types import Compat, Json, Observation, Task, derive_seed
from sweet_rl.worlds.base import Rows
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
DEPOTS: Final = ((0, 0), (0, 4), (4, 0), (4, 3))  # row and column of R, G, Y and B
IN_TAXI: Final = 4

SOUTH, NORTH, EAST, WEST, PICKUP, DROPOFF = range(6)
ACTION_NAMES: Final = (
    *("move south", "move north", "move east", "move west"),
    *("pickup passenger", "drop off passenger"),
)
LABELS: Final = ("0", "1", "2", "3", "4", "5")  # what an agent writes for each action

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
    rows = (
        "".join(
            cells.get((row, place // 2), " ") if place % 2 and 0 <= row < SIZE else char
            for place, char in enumerate(line)
        )
        for row, line in enumerate(MAP, -1)
    )
    return "\n".join(rows)


@lru_cache(maxsize=1)
def _by_picture() -> dict[str, int]:
    """States by their picture; of two alike the one that is not delivered."""
    order = sorted(range(STATES), key=lambda state: decode(state).passenger != decode(state).destination)
    return {draw(state): state for state in order}


def read_state(text: str) -> int | None:
    """The state that the last picture in a text shows, if any; a hidden destination is under the taxi."""
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
    rules = f"{packaged_text('taxi_rules')}\n" if with_prompt else ""
    offered = "".join(f"\nAction {label}: {name}" for label, name in _OFFERED.items())
    return f"{rules}{history}\n\n--- Current State ---\n\n{draw(states[-1])}{ACTION_HEAD}{offered}\n"


REWARD_SCALE: Final = 20  # rewards are Taxi-v3's own divided by this

SUCCESS_THRESHOLDS: Final[Mapping[str | None, float]] = {None: 0, "pickup": 0, "dropoff": 0, "full": -1}
"""An episode of a curriculum is a success when its costs sum to less. None: deliver. pickup: ends when the passenger is
in the taxi. dropoff: begins there. full: both count."""

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
        self._max_turns, self._compat = max_turns, compat
        self._shown = {"with_prompt": with_prompt, "with_history": with_history}
        self.begin(START_STATES[0])

    @property
    def instruction(self) -> str:
        return packaged_text("taxi_instruction")

    @property
    def state(self) -> int:
        return self._states[-1]

    @property
    def text(self) -> str:
        return prompt(self._states, self._actions, initial=self._initial, **self._shown)

    @property
    def success_threshold(self) -> float:
        """Costs of a success sum to less. As published: -1 without curriculum, which nothing reaches."""
        unreachable = self._compat == "published" and self.curriculum is None
        return -1 if unreachable else SUCCESS_THRESHOLDS[self.curriculum]

    def reset(self, task: Task, *, seed: int) -> str:
        start, curriculum = task.row.get("start"), task.row.get("curriculum")
        if start is None:
            start = Random(derive_seed(seed, "taxi")).choice(START_STATES)
        if start not in START_STATES or isinstance(start, (bool, float)):
            wanted = "one of the 300 start states (`START_STATES` of sweet_rl/worlds/dangerous_taxi/game.py)"
            raise bad_task(task, f"'start' must be {wanted}, got {start!r}")
        if curriculum not in [*SUCCESS_THRESHOLDS]:
            wanted = "null, pickup, dropoff or full"
            raise bad_task(task, f"'curriculum' must be {wanted}, got {curriculum!r}")
        return self.begin(start, curriculum)

    def begin(self, start: int, curriculum: str | None = None) -> str:
        """Begin in a start state; in `dropoff` where the oracle has picked the passenger up from there."""
        self._initial = start if self._compat == "published" else None
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
        self._truncated = self.steps >= self._max_turns
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
            if self._compat == "published" and len(self._actions) == 1:
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


TEST_SHARE: Final = 0.2

_ERRANDS: Final = {
    "none": "Bring the passenger to the destination.",
    "pickup": "Pick the passenger up.",
    "dropoff": "The passenger is in the taxi. Bring them to the destination.",
    "full": "Pick the passenger up and bring them to the destination.",
}
"""What is asked for in each curriculum, by its name in a task source."""


def taxi_tasks(where: str = "") -> Rows:
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
    """Reads the last picture; takes the oracle's next step with probability `skill`, else any."""

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
    """The embedded teacher's text about a state: what the last action did, where all are, what is next and why."""
    said = []
    if before is not None and action is not None:
        name = ACTION_NAMES[action]
        if state == before:
            verdict = (f"To {name} changed nothing, a mistake.", f"Bad: {name} had no effect.")
        elif action == PICKUP:
            verdict = ("Good, the passenger is in now.", "The pickup worked.")
        elif action == DROPOFF:
            verdict = ("The passenger got out at a wrong place.", "Bad: that was not the destination.")
        elif len(plan(state)) < len(plan(before)):
            verdict = (f"Good, {name} brought us nearer.", f"To {name} was a good step.")
        else:
            verdict = (f"Bad, {name} led us away.", f"To {name} was a detour.")
        said.append(draws.choice(verdict))
    row, column, passenger, destination = decode(state)
    riding = passenger == IN_TAXI
    target = DEPOTS[destination if riding else passenger]
    taxi, there = (f"row {row} column {column}" for row, column in ((row, column), target))
    where = (
        f"The taxi is at {taxi}, the passenger waits at {there}.",
        f"The passenger waits at {there} and the taxi is at {taxi}.",
        f"We are at {taxi} and must fetch the passenger at {there}.",
    )
    if riding:
        where = (
            f"The passenger is in the taxi at {taxi} and wants to go to {there}.",
            f"The taxi at {taxi} has the passenger, the destination is {there}.",
            f"We are at {taxi} with the passenger and must get to {there}.",
        )
    said.append(draws.choice(where))
    way = plan(state)
    if not way:
        return " ".join([*said, "Nothing is left to do."])
    name = ACTION_NAMES[way[0]]
    if way[0] in {PICKUP, DROPOFF}:
        here = way[0] == PICKUP
        why = "because the passenger waits right here" if here else "because this is the destination"
    else:
        down, right = ((1, 0), (-1, 0), (0, 1), (0, -1))[way[0]]
        nearer = down * (target[0] - row) > 0 or right * (target[1] - column) > 0
        whom = "destination" if riding else "passenger"
        why = f"towards the {whom}" if nearer else f"around the wall to the {whom}"
    said.append(draws.choice((f"Next {name}, {why}.", f"Now {name}, {why}.", f"Best to {name} next, {why}.")))
    return " ".join(said)
