"""Every world as an environment of skyrl-gym: importing this module registers `sweet_rl` there.

Its configuration is a `WorldChoice`; of a data set's row it takes `task_id`, and `sample_index` where it is there.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import Any

import skyrl_gym
from omegaconf import OmegaConf
from skyrl_gym.envs.base_text_env import BaseTextEnv, BaseTextEnvStepOutput

from sweet_rl.errors import UsageError
from sweet_rl.integrations.worlds import NAME, SteppedEpisode, choice_of, shared_world
from sweet_rl.interface.parts import wait_for
from sweet_rl.types import Json

_INSTEAD = "the methods of sweet_rl.integrations.worlds.SteppedEpisode"


class WorldEnv(BaseTextEnv):
    """One episode of a world: `env_config` are the fields of `WorldChoice`, `extras` a data set's row."""

    def __init__(self, env_config: Any = None, extras: Mapping[str, Any] | None = None) -> None:
        super().__init__()
        settings: Any = OmegaConf.to_object(OmegaConf.create(env_config or {}))
        self._choice = choice_of(settings)
        self._extras = extras or {}
        self._stack = AsyncExitStack()
        self._episode: SteppedEpisode | None = None

    def init(self, prompt: list[dict[str, str]]) -> tuple[list[dict[str, str]], dict[str, Json]]:
        """Begin; the world says what is asked, whatever the row's prompt is."""
        self.close()
        self._episode, self.turns = None, 0
        episode = self._episode = wait_for(self._begin(), instead=_INSTEAD)
        return episode.messages, {"task_id": episode.trajectory.task.task_id}

    def step(self, action: str) -> BaseTextEnvStepOutput:
        """Take a turn; an episode that fails raises `EpisodeError`, and has no reward."""
        if self._episode is None:
            raise UsageError("The episode has not begun: call init first.")
        turn = wait_for(self._episode.step(action), instead=_INSTEAD)
        self.turns = len(self._episode.rewards)
        told = [{"role": "user", "content": turn.text}] if turn.text else []
        why = {"stop_reason": self._episode.trajectory.stop_reason}
        return BaseTextEnvStepOutput(observations=told, reward=turn.reward, done=turn.over, metadata=why)

    def get_metrics(self) -> dict[str, Json]:
        """Turns, the sum of their rewards, and of an episode that is over whether it succeeded."""
        if self._episode is None:
            return {}
        found = {"turns": self.turns, "reward": sum(self._episode.rewards)}
        success = self._episode.succeeded
        return found if success is None else found | {"success": float(success)}

    def close(self) -> None:
        wait_for(self._stack.aclose(), instead=_INSTEAD)

    async def _begin(self) -> SteppedEpisode:
        task_id, sample_index = self._extras.get("task_id"), self._extras.get("sample_index")
        async with AsyncExitStack() as stack:
            world = await stack.enter_async_context(shared_world(self._choice).open())
            episode = await stack.enter_async_context(world.episode(task_id, sample_index))
            self._stack = stack.pop_all()
        return episode


skyrl_gym.register(id=NAME, entry_point=f"{__name__}:WorldEnv")
