"""The one task of Detective, as a row that `sweet_rl.records.task_from_row` reads.

Published behaviour: docs/published/archer.md#detective.
"""

from __future__ import annotations

from sweet_rl.errors import UsageError
from sweet_rl.types import Json


def detective_tasks(split: str = "") -> list[dict[str, Json]]:
    """The one task of Detective."""
    if split:
        raise UsageError(f"'detective:{split}' is no split of detective: it is one task. Use 'detective'.")
    return [
        {
            "task_id": "detective/0",
            "problem_description": "You are a detective in a text adventure. Who murdered the Mayor?",
            "ground_truth": "360 points",
        }
    ]
