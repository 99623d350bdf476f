"""Stages that make ALFWorld's training data, one a file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sweet_rl.command_line.listing import StageEntry

_HERE: Final = "sweet_rl.worlds.alfworld.stages"

STAGES: Final[Mapping[str, StageEntry]] = {
    "reflect alfworld_reflection": StageEntry(
        f"{_HERE}.alfworld_reflection:alfworld_reflection",
        "ALFWorld: let a teacher reflect on states of random household games.",
        ("alfworld/data_reflection.json",),
    ),
    "reflect alfworld_gen_sft": StageEntry(
        f"{_HERE}.alfworld_gen_sft:alfworld_gen_sft",
        "ALFWorld: write training texts from records.",
        ("alfworld/sft*.jsonl",),
    ),
}
"""What is typed behind `sweet-rl`."""
