"""Preference pairs from Python: whole dialogues of one task, the better one preferred."""

from __future__ import annotations

from collections.abc import Iterable

from sweet_rl.errors import UsageError
from sweet_rl.grouping import group_by_task
from sweet_rl.preferences.trajectory_pairs import margin_pairs, pair_rows, trajectory_pairs
from sweet_rl.types import Trajectory


def pairs(
    trajectories: Iterable[Trajectory], *, margin: float | None = None, with_ground_truth: bool = False
) -> list[dict[str, str]]:
    """Pairs of graded episodes of one task; what the evaluation commands write for `train_dpo`.

    Args:
        trajectories: with rewards, several of each task, as many of one as of the other.
        margin: by how much rewards of a pair differ at least; default: an episode with reward 1 is
            preferred to those of its task with less, as published for hidden tests.
        with_ground_truth: put the hidden solution before each dialogue: the critic's data.

    Returns:
        Rows of a preference file: {"chosen": text, "rejected": text}, prompts and all.

    Raises:
        UsageError: no episode has a reward.
        DataError: tasks have different numbers of episodes.
    """
    known = list(trajectories)
    rewards = [None if one.failed else one.reward for one in known]
    if known and all(reward is None for reward in rewards):
        raise UsageError("None of these episodes has a reward: grade them first (sweet_rl.grade).")
    if margin is not None and not margin > 0:
        raise UsageError(f"margin must be above 0, got {margin}.")
    if not known:
        return []
    groups = group_by_task(known, len(known) // len({one.task.task_id for one in known}))
    usable = [
        one.last_turn is not None and reward is not None for one, reward in zip(known, rewards, strict=True)
    ]
    if margin is None:
        found = trajectory_pairs([reward or 0.0 for reward in rewards], groups, usable)
    else:
        found = margin_pairs(rewards, groups, margin, usable)
    return pair_rows(known, found, with_ground_truth=with_ground_truth)
