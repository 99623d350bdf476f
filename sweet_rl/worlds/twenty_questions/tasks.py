"""The objects as tasks: rows that `sweet_rl.records.task_from_row` reads.

Published behaviour: docs/published/archer.md#twenty-questions, #ten-words.
"""

from __future__ import annotations

from collections.abc import Sequence

from sweet_rl.prompts import fill, load_prompt
from sweet_rl.types import Json
from sweet_rl.worlds.question_games.tasks import FIRST_OBSERVATION, split_of
from sweet_rl.worlds.twenty_questions.words import (
    OBJECTS_BY_CATEGORY,
    SIXTEEN_OBJECTS,
    TEN_OBJECTS,
)


def twenty_questions_tasks(split: str = "") -> list[dict[str, Json]]:
    """The objects of Twenty Questions."""
    rows = [
        _object_row(number, category, names)
        for number, (category, names) in enumerate(
            (category, names) for category, entries in OBJECTS_BY_CATEGORY.items() for names in entries
        )
    ]
    places = {"ten": TEN_OBJECTS, "sixteen": SIXTEEN_OBJECTS}.get(split)
    if places is not None:
        return [rows[index] for index in places]
    return split_of(rows, split, "twenty-questions", ("ten", "sixteen", "train", "test"))


def ten_words() -> list[str]:
    """The ten objects of the smaller game, as its instruction names them: lower case, first names."""
    return [row["aliases"][0] for row in twenty_questions_tasks("ten")]


def sixteen_words() -> list[str]:
    """The objects of our own small game, lower case, first names: as many as four answers tell apart."""
    return [row["aliases"][0] for row in twenty_questions_tasks("sixteen")]


def ask_for_object_template(words: Sequence[str] | None = None) -> str:
    """The instruction for chat models, with `{obs}` where the game goes.

    Our own wording of the published prompt: the objects, a game as an example, the JSON that
    `asking.decode_question` reads. No chat markers and no begin token are in it.
    """
    named = ", ".join(ten_words() if words is None else words)
    return fill(load_prompt("ask_for_object_prompt"), words=named)


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
