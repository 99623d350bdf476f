"""Dialogues that other tools recorded, as trajectories: what every reader of another tool's files shares."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from sweet_rl.chat import as_json
from sweet_rl.records import task_from_row
from sweet_rl.types import AgentTurn, Failure, Json, Message, StopReason, Trajectory


def trajectory_of(
    messages: Iterable[Message],
    *,
    task_id: str,
    asked: str,
    target: str = "",
    sample_index: int = 0,
    reward: float | None = None,
    error: str | None = None,
    model: str | None = None,
    extra: dict[str, Json] | None = None,
) -> Trajectory:
    """A trajectory of a dialogue.

    Args:
        messages: what was said, instructions included; turns of the agent as `AgentTurn`, whose `input` is
            filled in.
        reward: of the whole; not kept where there is an error.
    """
    history = tuple(_with_inputs(messages))
    task = {
        "task_id": task_id,
        "problem_description": asked,
        "ground_truth": target,
        "hidden_information": target,
        "test_cases": {},
    }
    return Trajectory(
        task=task_from_row(task),
        dialogue_history=history,
        answer=next((one.content for one in reversed(history) if one.role == "assistant"), None),
        sample_index=sample_index,
        stop_reason=StopReason.ANSWERED if error is None else StopReason.POLICY_FAILED,
        reward=reward if error is None else None,
        error=None if error is None else Failure("error", error),
        provenance={} if model is None else {"agent_model": model},
        extra=extra or {},
    )


def _with_inputs(messages: Iterable[Message]) -> Iterable[Message]:
    """The dialogue without instructions; every turn of the agent with what it was given."""
    before: list[Message] = []
    for one in messages:
        said = replace(one, input=as_json(before)) if isinstance(one, AgentTurn) else one
        before.append(said)
        if said.role != "system":
            yield said
