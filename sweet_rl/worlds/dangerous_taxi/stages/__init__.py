"""Stages that make DangerousTaxi's training data, one a file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sweet_rl.command_line.listing import StageEntry

_HERE: Final = "sweet_rl.worlds.dangerous_taxi.stages"

STAGES: Final[Mapping[str, StageEntry]] = {
    "reflect taxi_reflection": StageEntry(
        f"{_HERE}.taxi_reflection:taxi_reflection",
        "DangerousTaxi: let a teacher reflect on states of random games.",
        ("taxi/data_reflection.json",),
    ),
    "reflect taxi_gen_sft": StageEntry(
        f"{_HERE}.taxi_gen_sft:taxi_gen_sft",
        "DangerousTaxi: write training texts from records.",
        ("taxi/sft*.jsonl",),
    ),
}
"""What is typed behind `sweet-rl`."""
