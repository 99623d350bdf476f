"""Episodes of a policy, in memory, and dialogues to render."""

import asyncio

from sweet_rl.rollout import rollout, schedule
from sweet_rl.types import Message

RULES = Message("system", "Be brief.")


def dialogue(*contents):
    return [Message(("user", "assistant")[index % 2], content) for index, content in enumerate(contents)]


async def rolled(make_env, policy, tasks, repeats=1):
    """The trajectories, in the order of their tasks and repeats."""
    done = {}

    async def keep(trajectory):
        done[trajectory.key] = trajectory

    episodes = schedule(tasks, repeats)
    await rollout(episodes, make_env=make_env, policy=policy, on_finished=keep, concurrency=16)
    assert len(done) == len(episodes)
    return [done[one.task.task_id, one.sample_index] for one in episodes]


def played(*how, **more):
    """As `rolled`, for tests that are no coroutines."""
    return asyncio.run(rolled(*how, **more))
