"""What text adventures share: scenes and their lists, what may be typed, players without a model."""

import asyncio

import pytest

from sweet_rl.errors import UsageError
from sweet_rl.mini.lantern import LanternEnv, lantern_tasks, solve
from sweet_rl.records import task_from_row
from sweet_rl.rollout import rollout, schedule
from sweet_rl.types import Message, Observation, StopReason
from sweet_rl.worlds.adventures import (
    REFUSED,
    RandomAdventurer,
    Scene,
    WalkthroughPolicy,
    is_refused,
    listed_actions,
)
from sweet_rl.worlds.detective.world import detective_tasks

TASKS = [task_from_row(row) for row in lantern_tasks("test")]


def run(policy, tasks=TASKS, samples=1):
    finished = {}

    async def keep(trajectory):
        finished[trajectory.key] = trajectory

    asyncio.run(
        rollout(
            schedule(tasks, samples), make_env=LanternEnv, policy=policy, on_finished=keep, concurrency=16
        )
    )
    return finished


def test_walkthrough_is_the_ceiling():
    finished = run(WalkthroughPolicy({task.task_id: solve(task.extra["variant"]) for task in TASKS})).values()
    assert {(one.reward, one.stop_reason) for one in finished} == {(100.0, StopReason.ENDED)}
    assert all(one.extra["game"]["won"] for one in finished)


def test_random_is_the_floor_takes_what_is_listed_and_repeats():
    first, again = run(RandomAdventurer(), samples=3), run(RandomAdventurer(), samples=3)
    assert first == again
    assert 0 <= sum(one.reward for one in first.values()) / len(first) < 20
    histories = {tuple(m.content for m in one.dialogue_history) for one in first.values()}
    assert len(histories) == len(first)  # every episode its own
    said = first[TASKS[0].task_id, 0].dialogue_history
    for seen, action in zip(said[::2], said[1::2], strict=False):
        assert action.content in listed_actions(seen.content)


def test_players_where_there_is_nothing_to_go_by():
    def says(policy, task_id, *messages):
        seen = Observation(task_id, tuple(messages), seed=1)
        return asyncio.run(policy.act(seen)).completion.text

    fog = Message("user", "Fog.")
    assert says(RandomAdventurer(), "lantern/0", fog) == "look"
    assert says(WalkthroughPolicy({"x": ("n",)}), "x", fog, Message("assistant", "n"), fog) == "look"
    with pytest.raises(UsageError, match="no way through the task 'other'"):
        says(WalkthroughPolicy({}), "other", fog)


def test_tasks_and_splits():
    assert [row["variant"] for row in lantern_tasks("test")] == list(range(80, 100))
    assert len(lantern_tasks()) == len(lantern_tasks("train")) + len(lantern_tasks("test")) == 100
    assert [row["task_id"] for row in detective_tasks()] == ["detective/0"]
    with pytest.raises(UsageError, match="'lantern:dev' is no split"):
        lantern_tasks("dev")
    with pytest.raises(UsageError, match="'detective:test' is no split"):
        detective_tasks("test")


def test_scene_reads_back_odd_lists():
    scene = Scene("a [room]", "", "It's [here].", ("say 'hi'", 'x "y"'))
    assert listed_actions(scene.text()) == listed_actions(scene.published()) == scene.actions
    for broken in ("", "no list", "Actions: [north]", "Actions: [1, 2]", "['a'] and more"):
        assert listed_actions(broken) == ()


def test_published_lets_more_be_typed_but_no_files():
    assert is_refused("save", published=True)
    assert is_refused("n.transcript", published=True)
    assert not is_refused("quit", published=True)
    assert not is_refused("take save file")
    assert all(map(is_refused, REFUSED))
