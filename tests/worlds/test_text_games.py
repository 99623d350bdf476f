"""One suite over the plain cores of Reflect-RL's worlds: what `sweet_rl.text_game.TextGame` promises."""

import importlib.util
from random import Random

import pytest

from sweet_rl.chat.reflect_format import policy_prompt, reflection_prompt, split_prompt
from sweet_rl.worlds import load_tasks, world_of
from sweet_rl.worlds.alfworld.engine import Household
from sweet_rl.worlds.alfworld.game import HouseholdGame
from sweet_rl.worlds.auto_explore.game import ExploreGame
from sweet_rl.worlds.auto_explore.repositories import Library
from sweet_rl.worlds.dangerous_taxi.game import TaxiGame

LIBRARY = Library(None)
GAMES = {
    "taxi": (TaxiGame, "taxi:full"),
    "taxi, published": (
        lambda: TaxiGame(compat="published", with_history=True, with_prompt=True),
        "taxi:none:any",
    ),
    "explore": (lambda: ExploreGame(LIBRARY), "auto-explore:test"),
    "explore, shuffled": (
        lambda: ExploreGame(LIBRARY, shuffle_action=True, leaveout_prob=0.5),
        "auto-explore:test",
    ),
}


@pytest.fixture(scope="module")
def household():
    if importlib.util.find_spec("textworld") is None:
        pytest.skip("needs its engine: pip install 'sweet_rl[alfworld]'")
    engine = Household(workers=1)
    yield engine
    engine.close()


@pytest.fixture(params=[*GAMES, "household", "household, shuffled"])
def made(request):
    if request.param.startswith("household"):
        engine = request.getfixturevalue("household")
        shuffled = request.param != "household"
        return lambda: HouseholdGame(engine, shuffle_action=shuffled), load_tasks("alfworld", num_tasks=3)
    make, source = GAMES[request.param]
    return make, load_tasks(source, num_tasks=3)


def played(game, task, seed, moves=40):
    """Every text, reward and end of an episode of actions drawn by `seed`."""
    rng = Random(seed)
    told = [game.reset(task, seed=seed)]
    for _ in range(moves):
        moved = game.step(rng.choice(list(game.labels)))
        told.append((moved.text, moved.reward, moved.terminated, moved.truncated, dict(moved.info)))
        if moved.over:
            return told
    raise AssertionError("no limit")


def test_texts_and_labels(made):
    make, tasks = made
    game = make()
    head = game.head
    world = world_of(tasks[0].task_id.partition("/")[0])
    assert (head, set(game.max_labels)) == (world.learning.head, set(world.learning.labels))
    for task in tasks:
        text = game.reset(task, seed=1)
        assert text == game.text
        assert text.count(head) == 1
        before, after = split_prompt(text, head)
        assert before
        assert after.startswith(head)
        for label in game.labels:
            assert label in game.max_labels
        assert len(set(game.labels)) == len(game.labels) == after.strip().count("\n")
        assert reflection_prompt(text, head, instruction=game.instruction) in policy_prompt(
            text, head, "Hm.", instruction=game.instruction
        )
        assert game.success_threshold <= 1


def test_the_same_seed_plays_the_same_and_nothing_of_an_earlier_game_is_left(made):
    make, tasks = made
    game = make()
    first = [played(game, task, seed) for task in tasks for seed in range(2)]
    again = [played(make(), task, seed) for task in tasks for seed in range(2)]
    assert first == again
    assert len({str(told[0]) for told in first}) > 1


def test_what_is_no_label_is_no_error(made):
    make, tasks = made
    game = make()
    for said in ["", "\n", "no such thing", "x" * 10_000, "\ud800é🐕", "-1", "99999", "0.5.5 ; rm", "\x00"]:
        game.reset(tasks[0], seed=2)
        moved = game.step(said)
        assert (moved.over, moved.info["won"]) == (False, False)
        assert moved.cost >= 0
        assert moved.cost == -moved.reward
        assert moved.text == game.text


def test_after_the_end_nothing_happens(made):
    make, tasks = made
    game = make()
    played(game, tasks[0], 3)
    for label in ("0", "1", "?"):
        after = game.step(label)
        assert (after.over, after.reward) == (True, 0.0)
    game.close()
    game.close()
    assert game.reset(tasks[0], seed=3)
