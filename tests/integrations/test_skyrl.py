"""Our worlds in skyrl-gym: made by its own registry, and the agent earns what it earns in our loop."""

from concurrent.futures import ThreadPoolExecutor

import pytest

import sweet_rl
from sweet_rl.errors import EpisodeError, UsageError
from tests.integrations.agent import hidden_in, policy, say

pytest.importorskip("skyrl_gym", reason="needs the extra `skyrl`")

import skyrl_gym
from skyrl_gym.envs.base_text_env import BaseTextEnv

from sweet_rl.integrations.skyrl import NAME
from sweet_rl.integrations.worlds import WorldChoice
from sweet_rl.integrations.worlds import skyrl_rows as rows

pytestmark = pytest.mark.timeout(300)


def played(row, **config):
    """The rewards of the scripted agent's episode, all that it was told, and the environment."""
    extras = {name: value for name, value in row.items() if name not in ("prompt", "env_class")}
    env = skyrl_gym.make(row["env_class"], env_config=config, extras=extras)
    assert isinstance(env, BaseTextEnv)
    messages, info = env.init(row["prompt"])
    assert info == {"task_id": row["task_id"]}
    rewards, over = [], False
    while not over:
        said = say([sweet_rl.Message(**one) for one in messages])
        step = env.step(said)
        rewards.append(step["reward"])
        over = step["done"]
        messages = [*messages, {"role": "assistant", "content": said}, *step["observations"]]
    env.close()
    return rewards, [one for one in messages if one["role"] != "assistant"], env


def test_the_same_tasks_and_agent_earn_the_same_as_in_our_loop():
    tasks = sweet_rl.load_tasks("mini:test", num_tasks=20)
    ours = sweet_rl.grade(sweet_rl.simulate("code", tasks, agent=policy()))
    some = {"tasks": "mini:test", "num_tasks": 20}
    with ThreadPoolExecutor(4) as threads:  # a trainer steps many at once
        theirs = list(threads.map(lambda row: played(row, **some), rows(WorldChoice(world="code", **some))))
    assert len(theirs) == 20
    for task, episode, (rewards, told, env) in zip(tasks, ours, theirs, strict=True):
        assert rewards == [0.0] * (len(rewards) - 1) + [episode.reward]
        earned = {"reward": episode.reward, "success": float(episode.reward == 1)}
        assert env.get_metrics() == {"turns": len(rewards)} | earned
        assert hidden_in(task, told) == []
    assert {sum(rewards) for rewards, _, _ in theirs} == {0.5, 1.0}
    mean = BaseTextEnv.aggregate_metrics([env.get_metrics() for _, _, env in theirs])
    assert mean["reward"] == pytest.approx(sum(episode.reward for episode in ours) / 20)


def test_a_game_rewards_its_turns():
    (row,) = rows(WorldChoice(world="twenty_questions", num_tasks=1))
    rewards, told, _ = played(row, world="twenty_questions", num_tasks=1, options={"max_turns": 3})
    assert rewards == [-1.0, -1.0, -1.0]
    assert len(told) > 3  # what was asked, and every answer


def test_a_human_who_cannot_be_asked_is_an_error_and_no_reward():
    (row,) = rows(WorldChoice(world="code", num_tasks=1))
    env = skyrl_gym.make(NAME, env_config={"human": "tests.integrations.agent:Silent"}, extras=row)
    env.init(row["prompt"])
    with pytest.raises(EpisodeError, match="timeout"):
        env.step("What should it do?")
    assert env.get_metrics() == {"turns": 0, "reward": 0}
    env.close()


def test_an_environment_that_is_begun_again_plays_the_next_repeat():
    (row,) = rows(WorldChoice(world="twenty_questions", num_tasks=1))
    env = skyrl_gym.make(NAME, env_config={"world": "twenty_questions", "num_tasks": 1}, extras=row)
    for repeat in range(2):
        env.init(row["prompt"])
        env.step("Is it alive?")
        assert env.get_metrics() == {"turns": 1, "reward": -1.0}
        assert env._episode.trajectory.sample_index == repeat
    env.close()
    with pytest.raises(UsageError, match="or it was closed"):
        env.step("Is it big?")


def test_what_is_wrong_is_said():
    env = skyrl_gym.make(NAME)
    with pytest.raises(UsageError, match="call init first"):
        env.step("Hello")
    with pytest.raises(UsageError, match="no_such_task"):
        skyrl_gym.make(NAME, env_config={"num_tasks": 1}, extras={"task_id": "no_such_task"}).init([])
    with pytest.raises(UsageError, match="world"):
        skyrl_gym.make(NAME, env_config={"wrold": "code"})
