"""Drawing pairs of turns and of dialogues, by hand; what keeps a pair out."""

import json
import random

import pytest

from sweet_rl.errors import DataError
from sweet_rl.preferences.candidates import candidates_from_rows
from sweet_rl.preferences.pairs import (
    DRAWS,
    StepPair,
    TrajectoryPair,
    allowed_pairs,
    dialogue_hard_negatives,
    draw_pairs,
    hard_negatives,
    pair_row,
    pair_rows,
    published_draws,
    right_pairs,
    succeeded,
    trajectory_pairs,
    twin,
    twins_of,
    why_unusable,
)
from sweet_rl.records import load_trajectories, trajectories_from_rows
from sweet_rl.records.rows import group_by_task
from sweet_rl.types import AgentTurn, FinishReason, Message, Task, Trajectory


def ranked(texts, scores, **fields):
    row = {"input": "IN:", "ground_truth": "g", "additional_outputs": list(texts), "judge_result": scores}
    (read,) = candidates_from_rows([(1, row | fields)])
    return read


@pytest.mark.parametrize(
    ("draws", "scores", "sides"),
    [
        ("halves", [3.0, 1.0, 2.0, 0.0], ([3, 1], [2, 0])),
        ("halves", [3.0, 1.0, 2.0], ([1], [2, 0])),  # the middle one is in the upper half
        ("halves", [5.0, None, 1.0, None], ([2], [0])),
        ("halves", [], ([], [])),
        ("across", [0.0, 1.0, 10.0, 5.0], ([0, 1], [3, 2])),  # 5 is the middle, and above
        ("across", [0.0, 1.0, 2.0, None], ([0], [1, 2])),
        ("across", [3.0, 3.0], ([], [0, 1])),
        ("across", [None], ([], [])),
        ("across", [], ([], [])),
        ("best", [3.0, 1.0, 2.0, 0.0], ([3, 1], [0])),
        ("best", [3.0, 1.0, 3.0, 0.0, 2.0], ([3, 1], [0, 2])),  # both are the best
        ("best", [None, 2.0], ([], [1])),
        ("best", [], ([], [])),
    ],
)
def test_two_sides_of_scores(draws, scores, sides):
    assert DRAWS[draws](scores) == sides


@pytest.mark.parametrize(
    ("texts", "scores", "rule", "pairs"),
    [
        ("abcd", [0.0, 0.1, 0.2, 9.0], {}, [(2, 0), (2, 1), (3, 0), (3, 1)]),
        ("abcd", [0.0, 0.1, 0.2, 9.0], {"draws": "across"}, [(3, 0), (3, 1), (3, 2)]),
        ("abcd", [0.0, 0.1, 0.2, 9.0], {"draws": "best"}, [(3, 0), (3, 1)]),
        ("abcd", [0.0, 0.1, 0.2, 9.0], {"draws": "across", "margin": 8.85}, [(3, 0), (3, 1)]),
        ("abcd", [0.0, 0.1, 0.2, 9.0], {"min_score": 0.2}, [(2, 0), (2, 1), (3, 0), (3, 1)]),
        ("abcd", [0.0, 0.1, 0.2, 9.0], {"min_score": 0.3}, [(3, 0), (3, 1)]),
        ("abcd", [0.0, 0.1, 0.2, 9.0], {"min_score": 9.1}, []),
        # lower half: a, b(1); upper half: c(1), b(3); c ties with b(1), and b(3) has its text
        ("abcb", [0.0, 1.0, 1.0, 2.0], {}, [(2, 0), (3, 0)]),
        ("abcb", [0.0, 1.0, 1.0, 2.0], {"margin": 2.0}, [(3, 0)]),
        ("abcb", [0.0, 1.0, 1.0, 2.0], {"margin": 2.5}, []),
    ],
)
def test_which_pairs_there_may_be(texts, scores, rule, pairs):
    assert allowed_pairs(ranked(texts, scores), **rule) == pairs


def test_an_oracle_says_how_many_pairs_are_right():
    messages = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "good"}]
    row, seen = ranked(["good", "bad", "good too"], [2.0, 1.0, 0.0], messages=messages), []

    def judge(solution, messages, turn):
        seen.append((solution, [m.content for m in messages]))
        return turn.startswith("good")

    pairs = [StepPair(0, 1), StepPair(0, 2), StepPair(1, 2), StepPair(0, 1)]
    assert right_pairs([row], [pairs], judge) == (2, 1, 1)
    assert set(map(str, seen)) == {"('g', ['hi'])"}
    assert right_pairs([row], [pairs], lambda *_: None) is None


def test_draws_are_uniform_and_no_pair_of_texts_comes_twice():
    row = ranked(["good", "good", "bad", "bad"], [3.0, 2.0, 1.0, 0.0])
    assert len(allowed_pairs(row)) == 4
    assert draw_pairs(row, 8, random.Random(0)) == [(1, 3)]
    row, rng = ranked("abcd", [0.0, 1.0, 2.0, 3.0]), random.Random(0)
    counts = dict.fromkeys(allowed_pairs(row), 0)
    for _ in range(2000):
        for pair in draw_pairs(row, 2, rng):
            counts[pair] += 1
    assert len(counts) == 4
    assert all(900 < count < 1100 for count in counts.values())


def test_rows_close_with_the_end_token_unless_they_were_cut():
    key = {"task_id": "t", "sample_index": 1, "turn_index": 2}
    sampled = {"additional_token_ids": [[5, 2], [6]], "additional_finish_reasons": ["stop", "length"]}
    row = ranked(["short", "long"], [1.0, 0.0], tokenizer="abc", **sampled, **key)
    sides = {"chosen": "short<e>", "rejected": "long", "chosen_token_ids": [5, 2], "rejected_token_ids": [6]}
    places = {"chosen_index": 0, "rejected_index": 1}
    found = pair_row(row, StepPair(0, 1), end_token="<e>", no_prompt=False)
    assert found == {"prompt": "IN:", "tokenizer": "abc"} | sides | key | places
    whole = pair_row(row, StepPair(0, 1), end_token="<e>", no_prompt=True)
    assert (whole["chosen"], whole["rejected"]) == ("IN:short<e>", "IN:long")
    assert "chosen_token_ids" not in whole
    published = pair_row(row, StepPair(0, 1), end_token="<e>", no_prompt=True, published=True)
    assert published == {"chosen": "IN:short<e>", "rejected": "IN:long<e>"}


def test_reasons():
    given = [("ab", [1.0, 1.0]), ("aa", [1.0, 2.0]), ("", []), ("ab", [None, 2.0]), ("ab", [1.9, 2.0])]
    rows = [ranked(*one) for one in given]
    assert not any(allowed_pairs(row, margin=0.5) for row in rows)
    words = why_unusable(rows, margin=0.5)
    assert "2 of 5 rows have fewer than two scored candidates" in words
    assert "1 of 5 rows have scores that are all the same" in words
    assert "1 of 5 rows have candidates that are all the same text" in words
    assert "1 of 5 rows have scores closer than --margin 0.5" in words
    assert "1 of 1 rows have no score of --min_score 9.1 or more" in why_unusable(rows[4:], min_score=9.1)


def test_the_published_rule_wants_the_same_number_everywhere():
    with pytest.raises(DataError, match="must have 2 scores"):
        published_draws([ranked("ab", [1.0, 0.0]), ranked("a", [1.0])], 1, random.Random(0), get_sft=False)


MESSAGES = [
    {"role": "user", "content": "request"},
    {"role": "assistant", "content": "Is it red?", "output": "THOUGHT Is it red?"},
    {"role": "user", "content": "no"},
    {"role": "assistant", "content": "Is it big?"},
    {"role": "user", "content": "no"},
    {"role": "assistant", "content": "Is it old?", "output": "Is it old?"},
]
KEY = {"task_id": "t", "sample_index": 0, "turn_index": 2}


def trajectory(history):
    row = {"problem_description": "q", "ground_truth": "g"}
    return Trajectory(task=Task("t", "q", "g", "", {}, row), dialogue_history=history, answer=None)


def said(text, before, **more):
    return AgentTurn("assistant", text, input=before, output=text, **more)


def turn(**fields):
    row = {"messages": MESSAGES, "older_output": "Is it old?", "reward": 1.0} | KEY
    row |= {"additional_finish_reasons": ["length", "stop", "stop"]} | fields
    return ranked(["Is it new?", "Is it big?", "Is it wet?"], [2.0, 1.0, 0.0], **row)


def negatives(row, pairs, count):
    return hard_negatives(row, pairs, count, random.Random(0), end_token="<e>", no_prompt=False)


def test_what_the_agent_has_said_before_is_rejected():
    both = negatives(turn(), [StepPair(2, 1)], 9)
    assert [row["chosen"] for row in both] == ["Is it wet?<e>"] * 2
    assert {row["rejected"] for row in both} == {"THOUGHT Is it red?<e>", "Is it big?<e>"}
    assert len(negatives(turn(), [StepPair(2, 1)], 1)) == 1
    sides = {"chosen": "Is it wet?<e>", "rejected": ""}
    assert both[0] | {"rejected": ""} == {"prompt": "IN:", "guard": "hard negative"} | sides | KEY
    assert negatives(turn(), [StepPair(0, 1)], 1)[0]["chosen"] == "Is it new?"  # was cut: no end token
    assert negatives(turn(), [StepPair(1, 2)], 9) == []  # was said before, too
    assert negatives(turn(), [], 9) == []
    assert negatives(turn(messages=MESSAGES[:2]), [StepPair(2, 1)], 9) == []


def test_of_dialogues_a_turn_of_the_better_one_stands_against_an_earlier_turn():
    asked, no = Message("user", "q"), Message("user", "no")
    better = trajectory((asked, said("a", "I0:"), no, said("b", "I1:"), no, said("a", "I2:")))
    worse = trajectory((asked, said("c", "J0:")))
    row = {"prompt": "I1:", "chosen": "b", "rejected": "a", "guard": "hard negative"}
    # the first turn has none before it, the last one is a repetition itself
    assert dialogue_hard_negatives([better, worse], [TrajectoryPair(0, 1)], 9) == [row]
    assert dialogue_hard_negatives([better, worse], [TrajectoryPair(1, 0)], 9) == []
    assert dialogue_hard_negatives([better, worse], [TrajectoryPair(0, 1)], 0) == []


def test_a_twin_is_the_turn_that_was_taken_and_all_turns_of_a_dialogue_can_be_some():
    held = twin(turn(), end_token="<e>", no_prompt=True)
    assert (held["chosen"], held["rejected"], held["guard"]) == (*["IN:Is it old?<e>"] * 2, "twin")
    assert "prompt" not in held
    assert twin(turn(older_output=None), end_token="<e>", no_prompt=True) is None
    cut = said("b", "I1:", finish_reason=FinishReason.LENGTH)
    history = (Message("user", "q"), said("a", "I0:"), Message("user", "no"), cut)
    rows = twins_of(trajectory(history), end_token="<e>", no_prompt=False)
    texts = [(row["prompt"], row["chosen"], row["rejected"], row["turn_index"]) for row in rows]
    assert texts == [("I0:", "a<e>", "a<e>", 0), ("I1:", "b", "b", 1)]


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


@pytest.mark.parametrize(
    ("name", "with_ground_truth"),
    [
        ("expected_preferences_given_reward.jsonl", False),
        ("expected_preferences.jsonl", False),
        ("expected_ground_truth_preferences.jsonl", True),
    ],
)
def test_rewards_give_the_published_files(golden, name, with_ground_truth):
    given = "given_reward" in name
    source = "trajectories_k3_with_given_reward.jsonl" if given else "trajectories_k3.jsonl"
    trajectories, expected = (
        load_trajectories(golden / source),
        json.loads((golden / "expected.json").read_text()),
    )
    rewards = [t.reward for t in trajectories] if given else expected["rewards_row_order"]
    pairs = trajectory_pairs(rewards, group_by_task(trajectories, 3))
    if not given:
        indices = [{"chosen": [p.chosen], "rejected": [p.rejected]} for p in pairs]
        assert indices == expected["pair_row_indices"]
    assert pair_rows(trajectories, pairs, with_ground_truth=with_ground_truth) == expected_rows(golden / name)


def test_a_file_that_is_not_in_groups_of_k_is_refused_and_any_order_is_accepted(golden):
    """The original fails with an AssertionError (expected.json, errors)."""
    rows = expected_rows(golden / "trajectories_k3.jsonl")
    for k in (5, 2):
        with pytest.raises(DataError, match="--k"):
            group_by_task(load_trajectories(golden / "trajectories_k3.jsonl"), k, path="f.jsonl")
    backwards = trajectories_from_rows(list(enumerate(reversed(rows), start=1)))
    for group in group_by_task(backwards, 3):
        assert len({backwards[row].task.problem_description for row in group}) == 1


def test_rules_by_hand():
    groups = [[0, 3], [1, 4], [2, 5]]
    # task 0: the first best one wins, ties give nothing; task 1: the best is partial; task 2: one pair
    assert trajectory_pairs([1, 0.5, 0, 1, 0.9, 1], groups) == [(5, 2)]
    assert trajectory_pairs([1, 0, 0, 0.5, 0, 0], groups) == [(0, 3)]
    # a row that does not end with an agent turn is neither chosen nor rejected
    assert trajectory_pairs([1, 0, 0, 0.5, 0, 0], groups, usable=[False, *[True] * 5]) == []
