"""Tasks of the question games, as rows that `sweet_rl.records.task_from_row` reads.

Every row is a plain object: what the agent is shown first, what only the oracle may know, and the names by
which the thing may be guessed. The rows of a game are always the same; nothing here is drawn but the splits.

Published behaviour: docs/published/archer.md#twenty-questions, #guess-my-city, #ten-words.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Final, TypeVar

from sweet_rl.errors import UsageError
from sweet_rl.prompts import fill, load_prompt
from sweet_rl.types import Json
from sweet_rl.worlds.question_games.words import CITIES, OBJECTS_BY_CATEGORY, OTHER_NAMES, TEN_OBJECTS

FIRST_OBSERVATION: Final = "Questions:\n"
"""What the agent sees before its first question."""

TEST_SHARE: Final = 0.2
"""How much of a list is held out for evaluation, rounded to whole tasks."""

_SPLIT_SEED: Final = "question games, held out"
"""Fixed, so that everybody's held-out tasks are the same."""

Row = TypeVar("Row")


def twenty_questions_tasks(split: str = "") -> list[dict[str, Json]]:
    """The objects of Twenty Questions.

    Args:
        split: "" for all 157 in the published order; "ten" for the ten of the published smaller game; "test"
            for the 31 that are held out; "train" for the other 126.

    Returns:
        Rows with `aliases` (lower case, the first is given to the oracle) and `category` beside the usual
        fields; `task_id` is "twenty_questions/0" and so on, the place in the whole list.

    Raises:
        UsageError: there is no such split.
    """
    rows = [
        _object_row(number, category, names)
        for number, (category, names) in enumerate(
            (category, names) for category, entries in OBJECTS_BY_CATEGORY.items() for names in entries
        )
    ]
    if split == "ten":
        return [rows[index] for index in TEN_OBJECTS]
    return _split(rows, split, "twenty-questions", ("ten", "train", "test"))


def guess_my_city_tasks(split: str = "") -> list[dict[str, Json]]:
    """The home towns of Guess My City.

    Args:
        split: "" for all 91 in the published order; "test" for the 18 that are held out; "train" for the
            other 73.

    Returns:
        Rows with `aliases` (lower case, the published name first) beside the usual fields; `task_id` is
        "guess_my_city/0" and so on, the place in the whole list.

    Raises:
        UsageError: there is no such split.
    """
    rows = [_city_row(number, place) for number, place in enumerate(CITIES)]
    return _split(rows, split, "guess-my-city", ("train", "test"))


def ten_words() -> list[str]:
    """The ten objects of the smaller game, as its instruction names them: lower case, first names."""
    return [row["aliases"][0] for row in twenty_questions_tasks("ten")]


def ask_for_object_template(words: Sequence[str] | None = None) -> str:
    """The instruction for models that follow instructions, with `{obs}` where the game goes.

    Our own wording of the published prompt: the objects, a game as an example, the JSON that
    `asking.decode_question` reads. No chat markers and no begin token are in it.

    Args:
        words: the objects it names; default the ten.
    """
    named = ", ".join(ten_words() if words is None else words)
    return fill(load_prompt("ask_for_object_prompt"), words=named)


def city_names() -> list[list[str]]:
    """Every name of every city, one list for each, by which `GuessMyCityEnv` finds guesses."""
    return [row["aliases"] for row in guess_my_city_tasks()]


def _object_row(number: int, category: str, names: str) -> dict[str, Json]:
    aliases = names.lower().split(";")
    return {
        "task_id": f"twenty_questions/{number}",
        "problem_description": FIRST_OBSERVATION,
        "ground_truth": aliases[0],
        "hidden_information": aliases[0],
        "aliases": aliases,
        "category": category,
    }


def _city_row(number: int, place: str) -> dict[str, Json]:
    city = place.split(",", maxsplit=1)[0]
    return {
        "task_id": f"guess_my_city/{number}",
        "problem_description": FIRST_OBSERVATION,
        "ground_truth": place,
        "hidden_information": place,
        "aliases": [city.lower(), *(name.lower() for name in OTHER_NAMES.get(city, ()))],
    }


def _split(rows: Sequence[Row], split: str, game: str, known: Sequence[str]) -> list[Row]:
    """All rows, those held out, or the others; each in the published order."""
    if not split:
        return list(rows)
    if split not in {"train", "test"}:
        raise UsageError(
            f"'{game}:{split}' is no split of {game}. Use {game!r} for all of it, or "
            f"{', '.join(f'{game}:{name}' for name in known)}."
        )
    held_out = set(Random(_SPLIT_SEED).sample(range(len(rows)), round(TEST_SHARE * len(rows))))
    return [row for index, row in enumerate(rows) if (index in held_out) == (split == "test")]
