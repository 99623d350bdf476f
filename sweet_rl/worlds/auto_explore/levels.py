"""Levels of a curriculum: the order in which tasks are learned. The trainer knows when.

Published behaviour: docs/published/reflect_rl.md#curriculum, #deviations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TypeVar

from sweet_rl.errors import UsageError
from sweet_rl.types import Compat

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class LevelFlags:
    """How tasks become levels; names and defaults as published.

    Attributes:
        depth_curriculum: by the depth of the files asked for; else there is one level.
        merge_first_two: the two shallowest levels are one.
        merge_after_first_k: so many levels stay (counted after that), the rest are one.
        few_data: of the first level only so many tasks, and no other level; 0 for all.
        easy: tasks without a question stay.
        curriculum_index: only this level, from 0; negative for all.
        compat: "published": a task is filed under the depth of each of its files, not once.
    """

    depth_curriculum: bool = False
    merge_first_two: bool = False
    merge_after_first_k: int = 3
    few_data: int = 0
    easy: bool = False
    curriculum_index: int = -1
    compat: Compat = "fixed"


def levels_of(
    items: Sequence[T],
    flags: LevelFlags,
    *,
    paths: Callable[[T], Sequence[str]],
    question: Callable[[T], str],
) -> list[list[T]]:
    """Tasks of AutoExplore as levels, each in the given order."""
    if flags.merge_after_first_k < 1 or flags.few_data < 0:
        raise UsageError(
            f"merge_after_first_k must be at least 1 and few_data at least 0, got "
            f"{flags.merge_after_first_k} and {flags.few_data}."
        )
    asked = [item for item in items if flags.easy or question(item).strip()]
    levels = by_depth(asked, flags, paths) if flags.depth_curriculum else [asked]
    levels = pick_level(levels, flags.curriculum_index)
    return [levels[0][: flags.few_data]] if flags.few_data else levels


def by_depth(items: Sequence[T], flags: LevelFlags, paths: Callable[[T], Sequence[str]]) -> list[list[T]]:
    """Levels by the depth of the files: the number of `/`, of the shallowest unless `compat="published"`."""
    filed: dict[int, list[T]] = {}
    for item in items:
        depths = [path.count("/") for path in paths(item)]
        for depth in depths if flags.compat == "published" else [min(depths, default=0)]:
            filed.setdefault(depth, []).append(item)
    levels = [filed[depth] for depth in sorted(filed)]
    if flags.merge_first_two and len(levels) > 1:
        levels[:2] = [levels[0] + levels[1]]
    first, rest = levels[: flags.merge_after_first_k], levels[flags.merge_after_first_k :]
    return [*first, *([list(chain(*rest))] if rest else [])]


def pick_level(levels: list[T], index: int) -> list[T]:
    """Only the level `index`; all of them where it is negative."""
    if index < 0:
        return levels
    if index >= len(levels):
        raise UsageError(
            f"curriculum_index must be below {len(levels)}, the number of levels, got {index}; -1 takes all."
        )
    return [levels[index]]
