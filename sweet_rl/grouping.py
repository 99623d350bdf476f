"""Which rows are repeats of the same task, and which are of another one.

By identity (`task_id`) wherever the rows have it; the published order (row `j * num_tasks + i` is repeat j of
task i) is accepted as it was, and decides when a file holds the same task twice.

Published behaviour: docs/published/sweet_rl.md#row-order.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import TypeVar

from sweet_rl.errors import DataError
from sweet_rl.types import Trajectory

_Key = TypeVar("_Key")


def group_by_task(trajectories: Sequence[Trajectory], k: int, *, path: str | None = None) -> list[list[int]]:
    """Row indices of each task, in order of the tasks' first rows, its `k` repeats in order.

    Args:
        trajectories: all rows of a file.
        k: repeats of each task.
        path: the file, for the error.

    Raises:
        DataError: the rows do not form groups of `k`; names the first task that has another number of rows.
    """
    rows = len(trajectories)
    if k < 1 or rows % k:
        raise DataError(
            f"holds {rows} rows, which is not a multiple of k",
            path=path,
            value=k,
            repair="Give --k the number of repeats (--repeats) that the file was made with.",
        )
    if _in_published_order(trajectories, k):
        num_tasks = rows // k
        return [list(range(task, rows, num_tasks)) for task in range(num_tasks)]
    groups = group_by_identity(trajectories)
    for members in groups:
        if len(members) != k:
            first = min(members)
            raise DataError(
                f"has {len(members)} rows for one task where k = {k} are expected",
                path=path,
                line=first + 1,
                field="task",
                value=trajectories[first].task.task_id,
                repair="Give --k the number of repeats, or finish the run with --to_continue.",
            )
    return groups


def group_by_identity(trajectories: Sequence[Trajectory]) -> list[list[int]]:
    """Row indices of each task, in order of the tasks' first rows, as many repeats as there are, in order."""
    groups: dict[str, list[int]] = {}
    for index, trajectory in enumerate(trajectories):
        groups.setdefault(trajectory.task.task_id, []).append(index)
    return [sorted(members, key=lambda i: trajectories[i].sample_index) for members in groups.values()]


def repeats_of(groups: Sequence[Sequence[int]]) -> int | None:
    """How many repeats every task has; None where they differ."""
    sizes = {len(group) for group in groups}
    return sizes.pop() if len(sizes) == 1 else None


def _in_published_order(trajectories: Sequence[Trajectory], k: int) -> bool:
    """The published check: each row has the description of the row `num_tasks` before it."""
    num_tasks = len(trajectories) // k
    return all(
        earlier.task.problem_description == later.task.problem_description
        for earlier, later in zip(trajectories, trajectories[num_tasks:], strict=False)
    )


def other_places(keys: Sequence[_Key], other: Callable[[_Key, _Key], bool] = operator.ne) -> list[int]:
    """For every place one whose key is another: whose input to try in its stead, in a swap test.

    The first one from half way round on, as neighbours are often of one task, or alike. Where there is no
    other everyone keeps its own place.

    Args:
        keys: of all places.
        other: whether the second key is another than the first.
    """
    count = len(keys)
    return [
        next(
            (at for step in range(count) if other(key, keys[at := (place + count // 2 + step) % count])),
            place,
        )
        for place, key in enumerate(keys)
    ]
