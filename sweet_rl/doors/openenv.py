"""Every world as an OpenEnv environment: reset, step and state over HTTP and WebSockets.

One session is one client with an episode of its own; all share the open world. `serve_env` serves it.
"""

from __future__ import annotations

import asyncio
from typing import Any

import uvicorn
from openenv.core.env_server.http_server import create_fastapi_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State

from sweet_rl.doors.opened import OpenWorld, SteppedEpisode, WorldChoice, open_world


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
    """A session's episodes.

    Args:
        world: that is played.
    """

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self, world: OpenWorld) -> None:
        super().__init__()
        self._world = world
        self._episode: SteppedEpisode | None = None
        self._state = Played()

    async def reset_async(
        self,
        seed: int | None = None,
        episode_id: str | None = None,
        task_id: str | None = None,
        sample_index: int | None = None,
        **others: Any,
    ) -> Heard:
        """Begin an episode: of the task named, or of the one that the seed draws, or of the first."""
        self._loop = asyncio.get_running_loop()
        if self._episode is not None:
            await self._episode.close()
        if task_id is None and seed is not None:
            task_id = list(self._world.tasks)[seed % len(self._world.tasks)]
        self._episode = await self._world.begin(task_id, sample_index)
        begun = self._episode.trajectory
        self._state = Played(
            episode_id=episode_id, task_id=begun.task.task_id, sample_index=begun.sample_index
        )
        return self._heard(self._episode.observation.messages[-1].content)

    async def step_async(self, action: Say, timeout_s: float | None = None, **others: Any) -> Heard:
        """Take a turn; an episode that fails is an error of the session, and has no reward."""
        if self._episode is None:
            self._episode = await self._world.begin()
        turn = await self._episode.step(action.text)
        self._state.step_count += 1
        self._state.rewards = [*self._state.rewards, turn.reward]
        self._state.stop_reason = self._episode.trajectory.stop_reason
        return self._heard(turn.text, reward=turn.reward, done=turn.over)

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
        return self._state

    def _heard(self, text: str, *, reward: float | None = None, done: bool = False) -> Heard:
        if self._episode is None:
            return Heard()
        messages = [{"role": one.role, "content": one.content} for one in self._episode.prompt]
        return Heard(
            text=text, messages=messages, task_id=self._state.task_id or "", reward=reward, done=done
        )


async def serve(choice: WorldChoice, *, host: str, port: int, sessions: int) -> None:
    """Serve a world until the process is interrupted.

    Args:
        choice: which one.
        host: address to listen at.
        port: likewise.
        sessions: clients at once.

    Raises:
        UsageError, DataError, ServiceError: as `open_world`.
    """
    async with open_world(choice) as world:
        app = create_fastapi_app(
            lambda: WorldEnvironment(world), Say, Heard, max_concurrent_envs=sessions, state_cls=Played
        )
        config = uvicorn.Config(app, host=host, port=port, log_level="warning")
        print(f"Serving {world.world.name} at http://{host}:{port}", flush=True)
        await uvicorn.Server(config).serve()
