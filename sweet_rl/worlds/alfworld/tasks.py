"""Tasks of the household games, as rows that `sweet_rl.records.task_from_row` reads.

The embedded games need no files; those of a user's ALFWorld folder are found by `ALFWORLD_DATA`.

Published behaviour: docs/published/reflect_rl.md#alfworld.
"""

from __future__ import annotations

import re
from pathlib import Path

from sweet_rl.errors import UsageError
from sweet_rl.types import Json
from sweet_rl.worlds.alfworld import homes as household
from sweet_rl.worlds.alfworld.homes.games import blacklist_name

ANY_FAMILY = "all"
"""Stands for every family of a user's folder, whose default is the published one."""

_MOST_HOMES = 100_000


def household_tasks(where: str = "", limit: int | None = None) -> list[dict[str, Json]]:
    """Embedded household games."""
    named, _, last = where.rpartition(":")
    homes = _homes(last)
    if homes is None:
        named = where
    part, _, split = named.rpartition(":")
    if not part and split not in {"", "train", "test"}:
        part, split = split, ""
    known = split in {"", "train", "test"}
    names = household.embedded_games(split, part, homes) if known else ()
    if not names:
        raise UsageError(
            f"'alfworld:{where}' is no source of tasks. Use 'alfworld', 'alfworld:train' or 'alfworld:test', "
            f"and between them what names must contain: 'alfworld:{household.TOMATO}:train', or one of the "
            f"families {', '.join(household.FAMILIES)}; at the end how many homes every goal has, or which: "
            f"'alfworld:{household.TOMATO}:train:250', 'alfworld:{household.TOMATO}:test:250-499'."
        )
    return [household_row(name) for name in names[:limit]]


def _homes(written: str) -> range | None:
    """Their numbers, as "250" or "250-499" says; None where it says no numbers, or too large ones."""
    found = re.fullmatch(r"(?:(\d+)-)?(\d+)", written)
    if found is None:
        return None
    first, last = found.groups()
    homes = range(int(first), int(last) + 1) if first else range(int(last))
    return homes if 0 < len(homes) <= _MOST_HOMES else None


def household_row(name: str) -> dict[str, Json]:
    """One embedded game as a task."""
    game = household.game(name)
    return {
        "task_id": f"alfworld/{name}",
        "problem_description": f"Your task is to: {game.sentence}.",
        "ground_truth": name,
        "hidden_information": ", ".join(game.way()),
        "game": name,
        "family": game.family,
    }


def alfworld_data_tasks(where: str = "") -> list[dict[str, Json]]:
    """Games of the folder that `ALFWORLD_DATA` names."""
    part, _, split = where.rpartition(":")
    containing = "" if part == ANY_FAMILY else part or household.TOMATO
    return [_data_row(place) for place in household.data_games(split or "train", containing)]


def _data_row(place: Path) -> dict[str, Json]:
    name = blacklist_name(place).strip("/")
    return {
        "task_id": f"alfworld/{name}",
        "problem_description": f"A task in a household: {place.parent.name}.",
        "ground_truth": name,
        "game": str(place.resolve()),
        "family": place.parent.name.partition("-")[0],
    }


def published_household_tasks(split: str = "train") -> list[dict[str, Json]]:
    """What Reflect-RL plays: the tomato-in-microwave family.

    Of the user's ALFWorld folder where `ALFWORLD_DATA` names one, else of the embedded games.
    """
    if household.data_folder() is not None:
        return alfworld_data_tasks(split)
    return household_tasks(f"{household.TOMATO}:{split}")
