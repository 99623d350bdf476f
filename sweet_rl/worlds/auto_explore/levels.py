"""Levels of a curriculum: the order in which tasks are learned. The trainer knows when.

Published behaviour: docs/published/reflect_rl.md#curriculum, #deviations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TypeVar

from sweet_rl.types import Compat

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class LevelFlags:
    """How tasks become levels; names and defaults as published.

    Attributes:
        depth_curriculum: by the depth of the files asked for; else there is one level.
        merge_first_two: the two shallowest levels are one.
        merge_after_first_k: so many levels stay (counted after that), the rest are one.
        easy: tasks without a question stay.
        compat: "published": a task is filed under the depth of each of its files, not once.
    """

    depth_curriculum: bool = False
    merge_first_two: bool = False
    merge_after_first_k: int = 3
    easy: bool = False
    compat: Compat = "fixed"


def levels_of(
    items: Sequence[T],
    flags: LevelFlags,
    *,
    paths: Callable[[T], Sequence[str]],
    question: Callable[[T], str],
) -> list[list[T]]:
    """Tasks of AutoExplore as levels, each in the given order."""
    asked = [item for item in items if flags.easy or question(item).strip()]
    return by_depth(asked, flags, paths) if flags.depth_curriculum else [asked]


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
