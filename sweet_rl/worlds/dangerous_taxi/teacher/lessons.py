"""DangerousTaxi, played by a mostly random driver; its records as training texts.

Published behaviour: docs/published/reflect_rl.md#data-of-recorded-states, #deviations.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from sweet_rl.chat.reflect_format import ACTION_MARKER, ANALYSE_MARKER, SftTexts, sft_texts, split_prompt
from sweet_rl.prompts import load_prompt
from sweet_rl.sft_data.reflections import Moment, Request
from sweet_rl.sft_data.texts import Texts, label_of
from sweet_rl.types import Compat
from sweet_rl.worlds.dangerous_taxi import ACTION_HEAD
from sweet_rl.worlds.dangerous_taxi.drawing import game_instruction, prompt, rules_text
from sweet_rl.worlds.dangerous_taxi.planner import plan
from sweet_rl.worlds.dangerous_taxi.rules import LABELS, TABLE
from sweet_rl.worlds.dangerous_taxi.teacher.words import hint_of, thought

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
