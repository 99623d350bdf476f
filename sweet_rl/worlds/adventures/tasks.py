"""Tasks of the text games, as rows that `sweet_rl.records.task_from_row` reads.

Detective is one game and one task. Lantern, our own, has as many variants as there are
whole numbers; here are the first hundred, the last twenty of them held out.

Published behaviour: docs/published/archer.md#detective.
"""

from __future__ import annotations

from typing import Final

from sweet_rl.errors import UsageError
from sweet_rl.types import Json

LANTERN_VARIANTS: Final = {"": range(100), "train": range(80), "test": range(80, 100)}
"""Which variants are whose. They are drawn one by one from their numbers, so any cut is as good."""


def adventure_tasks(game: str, split: str = "") -> list[dict[str, Json]]:
    """The tasks of a text game.

    Args:
        game: "detective" or "lantern".
        split: "" for all of them; lantern has "train" and "test", too.

    Raises:
        UsageError: there is no such game or split.
    """
    if game == "detective":
        return detective_tasks(split)
    if game == "lantern":
        return lantern_tasks(split)
    raise UsageError(f"{game!r} is no text game. There are 'detective' and 'lantern'.")


def detective_tasks(split: str = "") -> list[dict[str, Json]]:
    """The one task of Detective.

    Args:
        split: must be empty: there is nothing to hold out.

    Raises:
        UsageError: there is no such split.
    """
    if split:
        raise UsageError(f"'detective:{split}' is no split of detective: it is one task. Use 'detective'.")
    return [
        {
            "task_id": "detective/0",
            "problem_description": "You are a detective in a text adventure. Who murdered the Mayor?",
            "ground_truth": "360 points",
        }
    ]


def lantern_tasks(split: str = "") -> list[dict[str, Json]]:
    """Variants of Lantern.

    Args:
        split: "" for variants 0 to 99, "train" for 0 to 79, "test" for 80 to 99.

    Returns:
        Rows with `variant` (a whole number) beside the usual fields; `task_id` is "lantern/0" and so on.

    Raises:
        UsageError: there is no such split.
    """
    if split not in LANTERN_VARIANTS:
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
        for variant in LANTERN_VARIANTS[split]
    ]
