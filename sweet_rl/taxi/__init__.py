"""The taxi: rules, pictures and shortest ways of DangerousTaxi. It knows no worlds, tasks or agents."""

from sweet_rl.taxi.drawing import NAME, draw, game_instruction, prompt, read_state, rules_text
from sweet_rl.taxi.oracle import plan, plan_to_pickup
from sweet_rl.taxi.table import (
    ACTION_NAMES,
    IN_TAXI,
    LABELS,
    START_STATES,
    TABLE,
    decode,
    encode,
)

__all__ = [
    "ACTION_NAMES",
    "IN_TAXI",
    "LABELS",
    "NAME",
    "START_STATES",
    "TABLE",
    "decode",
    "draw",
    "encode",
    "game_instruction",
    "plan",
    "plan_to_pickup",
    "prompt",
    "read_state",
    "rules_text",
]
