"""Reflect-RL's ALFWorld wrapper as recorded, driven by the same stand-in for the engine."""

import json

import pytest

from sweet_rl.errors import EpisodeError
from sweet_rl.types import Failure, StopReason
from sweet_rl.worlds.alfworld.engine import EngineState
from sweet_rl.worlds.alfworld.game import HouseholdGame

INTRODUCTION = "Welcome.\n\nYour task is to: put some tomato in microwave."
FIRST = ("go to fridge 1", "go to microwave 1", "look")
LATER = ("open fridge 1", "look")


class FakeEngine:
    """Says what the recorded run's engine said: the game is won by the second command."""

    fails = False

    def begin(self, source):
        return EngineState(INTRODUCTION, FIRST)

    def play(self, source, before, command):
        if self.fails:
            raise EpisodeError(StopReason.WORLD_FAILED, Failure("game_crashed", "hangs"))
        done = len(before) == 1
        return EngineState(f"You do: {command}", LATER, float(done), done)

    def plan(self, source, before):
        return ("go to microwave 1", "open microwave 1")


@pytest.fixture(scope="module")
def golden(shared):
    return json.loads((shared / "goldens/reflect_rl/eval_and_alfworld.json").read_text())["alfworld"]


def test_an_episode(golden):
    game = HouseholdGame(FakeEngine(), max_turns=3, compat="published")
    assert game.begin("x") == golden["first_prompt"]
    assert game.expert_label() == golden["oracle"]
    for step in golden["steps"]:
        moved = game.step(step["action"])
        assert moved.text == step["obs"]
        assert (moved.reward, moved.terminated, moved.truncated) == (
            step["reward"],
            step["done"],
            step["truncated"],
        )


def test_shuffled_labels(golden):
    game = HouseholdGame(FakeEngine(), shuffle_action=True, compat="published")
    assert game.begin("x", seed=2) == golden["shuffled_seed2"]["prompt"]
    label = {command: label for label, command in game._offered.items()}
    assert [label[command] for command in FIRST] == golden["shuffled_seed2"]["choices"]
    published = golden["shuffled_oracle_label"]
    assert game.expert_label() == published["oracle_action"]
    assert game._offered[published["oracle_action"]] == published["command_it_selects"]


def test_the_expert_label_is_right_by_default():
    game = HouseholdGame(FakeEngine(), shuffle_action=True)
    game.begin("x", seed=2)
    assert game._offered[game.expert_label()] == "go to microwave 1"


def test_no_such_label_at_the_horizon(golden):
    game = HouseholdGame(FakeEngine(), max_turns=1)
    game.begin("x")
    moved = game.step("9")
    want = golden["invalid_at_horizon"]
    assert (moved.reward, moved.terminated, moved.truncated) == (
        want["reward"],
        want["done"],
        want["truncated"],
    )


def test_an_engine_that_fails(golden, tmp_path):
    want, listed = golden["engine_error"], tmp_path / "alfworld_blacklist.txt"
    engine = FakeEngine()
    engine.fails = True
    source = "/data/json_2.1.1/train/x"
    published = HouseholdGame(engine, compat="published", blacklist=listed)
    published.begin(source)
    moved = published.step("0")
    assert (moved.reward, moved.terminated, moved.truncated) == (
        want["reward"],
        want["done"],
        want["truncated"],
    )
    assert listed.read_text() == want["blacklist_file"]
    game = HouseholdGame(engine, blacklist=listed)
    game.begin(source)
    with pytest.raises(EpisodeError, match="hangs"):
        game.step("0")
    assert listed.read_text() == want["blacklist_file"], "another day's tasks would be fewer"
    assert game.step("0").reward == 0  # it is over


def test_metrics(shared):
    """Success: costs sum to less than the threshold."""
    for case in json.loads((shared / "goldens/reflect_rl/eval_and_alfworld.json").read_text())["metrics"]:
        if case["threshold"] == HouseholdGame.success_threshold:
            won = [sum(costs) < HouseholdGame.success_threshold for costs in case["episode_costs"]]
            assert sum(won) / len(won) == case["avg_succ"]
            return
    pytest.fail("the goldens have no case of this threshold")


def test_more_commands_than_labels():
    class Crowded(FakeEngine):
        def play(self, source, before, command):
            return EngineState("Many.", tuple(f"go to door {number}" for number in range(253)))

    game = HouseholdGame(Crowded())
    game.begin("x")
    with pytest.raises(EpisodeError, match="253 commands are on offer and there are 252 labels"):
        game.step("0")
    assert game.step("0").info["outcome"] == "over"


def test_after_the_end_nothing_changes():
    game = HouseholdGame(FakeEngine())
    game.begin("x")
    game.step("go to microwave 1")  # the command is understood, and so is a label as it is listed
    won = game.step(" 1. look")
    assert (won.reward, won.terminated, won.info["won"], won.info["command"]) == (1, True, True, "look")
    after = game.step("0")
    assert (after.text, after.reward, after.info["outcome"]) == (won.text, 0, "over")
    assert game.commands == ("go to microwave 1", "look")
