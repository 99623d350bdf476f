"""Every world as a verifiers environment: `vf-eval sweet-rl-verifiers --env.taskset.world WORLD`.

The world plays the user of the conversation, with its human inside; a trace has the instructions and the
dialogue, the sum of the turns' rewards as `reward`, and each of them in `info["turn_rewards"]`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AsyncExitStack
from typing import Any, cast

import verifiers.v1 as vf
from aiohttp import ClientSession, ClientTimeout
from pydantic import create_model
from verifiers.v1.dialects.chat import message_to_wire

from sweet_rl.integrations.choice import WorldChoice, choice_fields, choice_of
from sweet_rl.integrations.opened import open_world, tasks_of
from sweet_rl.integrations.stepped import Turn

NO_LIMIT = ClientTimeout(total=None)
"""Deadlines are the environment's business (`--env.agent.timeout`)."""


class TalkHarness(vf.Harness[vf.HarnessConfig]):
    """Asks the model once a turn, from this process; `null` starts a program for every turn instead."""

    APPENDS_SYSTEM_PROMPT = SUPPORTS_RESUME = True
    EXECUTES_CODE = NEEDS_CONTAINER = False

    async def launch(
        self,
        ctx: vf.ModelContext,
        trace: vf.Trace,
        runtime: vf.Runtime,
        endpoint: str,
        secret: str,
        mcp_urls: dict[str, str],
        data: vf.TaskData,
    ) -> vf.ProgramResult:
        """One reply to the conversation; the server at `endpoint` records it, and sets how it is sampled."""
        system, messages = self.resolve_prompt(data)
        opening = [{"role": "system", "content": system}] if system else []
        said = {"model": ctx.model, "messages": [*opening, *map(message_to_wire, messages)]}
        async with (
            ClientSession(headers={"Authorization": f"Bearer {secret}"}, timeout=NO_LIMIT) as client,
            client.post(f"{endpoint}/chat/completions", json=said) as reply,
        ):
            return vf.ProgramResult(exit_code=int(not reply.ok), stdout="", stderr=await reply.text())


Fields: Any = create_model("Fields", __base__=vf.TasksetConfig, **cast("Any", choice_fields()))


class WorldConfig(Fields):
    """Which world; its fields are those of `WorldChoice`."""

    def choice(self) -> WorldChoice:
        """The same as our own settings."""
        return choice_of({name: getattr(self, name) for name in choice_fields()})


class WorldTask(vf.Task):
    """A task by its name: what it asks for is said by the world when it is played, what it hides never."""

    @property
    def key(self) -> str:
        """The task's own name, whatever its place in the list."""
        return str(self.data.id)


class WorldTaskset(vf.Taskset[WorldTask, WorldConfig]):
    """The tasks of a world."""

    def load(self) -> Iterator[WorldTask]:
        """Names and instructions."""
        world, tasks = tasks_of(self.config.choice())
        for task in tasks:
            data = vf.TaskData(
                id=task.task_id, name=task.task_id, system_prompt=world.system_prompt() or None
            )
            yield WorldTask(data, self.config.task)


class WorldEnvConfig(vf.EnvConfig):
    """Who plays: by default a model that only talks (`TalkHarness`), with nothing to run."""

    agent: vf.AgentConfig = vf.AgentConfig(runtime=vf.SubprocessConfig())


class WorldEnv(vf.Env[WorldEnvConfig]):
    """A world on the other side of the conversation."""

    async def start(self) -> None:
        """Open the world."""
        self._stack = AsyncExitStack()
        self._world = await self._stack.enter_async_context(open_world(self.config.taskset.choice()))

    async def stop(self) -> None:
        """Close it."""
        await self._stack.aclose()

    async def run(self, task: WorldTask, agents: vf.Agents) -> None:
        """One episode; an error of the human or the world is an error here, never a reward."""
        turn: Turn | None = None
        async with (
            self._world.episode(task.data.id) as episode,
            agents.agent.interaction(task) as talk,
        ):
            said = await talk.turn(episode.told)
            while not said.terminated:
                turn = await episode.step(said.last_reply)
                if turn.over:
                    break
                said = await talk.turn(turn.text)
        if turn is not None and turn.over:  # what was broken off is no score
            talk.trace.record_reward("reward", sum(episode.rewards))
        talk.trace.info |= {
            "turn_rewards": episode.rewards,
            "stop_reason": episode.trajectory.stop_reason,
        }


__all__ = ["TalkHarness", "WorldEnv", "WorldTaskset"]
