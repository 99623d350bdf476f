"""A world's scripted agents in the games that a policy is measured on: a ceiling and a floor.

They are given what an agent of the world is given, turn by turn, and nothing of a reflection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from sweet_rl.algorithms.reflect.play import Played, Step, told_of
from sweet_rl.algorithms.reflect.playground import Playground
from sweet_rl.algorithms.reflect.settings import ReflectSettings
from sweet_rl.contracts import Policy
from sweet_rl.errors import EpisodeError
from sweet_rl.text_game import TextGame
from sweet_rl.types import Message, Observation, Task
from sweet_rl.worlds import AgentRequest

Plays = Callable[[Sequence[Task], Sequence[int]], list[Played]]
"""One episode of each task, with its seed."""


def scripted(settings: ReflectSettings, ground: Playground, name: str) -> Plays:
    """How an agent of the world plays: one of its own, by name."""
    tasks = [task for level in ground.levels for task in level]
    wanted = AgentRequest(name=name, tasks=tasks, options=settings.rules, seed=settings.seed)

    async def episodes(tasks: Sequence[Task], seeds: Sequence[int]) -> list[Played]:
        agent = await settings.world.make_agent(wanted)
        try:
            return [
                await _episode(ground.make_game(), task, seed, agent)
                for task, seed in zip(tasks, seeds, strict=True)
            ]
        finally:
            await agent.close()

    return lambda tasks, seeds: asyncio.run(episodes(tasks, seeds))


async def _episode(game: TextGame, task: Task, seed: int, agent: Policy) -> Played:
    steps: list[Step] = []
    messages: tuple[Message, ...] = ()
    threshold, failure, told, over = 0.0, None, None, False
    try:
        text = game.reset(task, seed=seed)
        threshold = game.success_threshold
        while not over:
            messages = (*messages, Message("user", text))
            shown: Observation | None = getattr(game, "observation", None)  # of worlds that are no text games
            said = (await agent.act(shown or Observation(task.task_id, messages, seed))).completion.text
            moved = game.step(said)
            told = told_of(moved)
            steps.append(Step(text, said, (), 0.0, 0.0, moved.cost))
            messages = (*messages, Message("assistant", said))
            text, over = moved.text, moved.over
    except EpisodeError as error:
        failure = str(error)
    finally:
        game.close()
    return Played(task.task_id, seed, threshold, tuple(steps), failure, told)
