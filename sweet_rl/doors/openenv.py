"""Every world as an OpenEnv environment: reset, step and state over HTTP and WebSockets.

One session is one client with an episode of its own; all share the open world. `serve_env` serves it.
"""

from __future__ import annotations

import asyncio
from typing import Any

from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State

from sweet_rl.doors.opened import OpenWorld
from sweet_rl.doors.stepped import SteppedEpisode
from sweet_rl.errors import UsageError


class Say(Action):
    """The agent's turn: what it says."""

    text: str


class Heard(Observation):
    """What the agent may see.

    `text` is what it is told next; `messages` the dialogue so far as a chat model is given it, the world's
    instructions first; `task_id` names the task.
    """

    text: str = ""
    messages: list[dict[str, str]] = []  # noqa: RUF012 - pydantic copies it
    task_id: str = ""


class Played(State):
    """Where the episode is; `rewards` are those of its turns."""

    task_id: str | None = None
    sample_index: int | None = None
    rewards: list[float] = []  # noqa: RUF012 - likewise
    stop_reason: str | None = None


class WorldEnvironment(Environment[Say, Heard, Played]):
    """A session's episodes."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self, world: OpenWorld) -> None:
        super().__init__()
        self._world = world
        self._episode: SteppedEpisode | None = None
        self._name: str | None = None

    async def reset_async(
        self,
        seed: int | None = None,
        episode_id: str | None = None,
        task_id: str | None = None,
        sample_index: int | None = None,
        **others: Any,
    ) -> Heard:
        """Begin an episode: of the task named, or of the one that the seed draws, or of the first."""
        self._loop, self._name = asyncio.get_running_loop(), episode_id
        if self._episode is not None:
            await self._episode.close()
            self._episode = None
        if task_id is None and seed is not None:
            task_id = list(self._world.tasks)[seed % len(self._world.tasks)]
        self._episode = await self._world.begin(task_id, sample_index)
        return _heard(self._episode, self._episode.told)

    async def step_async(self, action: Say, timeout_s: float | None = None, **others: Any) -> Heard:
        """Take a turn; an episode that fails is an error of the session, and has no reward."""
        if self._episode is None:
            raise UsageError("The session has no episode: reset it first.")
        turn = await self._episode.step(action.text)
        return _heard(self._episode, turn.text, reward=turn.reward, done=turn.over)

    def reset(self, seed: int | None = None, episode_id: str | None = None, **others: Any) -> Heard:
        """Not for callers without an event loop: OpenEnv's server has one."""
        raise NotImplementedError("await reset_async")

    def step(self, action: Say, timeout_s: float | None = None, **others: Any) -> Heard:
        """Likewise."""
        raise NotImplementedError("await step_async")

    def close(self) -> None:
        """Free what an episode holds that its client left; called from a thread of the server's."""
        if self._episode is not None:
            asyncio.run_coroutine_threadsafe(self._episode.close(), self._loop)

    @property
    def state(self) -> Played:
        """Where the episode is."""
        if self._episode is None:
            return Played()
        one, rewards = self._episode.trajectory, list(self._episode.rewards)
        return Played(
            episode_id=self._name,
            step_count=len(rewards),
            task_id=one.task.task_id,
            sample_index=one.sample_index,
            rewards=rewards,
            stop_reason=one.stop_reason,
        )


def _heard(episode: SteppedEpisode, text: str, *, reward: float | None = None, done: bool = False) -> Heard:
    name = episode.trajectory.task.task_id
    return Heard(text=text, messages=episode.messages, task_id=name, reward=reward, done=done)
