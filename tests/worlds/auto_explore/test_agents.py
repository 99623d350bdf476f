"""Explorers: the one that knows the file always wins, the one that walks about seldom."""

import asyncio

import pytest

from sweet_rl.chat.reflect_format import offered_commands
from sweet_rl.errors import UsageError
from sweet_rl.rollout import rollout, schedule
from sweet_rl.types import Message, Observation
from sweet_rl.worlds import load_tasks
from sweet_rl.worlds.auto_explore.game import ExploreGame
from sweet_rl.worlds.auto_explore.options import ACTION_HEAD
from sweet_rl.worlds.auto_explore.repositories import Library
from sweet_rl.worlds.auto_explore.tasks import PlanningExplorer, Wanderer, current_folder
from sweet_rl.worlds.text_game_env import TextGameEnv

TASKS = load_tasks("auto-explore:test", num_tasks=60)


def played(policy, tasks=TASKS, library=None, **settings):
    done, library = [], library or Library()

    async def keep(trajectory):
        done.append(trajectory)

    asyncio.run(
        rollout(
            schedule(tasks, 1),
            make_env=lambda: TextGameEnv(lambda: ExploreGame(library, **settings)),
            policy=policy,
            on_finished=keep,
            concurrency=8,
        )
    )
    assert all(trajectory.error is None for trajectory in done)
    return done


def planner(tasks=TASKS):
    return PlanningExplorer({task.task_id: task.ground_truth for task in tasks})


@pytest.mark.parametrize(
    "settings",
    [{}, {"shuffle_action": True}, {"leaveout_prob": 0.5}, {"compat": "published"}, {"easy": True}],
)
def test_the_planner_goes_the_shortest_way(settings):
    for trajectory in played(planner(), **settings):
        game, depth = trajectory.extra["game"], trajectory.task.ground_truth.count("/")
        assert game["won"] is True
        assert game["identified"] == trajectory.task.ground_truth
        assert trajectory.reward == 15 - (depth + 2) == -game["cost"]


def test_the_wanderer_is_a_floor():
    done = played(Wanderer())
    won = sum(trajectory.extra["game"]["won"] for trajectory in done) / len(done)
    assert won < 0.35
    assert done[0].dialogue_history == played(Wanderer(), tasks=TASKS[:1])[0].dialogue_history


def test_what_a_prompt_says():
    game = ExploreGame(Library())
    text = game.reset(TASKS[0], seed=0)
    assert current_folder(text) == ""
    assert offered_commands(text, ACTION_HEAD) == game.offered
    folder = next(command for command in game.offered.values() if command.startswith("cd "))
    text = game.step(folder).text
    assert current_folder(text) == folder.removeprefix("cd ")


def test_a_task_that_the_planner_was_not_told():
    asked = Observation("auto_explore/other", (Message("user", ""),), 0)
    with pytest.raises(UsageError, match="was given no file"):
        asyncio.run(planner().act(asked))
