"""Household records and texts: what the player does, what is passed over, what the teacher says."""

import json
import random

import pytest

from sweet_rl.chat.reflect_format import sft_texts
from sweet_rl.records import task_from_row
from sweet_rl.worlds.alfworld.data import household_texts, play_household
from sweet_rl.worlds.alfworld.engine import EngineState
from sweet_rl.worlds.alfworld.game import HouseholdGame
from sweet_rl.worlds.alfworld.players import thought
from sweet_rl.worlds.text_game_world import ACTION_HEAD

PLAN = ("go to fridge 1", "take tomato 1 from fridge 1", "move tomato 1 to microwave 1")
INTRODUCTION = "Welcome.\n\nYour task is to: put some tomato in microwave."


class House:
    """An engine whose game is solved by three commands in a row; anything else changes nothing."""

    def begin(self, source):
        return self._state([])

    def play(self, source, before, command):
        return self._state([*before, command])

    def plan(self, source, before):
        return PLAN[self._at(before) :]

    def _at(self, done):
        at = 0
        for command in done:
            at += command == PLAN[at]
        return at

    def _state(self, done):
        at = self._at(done)
        told = f"You {done[-1]}." if done else INTRODUCTION
        return EngineState(told, ("look", *PLAN[at : at + 1]), score=float(at == 3), done=at == 3)


def task():
    return task_from_row(
        {"task_id": "t", "problem_description": "p", "ground_truth": "house-0", "game": "house"}
    )


def play(seed, **flags):
    return play_household(seed, [task()], lambda: HouseholdGame(House()), **flags)


def test_nothing_random_is_the_planner():
    states = play(0, random_share=0)
    assert [state.action for state in states] == [state.best for state in states]
    assert len(states) == 3
    assert {state.extra["problem"] for state in states} == {"house-0"}
    assert INTRODUCTION in states[0].text
    assert "Here is the previous path" not in states[0].text


def test_mostly_random_games_end_at_the_horizon_or_with_success():
    lengths = {len(play(seed, random_share=1.0)) for seed in range(40)}
    assert max(lengths) <= 15
    assert min(lengths) >= 3
    assert [m.action for m in play(3)] == [m.action for m in play(3)]


def test_the_embedded_teacher_says_whether_the_last_command_helped():
    first, *_ = play(0, random_share=0)
    said = first.known(random.Random(0))
    assert "put some tomato in microwave" in said
    assert "go to fridge 1" in said
    _, second, _ = play(0, random_share=0)
    said = second.known(random.Random(0))
    assert "helped" in said or "forward" in said
    helped = thought(INTRODUCTION, ["go to fridge 1"], PLAN[1:], helped=True, draws=random.Random(0))
    assert "helped" in helped or "forward" in helped
    not_helped = thought(INTRODUCTION, ["look"], PLAN, helped=False, draws=random.Random(0))
    assert "no use" in not_helped or "did not help" in not_helped
    assert "no way" in thought(INTRODUCTION, ["look"], (), helped=False, draws=random.Random(0))


def records(**changes):
    (state, *_) = play(0, random_share=0)
    return [{"state": state.text, "reflection": "R", "action": 1, "problem": "a-Tomato-b", **changes}]


def test_texts_are_what_games_show():
    (record,) = records()
    texts = household_texts([record], containing="Tomato")
    made = sft_texts(record["state"], ACTION_HEAD, "R", "1")
    assert {name: lines for name, [*lines] in texts.files.items()} == {
        "sft.jsonl": [made.plain],
        "sft_reflection.jsonl": [made.reflection],
        "sft_policy.jsonl": [made.policy],
    }
    assert made.plain.endswith("Action 1: go to fridge 1 # Action:\n1")
    published = household_texts([record], containing="Tomato", compat="published")
    assert published.files["sft_reflectioner.jsonl"] == [made.reflection]


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"problem": "a-Apple-b"}, "record of another problem"),
        ({"reflection": "  "}, "record without a reflection"),
        ({"best_action": None}, "record without a best action"),
    ],
)
def test_what_is_passed_over(changes, why):
    texts = household_texts(
        records(**changes), containing="Tomato", label="best" if "best" in why else "taken"
    )
    assert texts.skipped == {why: 1}
    assert not any(texts.files.values())


def test_a_record_without_a_problem_counts():
    (record,) = records()
    del record["problem"]
    assert json.dumps(household_texts([record], containing="Tomato").files).count("R") >= 2
