"""Pairs of whole trajectories of one task: the stage-1 data of SWEET-RL.

Code (`trajectory_pairs`): a task gives pairs when its best repeat is right (reward at least 1): the first
best one is preferred to every repeat with a smaller reward. Pages (`margin_pairs`): of any two
repeats whose rewards differ by a margin the better one is preferred.

Published behaviour: docs/published/sweet_rl.md#trajectory-pairs, #grading-pages, #files.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

from sweet_rl.types import Trajectory

PREFIX = "In light that the final answer is: {ground_truth}."
"""What precedes a dialogue whose reader is given the hidden solution."""


class TrajectoryPair(NamedTuple):
    """Row indices of the preferred and the other repeat of one task."""

    chosen: int
    rejected: int


def trajectory_pairs(
    rewards: Sequence[float], groups: Sequence[Sequence[int]], usable: Sequence[bool] | None = None
) -> list[TrajectoryPair]:
    """All pairs, in task order, then repeat order.

    Args:
        rewards: one for each row.
        groups: row indices of each task's repeats (`sweet_rl.grouping.group_by_task`).
        usable: False for rows that cannot stand in a pair (no final agent turn); default all.
    """
    pairs: list[TrajectoryPair] = []
    for group in groups:
        members = [row for row in group if usable is None or usable[row]]
        best = max((rewards[row] for row in members), default=0.0)
        if best < 1:
            continue
        chosen = next(row for row in members if rewards[row] == best)
        pairs.extend(TrajectoryPair(chosen, row) for row in members if rewards[row] < best)
    return pairs


def margin_pairs(
    rewards: Sequence[float | None],
    groups: Sequence[Sequence[int]],
    margin: float,
    usable: Sequence[bool] | None = None,
) -> list[TrajectoryPair]:
    """All pairs of repeats whose rewards differ by `margin` or more, in task order, then repeat order.

    Args:
        rewards: one for each row; None for rows without one, which stand in no pair.
        groups: row indices of each task's repeats.
        margin: above 0; compared with the difference of the rewards as they are stored.
        usable: False for rows that cannot stand in a pair (no final agent turn); default all.
    """
    pairs: list[TrajectoryPair] = []
    for group in groups:
        known = [
            (row, reward)
            for row in group
            if (reward := rewards[row]) is not None and (usable is None or usable[row])
        ]
        for (row, reward), (later, other) in itertools.combinations(known, 2):
            if abs(reward - other) >= margin:
                pairs.append(TrajectoryPair(row, later) if reward > other else TrajectoryPair(later, row))
    return pairs


def with_solution(prompt: str, ground_truth: str) -> str:
    """The prompt as the critic reads it: the hidden solution directly before it."""
    return PREFIX.format(ground_truth=ground_truth) + prompt


def dialogue_text(trajectory: Trajectory, *, with_ground_truth: bool) -> str:
    """The whole dialogue as the model saw and wrote it; with the hidden solution before it for the critic.

    Raises:
        ValueError: the trajectory does not end with an agent turn (`Trajectory.last_turn`).
    """
    last = trajectory.last_turn
    if last is None:
        raise ValueError(f"trajectory {trajectory.key} does not end with an agent turn")
    text = last.input + last.output
    return with_solution(text, trajectory.task.ground_truth) if with_ground_truth else text


def pair_rows(
    trajectories: Sequence[Trajectory], pairs: Sequence[TrajectoryPair], *, with_ground_truth: bool
) -> list[dict[str, str]]:
    """The pairs as rows of a published preference file: `{"chosen": text, "rejected": text}`."""
    return [
        {
            "chosen": dialogue_text(trajectories[pair.chosen], with_ground_truth=with_ground_truth),
            "rejected": dialogue_text(trajectories[pair.rejected], with_ground_truth=with_ground_truth),
        }
        for pair in pairs
    ]


def turn_pair_rows(
    trajectories: Sequence[Trajectory], pairs: Sequence[TrajectoryPair], *, with_ground_truth: bool
) -> list[dict[str, dict[str, str]]]:
    """The pairs as rows of a published file for pages: `{"input", "output"}` on each side."""

    def side(row: int) -> dict[str, str]:
        last = trajectories[row].last_turn
        if last is None:
            raise ValueError(f"trajectory {trajectories[row].key} does not end with an agent turn")
        ground_truth = trajectories[row].task.ground_truth
        prompt = with_solution(last.input, ground_truth) if with_ground_truth else last.input
        return {"input": prompt, "output": last.output}

    return [{"chosen": side(pair.chosen), "rejected": side(pair.rejected)} for pair in pairs]
