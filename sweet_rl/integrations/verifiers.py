"""Every world as a verifiers environment, and a critic's credit in its traces (`MessageNode.advantages`).

`vf-eval sweet-rl-verifiers --env.taskset.world WORLD`: the world plays the user; a trace has the dialogue,
the sum of the turns' rewards as `reward`, each of them in `info["turn_rewards"]`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import verifiers.v1 as vf
from aiohttp import ClientSession, ClientTimeout
from pydantic import create_model
from verifiers.v1.dialects.chat import message_to_wire
from verifiers.v1.trace import Trace, WireTrace
from verifiers.v1.utils.trace_store import read_episodes, write_episode

from sweet_rl.errors import UsageError
from sweet_rl.integrations.tokens import Credit, centred
from sweet_rl.integrations.worlds import Turn, WorldChoice, choice_fields, choice_of, open_world, tasks_of
from sweet_rl.types import Json

if TYPE_CHECKING:
    from sweet_rl.interface import Critic

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
        return choice_of({name: getattr(self, name) for name in choice_fields()})


class WorldTask(vf.Task):
    """A task by its name: what it asks for is said by the world when it is played, what it hides never."""

    @property
    def key(self) -> str:
        return str(self.data.id)


class WorldTaskset(vf.Taskset[WorldTask, WorldConfig]):
    """The tasks of a world."""

    def load(self) -> Iterator[WorldTask]:
        world, tasks = tasks_of(self.config.choice())
        prompt = world.system_prompt or None
        for one in tasks:
            data = vf.TaskData(id=one.task_id, name=one.task_id, system_prompt=prompt)
            yield WorldTask(data, self.config.task)


class WorldEnvConfig(vf.EnvConfig):
    """Who plays: by default a model that only talks (`TalkHarness`), with nothing to run."""

    agent: vf.AgentConfig = vf.AgentConfig(runtime=vf.SubprocessConfig())


class WorldEnv(vf.Env[WorldEnvConfig]):
    """A world on the other side of the conversation."""

    async def start(self) -> None:
        self._stack = AsyncExitStack()
        self._world = await self._stack.enter_async_context(open_world(self.config.taskset.choice()))

    async def stop(self) -> None:
        await self._stack.aclose()

    async def run(self, task: WorldTask, agents: vf.Agents) -> None:
        """One episode; an error of the human or the world is an error here, never a reward."""
        turn: Turn | None = None
        async with self._world.episode(task.data.id) as episode, agents.agent.interaction(task) as talk:
            said = await talk.turn(episode.told)
            while not said.terminated:
                turn = await episode.step(said.last_reply)
                if turn.over:
                    break
                said = await talk.turn(turn.text)
        if turn is not None and turn.over:  # what was broken off is no score
            talk.trace.record_reward("reward", sum(episode.rewards))
        talk.trace.info |= {"turn_rewards": episode.rewards, "stop_reason": episode.trajectory.stop_reason}


def credit_traces(traces: Sequence[Trace], critic: Critic, hidden: Callable[[Trace], str | None]) -> None:
    """Give every sampled message its credit, less the mean of its task's turns, on each token; changes the traces.

    `info["turn_credit"]` has the credit itself, and what it was computed by. A turn without a score stays
    unassigned, as do all of a trace with an error. `hidden` is what the critic is told about a trace's task.
    """
    fine = [trace for trace in traces if not trace.has_error]
    asked = [(trace, branch) for trace in fine for branch in trace.branches]
    dialogues = [[_message(node) for node in branch.nodes] for _, branch in asked]
    found = critic.credit_many([hidden(trace) for trace, _ in asked], dialogues)
    values: dict[int, float | None] = {}
    for (_, branch), turns in zip(asked, found, strict=True):
        taken = [node for node in branch.nodes if node.message.role == "assistant"]
        values |= {id(node): value for node, value in zip(taken, turns, strict=True)}
    sampled = [[node for node in trace.nodes if node.sampled] for trace in fine]
    credit: list[Credit] = [[values[id(node)] for node in nodes] for nodes in sampled]
    less = centred(credit, [trace.task.key or trace.task.hash for trace in fine])
    for trace, nodes, own, advantages in zip(fine, sampled, credit, less, strict=True):
        trace.info["turn_credit"] = {"credit": own} | critic.facts
        for node, value in zip(nodes, advantages, strict=True):
            tokens = sum(node.mask)
            node.advantages = [value] * tokens if tokens and value is not None else None


def credit_run(
    folder: str | Path, output: str | Path, critic: Critic, hidden: Callable[[Trace], str | None]
) -> int:
    """Write the traces of a run (`folder`, of `vf-eval`) with credit into a new folder; returns how many there are."""
    target = Path(output)
    if (target / "traces.jsonl").exists():
        raise UsageError(f"{target / 'traces.jsonl'} is there already: name another folder.")
    episodes = read_episodes(Path(folder), WireTrace)
    traces = [trace for episode in episodes for trace in episode.traces]
    credit_traces(traces, critic, hidden)
    target.mkdir(parents=True, exist_ok=True)
    for episode in episodes:
        write_episode(target, episode)
    return len(traces)


def _message(node: Any) -> dict[str, Json]:
    """A node's message in chat form, with the tokens that were sampled."""
    said = node.message.model_dump(mode="json", exclude_none=True)
    row = {"role": said["role"], "content": said.get("content", ""), "tool_calls": said.get("tool_calls")}
    ids = [token for token, own in zip(node.token_ids, node.mask, strict=False) if own]
    return row | ({"token_ids": ids} if node.sampled and ids else {})


__all__ = ["TalkHarness", "WorldEnv", "WorldTaskset", "credit_run", "credit_traces"]
