"""Pairs of whole trajectories of one task: the stage-1 data of SWEET-RL (spec §4.3).

A task gives pairs when its best repeat is right (reward at least 1): the first best one is preferred to every
repeat with a smaller reward.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sweet_rl.types import Trajectory

PREFIX = "In light that the final answer is: {ground_truth}."
"""What precedes a dialogue whose reader is told the hidden solution (spec §4.3)."""


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


def with_solution(prompt: str, ground_truth: str) -> str:
    """The prompt as the critic reads it: the hidden solution directly before it (spec §4.3)."""
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
    """The pairs as rows of a published preference file: `{"chosen": text, "rejected": text}` (spec §2.4)."""
    return [
        {
            "chosen": dialogue_text(trajectories[pair.chosen], with_ground_truth=with_ground_truth),
            "rejected": dialogue_text(trajectories[pair.rejected], with_ground_truth=with_ground_truth),
        }
        for pair in pairs
    ]
