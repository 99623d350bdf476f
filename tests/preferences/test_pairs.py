"""Drawing pairs of turns and of dialogues, by hand; what keeps a pair out."""

import json
import random

import pytest

from sweet_rl.errors import DataError
from sweet_rl.preferences.candidates import candidates_from_rows
from sweet_rl.preferences.step_pairs import (
    StepPair,
    across,
    allowed_pairs,
    best,
    dialogue_hard_negatives,
    draw_pairs,
    earlier_turns,
    halves,
    hard_negatives,
    pair_row,
    published_draws,
    right_pairs,
    succeeded,
    twin,
    twins_of,
    why_unusable,
)
from sweet_rl.preferences.trajectory_pairs import TrajectoryPair, pair_rows, trajectory_pairs
from sweet_rl.records import load_trajectories, trajectories_from_rows
from sweet_rl.records.rows import group_by_task
from sweet_rl.types import AgentTurn, FinishReason, Message, Task, Trajectory


def ranked(texts, scores, **fields):
    row = {"input": "IN:", "ground_truth": "g", "additional_outputs": texts, "judge_result": scores}
    (read,) = candidates_from_rows([(1, row | fields)])
    return read


def test_halves():
    assert halves([3.0, 1.0, 2.0, 0.0]) == ([3, 1], [2, 0])
    assert halves([3.0, 1.0, 2.0]) == ([1], [2, 0])  # the middle one is in the upper half
    assert halves([5.0, None, 1.0, None]) == ([2], [0])
    assert halves([]) == ([], [])


def test_across_the_range():
    assert across([0.0, 1.0, 10.0, 5.0]) == ([0, 1], [3, 2])  # 5 is the middle, and above
    assert across([0.0, 1.0, 2.0, None]) == ([0], [1, 2])
    assert across([3.0, 3.0]) == ([], [0, 1])
    assert across([None]) == across([]) == ([], [])


def test_the_best_against_the_lower_half():
    assert best([3.0, 1.0, 2.0, 0.0]) == ([3, 1], [0])
    assert best([3.0, 1.0, 3.0, 0.0, 2.0]) == ([3, 1], [0, 2])  # both are the best
    assert best([None, 2.0]) == ([], [1])
    assert best([]) == ([], [])


def test_the_draws_decide_which_pairs_there_are():
    row = ranked(list("abcd"), [0.0, 0.1, 0.2, 9.0])
    assert allowed_pairs(row) == [(2, 0), (2, 1), (3, 0), (3, 1)]
    assert allowed_pairs(row, draws="across") == [(3, 0), (3, 1), (3, 2)]
    assert allowed_pairs(row, draws="best") == [(3, 0), (3, 1)]
    assert allowed_pairs(row, draws="across", margin=8.85) == [(3, 0), (3, 1)]
    assert allowed_pairs(row, min_score=0.2) == [(2, 0), (2, 1), (3, 0), (3, 1)]
    assert allowed_pairs(row, min_score=0.3) == [(3, 0), (3, 1)]
    assert allowed_pairs(row, min_score=9.1) == []
    assert "1 of 1 rows have no score of --min_score 9.1 or more" in why_unusable([row], min_score=9.1)


def test_an_oracle_says_how_many_pairs_are_right():
    row = ranked(
        ["good", "bad", "good too"],
        [2.0, 1.0, 0.0],
        messages=[{"role": "user", "content": "hi"}, {"role": "assistant", "content": "good"}],
    )
    seen = []

    def judge(solution, messages, turn):
        seen.append((solution, [m.content for m in messages]))
        return turn.startswith("good")

    pairs = [StepPair(0, 1), StepPair(0, 2), StepPair(1, 2), StepPair(0, 1)]
    assert right_pairs([row], [pairs], judge) == (2, 1, 1)
    assert set(map(str, seen)) == {"('g', ['hi'])"}
    assert right_pairs([row], [pairs], lambda *_: None) is None


def test_ties_same_texts_and_small_margins_are_no_pairs():
    row = ranked(["a", "b", "c", "b"], [0.0, 1.0, 1.0, 2.0])
    # lower half: a, b(1); upper half: c(1), b(3); c ties with b(1), and b(3) has its text
    assert allowed_pairs(row) == [(2, 0), (3, 0)]
    assert allowed_pairs(row, margin=2.0) == [(3, 0)]
    assert allowed_pairs(row, margin=2.5) == []


def test_no_pair_of_texts_comes_twice():
    row = ranked(["good", "good", "bad", "bad"], [3.0, 2.0, 1.0, 0.0])
    assert len(allowed_pairs(row)) == 4
    assert draw_pairs(row, 8, random.Random(0)) == [(1, 3)]


def test_draws_are_uniform():
    row = ranked(list("abcd"), [0.0, 1.0, 2.0, 3.0])
    counts = dict.fromkeys(allowed_pairs(row), 0)
    rng = random.Random(0)
    for _ in range(2000):
        for pair in draw_pairs(row, 2, rng):
            counts[pair] += 1
    assert all(900 < count < 1100 for count in counts.values())
    assert len(counts) == 4


def test_rows_close_with_the_end_token_unless_they_were_cut():
    row = ranked(
        ["short", "long"],
        [1.0, 0.0],
        additional_token_ids=[[5, 2], [6]],
        additional_finish_reasons=["stop", "length"],
        tokenizer="abc",
        task_id="t",
        sample_index=1,
        turn_index=2,
    )
    assert pair_row(row, StepPair(0, 1), end_token="<e>", no_prompt=False) == {
        "prompt": "IN:",
        "chosen": "short<e>",
        "rejected": "long",
        "chosen_token_ids": [5, 2],
        "rejected_token_ids": [6],
        "tokenizer": "abc",
        "task_id": "t",
        "sample_index": 1,
        "turn_index": 2,
        "chosen_index": 0,
        "rejected_index": 1,
    }
    whole = pair_row(row, StepPair(0, 1), end_token="<e>", no_prompt=True)
    assert (whole["chosen"], whole["rejected"]) == ("IN:short<e>", "IN:long")
    assert "chosen_token_ids" not in whole
    published = pair_row(row, StepPair(0, 1), end_token="<e>", no_prompt=True, published=True)
    assert published == {"chosen": "IN:short<e>", "rejected": "IN:long<e>"}


def test_reasons():
    rows = [
        ranked(["a", "b"], [1.0, 1.0]),
        ranked(["a", "a"], [1.0, 2.0]),
        ranked([], []),
        ranked(["a", "b"], [None, 2.0]),
        ranked(["a", "b"], [1.9, 2.0]),
    ]
    assert not any(allowed_pairs(row, margin=0.5) for row in rows)
    words = why_unusable(rows, margin=0.5)
    assert "2 of 5 rows have fewer than two scored candidates" in words
    assert "1 of 5 rows have scores that are all the same" in words
    assert "1 of 5 rows have candidates that are all the same text" in words
    assert "1 of 5 rows have scores closer than --margin 0.5" in words


def test_the_published_rule_wants_the_same_number_everywhere():
    rows = [ranked(["a", "b"], [1.0, 0.0]), ranked(["a"], [1.0])]
    with pytest.raises(DataError, match="must have 2 scores"):
        published_draws(rows, 1, random.Random(0), get_sft=False)


MESSAGES = [
    {"role": "user", "content": "request"},
    {"role": "assistant", "content": "Is it red?", "output": "THOUGHT Is it red?"},
    {"role": "user", "content": "no"},
    {"role": "assistant", "content": "Is it big?"},
    {"role": "user", "content": "no"},
    {"role": "assistant", "content": "Is it old?", "output": "Is it old?"},
]


def trajectory(history):
    row = {"problem_description": "q", "ground_truth": "g"}
    task = Task("t", "q", "g", "", {}, row)
    return Trajectory(task=task, dialogue_history=history, answer=None)


def turn(**fields):
    row = {
        "input": "IN:",
        "ground_truth": "g",
        "additional_outputs": ["Is it new?", "Is it big?", "Is it wet?"],
        "additional_finish_reasons": ["length", "stop", "stop"],
        "judge_result": [2.0, 1.0, 0.0],
        "messages": MESSAGES,
        "older_output": "Is it old?",
        "reward": 1.0,
        "task_id": "t",
        "sample_index": 0,
        "turn_index": 2,
    }
    (read,) = candidates_from_rows([(1, row | fields)])
    return read


def negatives(row, pairs, count):
    return hard_negatives(row, pairs, count, random.Random(0), end_token="<e>", no_prompt=False)


def test_what_the_agent_has_said_before_is_rejected():
    assert earlier_turns(MESSAGES) == ["THOUGHT Is it red?", "Is it big?"]
    both = negatives(turn(), [StepPair(2, 1)], 9)
    assert [row["chosen"] for row in both] == ["Is it wet?<e>"] * 2
    assert {row["rejected"] for row in both} == {"THOUGHT Is it red?<e>", "Is it big?<e>"}
    assert len(negatives(turn(), [StepPair(2, 1)], 1)) == 1
    assert both[0] | {"rejected": ""} == {
        "prompt": "IN:",
        "chosen": "Is it wet?<e>",
        "rejected": "",
        "task_id": "t",
        "sample_index": 0,
        "turn_index": 2,
        "guard": "hard negative",
    }


def test_a_candidate_that_was_cut_gets_no_end():
    assert negatives(turn(), [StepPair(0, 1)], 1)[0]["chosen"] == "Is it new?"


def test_nothing_said_before_is_preferred_to_what_was_said_before():
    assert negatives(turn(), [StepPair(1, 2)], 9) == []
    assert negatives(turn(), [], 9) == []
    assert negatives(turn(messages=MESSAGES[:2]), [StepPair(2, 1)], 9) == []


def test_of_dialogues_a_turn_of_the_better_one_stands_against_an_earlier_turn():
    def said(text, before):
        return AgentTurn("assistant", text, input=before, output=text)

    history = (
        Message("user", "q"),
        said("a", "I0:"),
        Message("user", "no"),
        said("b", "I1:"),
        Message("user", "no"),
    )
    better = trajectory((*history, said("a", "I2:")))
    worse = trajectory((Message("user", "q"), said("c", "J0:")))
    pairs = [TrajectoryPair(0, 1)]
    row = {"prompt": "I1:", "chosen": "b", "rejected": "a", "guard": "hard negative"}
    # the first turn has none before it, the last one is a repetition itself
    assert dialogue_hard_negatives([better, worse], pairs, 9) == [row]
    assert dialogue_hard_negatives([better, worse], [TrajectoryPair(1, 0)], 9) == []
    assert dialogue_hard_negatives([better, worse], pairs, 0) == []


def test_all_turns_of_a_dialogue_can_be_twins():
    def said(text, before, **more):
        return AgentTurn("assistant", text, input=before, output=text, **more)

    cut = said("b", "I1:", finish_reason=FinishReason.LENGTH)
    history = (Message("user", "q"), said("a", "I0:"), Message("user", "no"), cut)
    rows = twins_of(trajectory(history), end_token="<e>", no_prompt=False)
    assert [(row["prompt"], row["chosen"], row["rejected"]) for row in rows] == [
        ("I0:", "a<e>", "a<e>"),
        ("I1:", "b", "b"),
    ]
    assert [row["turn_index"] for row in rows] == [0, 1]


def test_a_twin_is_the_turn_that_was_taken():
    held = twin(turn(), end_token="<e>", no_prompt=True)
    assert (held["chosen"], held["rejected"], held["guard"]) == (
        "IN:Is it old?<e>",
        "IN:Is it old?<e>",
        "twin",
    )
    assert "prompt" not in held
    assert twin(turn(older_output=None), end_token="<e>", no_prompt=True) is None


@pytest.mark.parametrize(
    ("reward", "least", "won"), [(1.0, 1.0, True), (0.9, 1.0, False), (0.9, 0.8, True), (None, 0.0, False)]
)
def test_success(reward, least, won):
    assert succeeded(turn(reward=reward), least) is won


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
