"""The shared part of question games' tasks: the first words, and which tasks are held out.

A row is a plain object: what the agent is shown first, what only the oracle may know, and the names by which
the thing may be guessed (`aliases`). The rows of a game are always the same; nothing is drawn but the splits.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Final, TypeVar

from sweet_rl.errors import UsageError

FIRST_OBSERVATION: Final = "Questions:\n"
"""What the agent sees before its first question."""

TEST_SHARE: Final = 0.2
"""How much of a list is held out for evaluation, rounded to whole tasks."""

_SPLIT_SEED: Final = "question games, held out"
"""Fixed, so that everybody's held-out tasks are the same."""

Row = TypeVar("Row")


def split_of(rows: Sequence[Row], split: str, game: str, known: Sequence[str]) -> list[Row]:
    """All rows, those held out ("test"), or the others ("train"); each in the published order."""
    if not split:
        return list(rows)
    if split not in {"train", "test"}:
        raise UsageError(
            f"'{game}:{split}' is no split of {game}. Use {game!r} for all of it, or "
            f"{', '.join(f'{game}:{name}' for name in known)}."
        )
    held_out = set(Random(_SPLIT_SEED).sample(range(len(rows)), round(TEST_SHARE * len(rows))))
    return [row for index, row in enumerate(rows) if (index in held_out) == (split == "test")]
