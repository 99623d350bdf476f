"""DangerousTaxi against what the published code gave (Reflect-RL goldens taxi.json, taxi_transitions.json)."""

import hashlib
import json

import pytest

from sweet_rl.worlds.dangerous_taxi.game import START_STATES, TABLE, TaxiGame, draw, encode, plan, rules_text

EPISODES = [
    "optimal_None",
    "optimal_pickup",
    "optimal_full",
    "first_step_pickup_full",
    "bump_first_step",
    "bump_second_step",
    "illegal_pickup_first",
    "illegal_pickup_second",
    "illegal_dropoff_second",
    "back_and_forth_not_terminal",
    "inner_wall_bump_after_move",
    "dropoff_wrong_depot",
    "dropoff_wrong_depot_none",
    "horizon_3",
    "history_prompt",
    "with_prompt",
    "dest_hidden_by_taxi",
]


@pytest.fixture(scope="module")
def taxi(shared):
    return json.loads((shared / "goldens/reflect_rl/taxi.json").read_text())


@pytest.fixture(scope="module")
def transitions(shared):
    return json.loads((shared / "goldens/reflect_rl/taxi_transitions.json").read_text())


def test_table(transitions):
    assert [[entry.state for entry in row] for row in TABLE] == transitions["next_state"]
    assert [[entry.reward for entry in row] for row in TABLE] == transitions["reward"]
    assert [[entry.done for entry in row] for row in TABLE] == transitions["done"]
    assert list(START_STATES) == transitions["start_states"]


def test_pictures(taxi):
    for state, picture in taxi["render_samples"].items():
        assert draw(int(state)) == picture
    every = "\n".join(draw(state) for state in range(500))
    assert hashlib.sha256(every.encode()).hexdigest() == taxi["render_sha256_joined_by_newline"]


def test_encoding(taxi):
    for place, state in taxi["encode_examples"].items():
        assert encode(*map(int, place.split(","))) == state


def test_oracle(taxi):
    for state, actions in taxi["oracle"].items():
        assert list(plan(int(state))) == actions


def test_all_recorded_episodes_are_played(taxi):
    assert set(taxi["episodes"]) == set(EPISODES)


@pytest.mark.parametrize("name", EPISODES)
def test_episode(taxi, name):
    recorded = taxi["episodes"][name]
    game = TaxiGame(max_turns=recorded["horizon"], compat="published", **recorded["kwargs"])

    def shown():
        return game.text.replace(rules_text(), "<TAXI_RULES_TEXT>")

    game.begin(recorded["start"], recorded["curriculum"])
    if recorded["first_prompt"] is not None:
        assert shown() == recorded["first_prompt"]
    total = 0.0
    for step in recorded["steps"]:
        moved = game.step(step["action"])
        assert (game.state, moved.reward) == (step["state"], pytest.approx(step["reward"]))
        assert (moved.terminated, moved.truncated) == (step["done"], step["truncated"])
        assert "obs" not in step or shown() == step["obs"]
        total += moved.cost
    assert total == pytest.approx(recorded["total_cost"])
    if recorded["last_prompt"] is not None:
        assert shown() == recorded["last_prompt"]


@pytest.mark.parametrize("name", EPISODES)
def test_episode_without_the_exemption(taxi, name):
    """By default the same, but that the first step ends the game, too, when it changes nothing."""
    recorded = taxi["episodes"][name]
    game = TaxiGame(max_turns=recorded["horizon"], **recorded["kwargs"])
    game.begin(recorded["start"], recorded["curriculum"])
    first = game.step(recorded["steps"][0]["action"])
    if name in {"bump_first_step", "illegal_pickup_first"}:
        assert (first.reward, first.terminated, first.truncated) == (-0.5, True, True)
        assert first.info == {"outcome": "no_effect", "won": False}
    else:
        assert first.reward == pytest.approx(recorded["steps"][0]["reward"])
        assert first.terminated == recorded["steps"][0]["done"]


def test_success_thresholds(shared):
    data = json.loads((shared / "goldens/reflect_rl/data_and_cli.json").read_text())
    for case in data["taxi_configer"]:
        for level, threshold in zip(case["dataset"], case["succ_thresholds"], strict=True):
            game = TaxiGame(compat="published")
            game.begin(1, level[0])
            assert game.success_threshold == threshold
