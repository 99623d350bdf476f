"""Trajectory pairs against the published files (goldens b_pairs) and by hand."""

import json

import pytest

from sweet_rl.errors import DataError
from sweet_rl.preferences.trajectory_pairs import pair_rows, trajectory_pairs
from sweet_rl.records import load_trajectories, trajectories_from_rows
from sweet_rl.records.rows import group_by_task


@pytest.fixture
def golden(shared):
    return shared / "goldens/sweet_rl/b_pairs"


def expected_rows(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_given_rewards_give_the_published_file(golden):
    trajectories = load_trajectories(golden / "trajectories_k3_with_given_reward.jsonl")
    groups = group_by_task(trajectories, 3)
    pairs = trajectory_pairs([t.reward for t in trajectories], groups)
    rows = pair_rows(trajectories, pairs, with_ground_truth=False)
    assert rows == expected_rows(golden / "expected_preferences_given_reward.jsonl")


@pytest.mark.parametrize(
    ("name", "with_ground_truth"),
    [("expected_preferences.jsonl", False), ("expected_ground_truth_preferences.jsonl", True)],
)
def test_recorded_rewards_give_the_published_files(golden, name, with_ground_truth):
    expected = json.loads((golden / "expected.json").read_text())
    trajectories = load_trajectories(golden / "trajectories_k3.jsonl")
    groups = group_by_task(trajectories, 3)
    pairs = trajectory_pairs(expected["rewards_row_order"], groups)
    indices = [{"chosen": [p.chosen], "rejected": [p.rejected]} for p in pairs]
    assert indices == expected["pair_row_indices"]
    assert pair_rows(trajectories, pairs, with_ground_truth=with_ground_truth) == expected_rows(golden / name)


@pytest.mark.parametrize("k", [5, 2])
def test_a_file_that_is_not_in_groups_of_k_is_refused(golden, k):
    """The original fails with an AssertionError (expected.json, errors)."""
    trajectories = load_trajectories(golden / "trajectories_k3.jsonl")
    with pytest.raises(DataError, match="--k"):
        group_by_task(trajectories, k, path="f.jsonl")


def test_any_order_is_accepted_when_rows_say_which_task_they_are_of(golden):
    rows = expected_rows(golden / "trajectories_k3.jsonl")
    backwards = trajectories_from_rows(list(enumerate(reversed(rows), start=1)))
    groups = group_by_task(backwards, 3)
    for group in groups:
        assert len({backwards[row].task.problem_description for row in group}) == 1


def test_rules_by_hand():
    groups = [[0, 3], [1, 4], [2, 5]]
    # task 0: the first best one wins, ties give nothing; task 1: the best is partial; task 2: one pair
    assert trajectory_pairs([1, 0.5, 0, 1, 0.9, 1], groups) == [(5, 2)]
    assert trajectory_pairs([1, 0, 0, 0.5, 0, 0], groups) == [(0, 3)]
    # a row that does not end with an agent turn is neither chosen nor rejected
    assert trajectory_pairs([1, 0, 0, 0.5, 0, 0], groups, usable=[False, *[True] * 5]) == []
