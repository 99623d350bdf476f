"""Players of text games without a model, through the loop that everybody uses."""

import asyncio

import pytest

from sweet_rl.errors import UsageError
from sweet_rl.records import task_from_row
from sweet_rl.rollout import rollout, schedule
from sweet_rl.types import Message, Observation, StopReason
from sweet_rl.worlds.adventures.agents import RandomAdventurer, WalkthroughPolicy
from sweet_rl.worlds.adventures.scenes import listed_actions
from sweet_rl.worlds.detective import detective_tasks
from sweet_rl.worlds.lantern import lantern_tasks
from sweet_rl.worlds.lantern.env import LanternEnv
from tests.worlds.adventures.routes import route_of

TASKS = [task_from_row(row) for row in lantern_tasks("test")]


def run(policy, tasks=TASKS, samples=1):
    finished = {}

    async def keep(trajectory):
        finished[trajectory.key] = trajectory

    asyncio.run(
        rollout(
            schedule(tasks, samples),
            make_env=LanternEnv,
            policy=policy,
            on_finished=keep,
            concurrency=16,
        )
    )
    return finished


def test_walkthrough_is_the_ceiling():
    finished = run(WalkthroughPolicy({task.task_id: route_of(task) for task in TASKS}))
    assert {trajectory.reward for trajectory in finished.values()} == {100.0}
    assert {trajectory.stop_reason for trajectory in finished.values()} == {StopReason.ENDED}
    assert all(trajectory.extra["game"]["won"] for trajectory in finished.values())


def test_random_is_the_floor_and_repeats():
    first, again = run(RandomAdventurer(), samples=3), run(RandomAdventurer(), samples=3)
    assert first == again
    rewards = [trajectory.reward for trajectory in first.values()]
    assert 0 <= sum(rewards) / len(rewards) < 20
    histories = {tuple(m.content for m in t.dialogue_history) for t in first.values()}
    assert len(histories) == len(first)  # every episode its own


def test_random_takes_what_is_listed():
    trajectory = run(RandomAdventurer(), TASKS[:1])[TASKS[0].task_id, 0]
    said = trajectory.dialogue_history
    for seen, action in zip(said[::2], said[1::2], strict=False):
        assert action.content in listed_actions(seen.content)


def test_nothing_listed():
    seen = Observation("lantern/0", (Message("user", "Fog."),), seed=1)
    generation = asyncio.run(RandomAdventurer().act(seen))
    assert generation.completion.text == "look"


def test_a_task_without_route():
    seen = Observation("other", (Message("user", "Fog."),), seed=1)
    with pytest.raises(UsageError, match="no way through the task 'other'"):
        asyncio.run(WalkthroughPolicy({}).act(seen))


def test_a_route_that_is_used_up():
    seen = Observation("x", (Message("user", "Fog."), Message("assistant", "n"), Message("user", "Fog.")), 1)
    generation = asyncio.run(WalkthroughPolicy({"x": ("n",)}).act(seen))
    assert generation.completion.text == "look"


def test_tasks_and_splits():
    assert [row["variant"] for row in lantern_tasks("test")] == list(range(80, 100))
    assert len(lantern_tasks()) == len(lantern_tasks("train")) + len(lantern_tasks("test")) == 100
    assert [row["task_id"] for row in detective_tasks()] == ["detective/0"]
    with pytest.raises(UsageError, match="'lantern:dev' is no split"):
        lantern_tasks("dev")
    with pytest.raises(UsageError, match="'detective:test' is no split"):
        detective_tasks("test")
