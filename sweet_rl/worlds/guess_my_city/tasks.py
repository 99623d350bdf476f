"""The cities as tasks: rows that `sweet_rl.records.task_from_row` reads.

Published behaviour: docs/published/archer.md#guess-my-city.
"""

from __future__ import annotations

from sweet_rl.types import Json
from sweet_rl.worlds.guess_my_city.words import CITIES, OTHER_NAMES
from sweet_rl.worlds.question_games.tasks import FIRST_OBSERVATION, split_of


def guess_my_city_tasks(split: str = "") -> list[dict[str, Json]]:
    """The home towns of Guess My City."""
    rows = [_city_row(number, place) for number, place in enumerate(CITIES)]
    return split_of(rows, split, "guess-my-city", ("train", "test"))


def city_names() -> list[list[str]]:
    """Every name of every city, one list for each, by which `GuessMyCityEnv` finds guesses."""
    return [row["aliases"] for row in guess_my_city_tasks()]


def _city_row(number: int, place: str) -> dict[str, Json]:
    city = place.split(",", maxsplit=1)[0]
    return {
        "task_id": f"guess_my_city/{number}",
        "problem_description": FIRST_OBSERVATION,
        "ground_truth": place,
        "hidden_information": place,
        "aliases": [city.lower(), *(name.lower() for name in OTHER_NAMES.get(city, ()))],
    }
