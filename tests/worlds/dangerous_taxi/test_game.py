"""DangerousTaxi beyond the goldens: curricula, seeds, labels, the world over the game."""

import asyncio

import pytest

from sweet_rl.errors import EpisodeError, UsageError
from sweet_rl.records import task_from_row
from sweet_rl.types import StopReason
from sweet_rl.worlds.dangerous_taxi.game import IN_TAXI, START_STATES, TaxiGame, decode, draw, plan
from sweet_rl.worlds.dangerous_taxi.tasks import taxi_row
from sweet_rl.worlds.text_game_env import TextGameEnv


def task(curriculum="full", start=None, /, **more):
    return task_from_row(taxi_row(curriculum, start) | more)


def play(game, actions):
    return [game.step(str(action)) for action in actions]


def test_dropoff_begins_with_the_passenger_in_the_taxi_and_pays_no_pickup():
    game = TaxiGame()
    text = game.reset(task("dropoff", 22), seed=0)
    assert game.state == 18  # west, pickup
    assert "X" in draw(game.state)
    assert text.startswith("You have already completed the following actions:\n\n\n--- Current State ---")
    moves = play(game, plan(18))
    assert [move.reward for move in moves] == [-0.05] * 4 + [1.0]
    assert moves[-1].info == {"outcome": "delivered", "won": True}
    assert sum(move.cost for move in moves) < game.success_threshold == 0


@pytest.mark.parametrize("compat", ["fixed", "published"])
@pytest.mark.parametrize("curriculum", ["none", "pickup", "dropoff", "full"])
def test_the_oracle_succeeds_in_every_curriculum(curriculum, compat):
    """But for the published threshold that nothing reaches."""
    game = TaxiGame(compat=compat, max_turns=20)
    for start in START_STATES[::17]:
        game.reset(task(curriculum, start), seed=0)
        moves = []
        while not (moves and moves[-1].over):
            moves += play(game, game.best_actions()[:1])
        assert [move.info["won"] for move in moves] == [False] * (len(moves) - 1) + [True]
        assert (sum(move.cost for move in moves) < game.success_threshold) == (
            not (compat == "published" and curriculum == "none")
        )
        assert game.best_actions() == ()


def test_pickup_ends_as_published_with_a_truncation_that_is_won():
    game = TaxiGame()
    game.reset(task("pickup", 22), seed=0)
    last = play(game, plan(22)[:2])[-1]
    assert (last.reward, last.terminated, last.truncated, last.info["won"]) == (1.0, False, True, True)


def test_the_pickup_pays_once():
    game = TaxiGame()
    game.reset(task("full", 2), seed=0)
    assert [move.reward for move in play(game, [4, 5, 4])] == [1.0, -0.05, -0.05]


def test_seeds_draw_the_start_and_nothing_of_an_earlier_game_is_left():
    game = TaxiGame(with_history=True)
    drawn = {}
    for seed in range(40):
        text = game.reset(task(), seed=seed)
        assert game.state in START_STATES
        assert "Step: 0" not in text
        assert game.steps == 0
        drawn[seed] = game.state
        play(game, [0, 1])
    assert len(set(drawn.values())) > 20
    other = TaxiGame()
    for seed in (3, 39):
        other.reset(task(), seed=seed)
        assert other.state == drawn[seed]


def test_a_label_that_there_is_not_costs_a_step():
    game = TaxiGame(max_turns=3)
    before = game.reset(task("full", 246), seed=0)
    moves = play(game, ["6", "fly", ""])
    assert [(move.reward, move.over) for move in moves] == [(-0.05, False), (-0.05, False), (-0.05, True)]
    assert {move.text for move in moves} == {before}
    assert {move.info["outcome"] for move in moves} == {"no_such_action"}
    assert (moves[-1].terminated, moves[-1].truncated) == (False, True)
    after = game.step("0")
    assert (after.reward, after.over, after.text) == (0.0, True, before)


@pytest.mark.parametrize("said", [" 0 \n", "0.", "0. move south", "move south"])
def test_labels_as_agents_write_them(said):
    game = TaxiGame()
    game.reset(task("full", 246), seed=0)
    assert game.step(said).info["outcome"] == "moved"
    assert game.state == 346


@pytest.mark.parametrize(
    "more", [{"start": 0}, {"start": 500}, {"start": "22"}, {"start": 22.0}, {"curriculum": "all"}]
)
def test_wrong_tasks_are_named(more):
    with pytest.raises(EpisodeError, match="must be") as caught:
        TaxiGame().reset(task("full", 22, **more), seed=0)
    assert caught.value.stop_reason is StopReason.WORLD_FAILED


def test_horizon_is_checked():
    with pytest.raises(UsageError, match="max_turns"):
        TaxiGame(max_turns=0)


def in_world(start, curriculum, actions, **settings):
    async def main():
        env = TextGameEnv(lambda: TaxiGame(**settings), threaded=True)
        await env.reset(task(curriculum, start), seed=0)
        return [await env.step(str(action)) for action in actions]

    return asyncio.run(main())


def test_world_ends():
    won = in_world(22, "pickup", plan(22)[:2])[-1]
    assert (won.terminated, won.truncated, won.stop_reason) == (True, False, StopReason.ENDED)
    assert won.info == {"game": {"outcome": "picked_up", "won": True, "cost": -0.95}}
    lost = in_world(6, "full", [1])[-1]
    assert (lost.terminated, lost.truncated, lost.reward) == (True, False, -0.5)
    published = in_world(6, "full", [1], compat="published")[-1]
    assert (published.over, published.reward) == (False, -0.05)
    cut = in_world(246, "full", [0, 1, 0], max_turns=3)[-1]
    assert (cut.terminated, cut.truncated, cut.stop_reason) == (False, True, StopReason.TURN_LIMIT)
    assert decode(246).passenger == 1


def test_the_published_history_of_dropoff_begins_before_the_oracles_drive():
    def history(**settings):
        game = TaxiGame(with_history=True, **settings)
        game.begin(246, "dropoff")
        return game, game.text

    game, text = history()
    assert text.count(draw(game.state)) == 2  # initial and current
    game, text = history(compat="published")
    assert decode(game.state).passenger == IN_TAXI
    assert text.startswith(f"--- Initial State ---\n{draw(246)}\n")
    assert text.count(draw(game.state)) == 1
    assert "Step: 0" not in text
    game.step(str(game.best_actions()[0]))
    assert game.text.startswith(f"--- Initial State ---\n{draw(246)}\n")
    assert game.text.count("--- Step:") == 1
    game.begin(246, "full")
    assert game.text.count(draw(246)) == 2
