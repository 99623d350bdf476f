"""Hard negatives and twins, by hand."""

import random

import pytest

from sweet_rl.preferences.candidates import candidates_from_rows
from sweet_rl.preferences.step_pairs import (
    StepPair,
    dialogue_hard_negatives,
    earlier_turns,
    hard_negatives,
    succeeded,
    twin,
    twins_of,
)
from sweet_rl.preferences.trajectory_pairs import TrajectoryPair
from sweet_rl.types import AgentTurn, FinishReason, Message, Task, Trajectory

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
