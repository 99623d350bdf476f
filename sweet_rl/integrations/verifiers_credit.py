"""A critic's credit in verifiers' traces, where trainers look for it: `MessageNode.advantages`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from verifiers.v1.trace import Trace, WireTrace
from verifiers.v1.utils.trace_store import read_episodes, write_episode

from sweet_rl.errors import UsageError
from sweet_rl.integrations.tokens import Credit, centred
from sweet_rl.interface import Critic
from sweet_rl.types import Json


def credit_traces(traces: Sequence[Trace], critic: Critic, hidden: Callable[[Trace], str | None]) -> None:
    """Give every sampled message its credit, less the mean of its task's turns, on each sampled token.

    `info["turn_credit"]` has the credit itself, message by message, and what it was computed by. A turn
    without a score stays unassigned, as do all of a trace with an error. Traces without token ids (an
    evaluation through an API) have `info` alone.

    Args:
        traces: of one run; changed in place.
        critic: loaded.
        hidden: what the critic is told about a trace's task; None: nothing.
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
    """The traces of a run with credit, as a file that verifiers reads; returns how many.

    Args:
        folder: with `traces.jsonl`, as `vf-eval` leaves it; it is not changed.
        output: a folder for the new one.
        critic: as `credit_traces`.
        hidden: likewise.
    """
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
