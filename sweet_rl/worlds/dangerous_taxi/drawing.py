"""The text of a state of DangerousTaxi: a grid, and the prompt around it.

Published behaviour: docs/published/reflect_rl.md#dangeroustaxi, #episodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from sweet_rl.prompts import packaged_text
from sweet_rl.worlds.dangerous_taxi import ACTION_HEAD
from sweet_rl.worlds.dangerous_taxi.rules import (
    ACTION_NAMES,
    DEPOTS,
    IN_TAXI,
    LABELS,
    MAP,
    SIZE,
    STATES,
    decode,
)

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
    return _by_picture().get(text[at : at + _PICTURE_LENGTH]) if (at := _last_picture(text)) >= 0 else None


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


def _last_picture(text: str) -> int:
    """Where the last picture begins: at the border line above it; -1 where there is none."""
    bottom = text.rfind(MAP[-1])
    return bottom + len(MAP[-1]) - _PICTURE_LENGTH if bottom >= 0 else -1


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
