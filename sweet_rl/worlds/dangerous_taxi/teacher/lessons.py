"""DangerousTaxi, played by a mostly random driver; its records as training texts.

Published behaviour: docs/published/reflect_rl.md#data-of-recorded-states, #deviations.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from sweet_rl.chat.reflect_format import ACTION_MARKER, ANALYSE_MARKER, SftTexts, sft_texts, split_prompt
from sweet_rl.prompts import load_prompt
from sweet_rl.sft_data.reflections import Moment, Request
from sweet_rl.sft_data.teachers import Words
from sweet_rl.sft_data.texts import Texts, label_of
from sweet_rl.types import Compat
from sweet_rl.worlds.dangerous_taxi.game import TaxiGame, game_instruction, prompt, rules_text
from sweet_rl.worlds.dangerous_taxi.rules import (
    ACTION_NAMES,
    DEPOTS,
    DROPOFF,
    IN_TAXI,
    LABELS,
    PICKUP,
    TABLE,
    decode,
    plan,
)
from sweet_rl.worlds.text_game_world import ACTION_HEAD

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


MAX_TURNS: Final = 20
RANDOM_SHARE: Final = 0.9
"""How often the driver takes any action; else the oracle's first."""

_STATE_BEGINS: Final = ("--- Initial State ---", "--- Current State ---")
_SPOILER_LINE: Final = re.compile(r"^(?:Note that .*optimal|Spoiler:).*\n?", re.MULTILINE)


def play_taxi(
    seed: int,
    starts: Sequence[int],
    *,
    random_share: float = RANDOM_SHARE,
    max_turns: int = MAX_TURNS,
    with_prompt: bool = False,
    head_start: bool = True,
    compat: Compat = "fixed",
) -> list[Moment]:
    """One game, step by step, until it ends."""
    draws = random.Random(seed)
    states, actions = [draws.choice(list(starts))], list[int]()
    if head_start:
        way = plan(states[0])
        for action in way[: draws.randrange(len(way))]:
            states.append(TABLE[states[-1]][action].state)
            actions.append(action)
        forgotten = draws.randrange(len(states))
        states, actions = states[forgotten:], actions[forgotten:]
    moments: list[Moment] = []
    while len(actions) < max_turns:
        state = states[-1]
        best = next(iter(plan(state)), None)
        any_action = draws.random() < random_share
        action = draws.randrange(len(LABELS)) if any_action or best is None else best
        moments.append(
            Moment(
                prompt(states, actions, with_prompt=with_prompt),
                LABELS[action],
                None if best is None else LABELS[best],
                _words(states, actions),
                hint_of(best, compat=compat),
                {},
            )
        )
        next_state, _, delivered = TABLE[state][action]
        states.append(next_state)
        actions.append(action)
        if delivered or (next_state == state and compat == "fixed"):
            break
    return moments


def taxi_request() -> Request:
    """How a model is asked: the rules are in its system prompt, so that records need not repeat them."""
    system = f"{load_prompt('taxi_teacher_system').strip()}\n\n{rules_text()}"
    template = load_prompt("taxi_teacher_request").strip()
    return Request(system, template, ACTION_HEAD)


def taxi_texts(
    records: Iterable[Mapping[str, Any]],
    *,
    label: str = "taken",
    keep_rules: bool = False,
    compat: Compat = "fixed",
) -> Texts:
    """Training texts of records: `sft`, `sft_reflection`, `sft_policy`."""
    instruction = "" if compat == "published" else game_instruction()
    texts = Texts({f"{name}.jsonl": [] for name in ("sft", "sft_reflection", "sft_policy")})
    for record in records:
        state = str(record.get("state") or "")
        if compat == "fixed" and not keep_rules:
            state = state.removeprefix(f"{rules_text()}\n")
        made = taxi_sft_texts(
            state,
            str(record.get("reflection") or ""),
            label_of(record, label),
            instruction=instruction,
            compat=compat,
        )
        if made is None:
            texts.skipped["record without a state"] += 1
        else:
            texts.add(made)
    return texts


def taxi_sft_texts(
    state: str, reflection: str, label: str, *, instruction: str = "", compat: Compat = "fixed"
) -> SftTexts | None:
    r"""The training texts of one recorded step of DangerousTaxi; None for a record without a state."""
    starts = [at for at in map(state.find, _STATE_BEGINS) if at >= 0]
    if not starts:
        return None
    if compat == "fixed":
        return sft_texts(
            _SPOILER_LINE.sub("", state), ACTION_HEAD, reflection, label, instruction=instruction
        )
    text = _SPOILER_LINE.sub("", state[starts[0] :]).strip()
    before, after = split_prompt(text, ACTION_HEAD)
    reflected = f"{before}\n{ANALYSE_MARKER}{reflection}"
    return SftTexts(
        plain=f"{text}{ACTION_MARKER}{label}",
        reflection=reflected,
        policy=f"{reflected}{after}{ACTION_MARKER}{label}",
    )


def _words(states: Sequence[int], actions: Sequence[int]) -> Any:
    before, last = (states[-2], actions[-1]) if actions else (None, None)
    state = states[-1]
    return lambda draws: thought(before, last, state, draws)


class TaxiExpert:
    """Knows the shortest way of a taxi game."""

    def __init__(self, game: TaxiGame) -> None:
        self._game = game

    def thought(self) -> Words:
        """The positions of everything, and the next action."""
        return partial(thought, None, None, self._game.state)

    def label(self) -> str:
        """The label of the oracle's first action; "0" where nothing is left to do."""
        return next((str(action) for action in self._game.best_actions()), "0")
