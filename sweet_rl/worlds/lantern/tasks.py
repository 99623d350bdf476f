"""Variants of Lantern as tasks: rows that `sweet_rl.records.task_from_row` reads.

There are as many variants as there are whole numbers; here are the first hundred, the last twenty held out.
"""

from __future__ import annotations

from typing import Final

from sweet_rl.errors import UsageError
from sweet_rl.types import Json

VARIANTS: Final = {"": range(100), "train": range(80), "test": range(80, 100)}
"""Which variants are whose. They are drawn one by one from their numbers, so any cut is as good."""


def lantern_tasks(split: str = "") -> list[dict[str, Json]]:
    """Variants of Lantern."""
    if split not in VARIANTS:
        raise UsageError(
            f"'lantern:{split}' is no split of lantern. Use 'lantern' for all of it, 'lantern:train' or "
            "'lantern:test'."
        )
    return [
        {
            "task_id": f"lantern/{variant}",
            "problem_description": "You are on an island in a text adventure. Light the great lantern again.",
            "ground_truth": "100 points",
            "variant": variant,
        }
        for variant in VARIANTS[split]
    ]
