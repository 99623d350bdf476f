"""Trajectories as logs of inspect_ai (`.eval`), and back.

A log of ours, converted or played through our own door, holds whole rows and comes back unchanged. Of other
people's logs the text is read: what was asked, what was said, the score. Hidden solutions are in a log as
they are in a trajectory file: as a sample's target, which no model is shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from inspect_ai.log import (
    EvalConfig,
    EvalDataset,
    EvalError,
    EvalLog,
    EvalMetric,
    EvalResults,
    EvalSample,
    EvalScore,
    EvalSpec,
    read_eval_log,
    write_eval_log,
)
from inspect_ai.model import ChatMessage, ContentReasoning, ContentText, ModelOutput
from inspect_ai.scorer import Score, value_to_float

from sweet_rl.chat import as_json
from sweet_rl.doors.inspect import KINDS, ROW
from sweet_rl.errors import DataError
from sweet_rl.records import task_from_row, trajectory_from_row, trajectory_to_row
from sweet_rl.types import AgentTurn, Failure, Message, StopReason, Trajectory


def write_log(trajectories: Sequence[Trajectory], path: Path) -> None:
    """Write trajectories as one log."""
    models = sorted({str(one.provenance.get("agent_model", "unknown")) for one in trajectories})
    ids = list(dict.fromkeys(one.task.task_id for one in trajectories))
    rewards = [one.reward for one in trajectories if one.reward is not None]
    mean = {"mean": EvalMetric(name="mean", value=sum(rewards) / len(rewards))} if rewards else {}
    log = EvalLog(
        status="success",
        eval=EvalSpec(
            created=datetime.now(UTC).isoformat(),
            task="sweet_rl/world",
            dataset=EvalDataset(name="sweet_rl", samples=len(ids), sample_ids=ids),
            model=", ".join(models),
            config=EvalConfig(epochs=1 + max((one.sample_index for one in trajectories), default=0)),
        ),
        results=EvalResults(
            total_samples=len(trajectories),
            completed_samples=len(rewards),
            scores=[EvalScore(name="reward", scorer="earned", scored_samples=len(rewards), metrics=mean)],
        ),
        samples=[_sample(one, models[0]) for one in trajectories],
    )
    write_eval_log(log, path)


def read_log(path: Path) -> list[Trajectory]:
    """The trajectories of a log.

    Raises:
        DataError: a sample is no dialogue of texts.
    """
    log = read_eval_log(path, resolve_attachments=True)
    return [_trajectory(one, log.eval.model, path) for one in log.samples or ()]


def _sample(one: Trajectory, model: str) -> EvalSample:
    messages = [_chat_message(message) for message in one.dialogue_history]
    said = next((m.content for m in reversed(one.dialogue_history) if m.role == "assistant"), "")
    score = {"reward": one.reward} if one.reward is not None else None
    why = None if one.error is None else str(one.error)
    return EvalSample(
        id=one.task.task_id,
        epoch=one.sample_index + 1,
        input=one.task.problem_description,
        target=one.task.ground_truth,
        messages=messages,
        output=ModelOutput.from_content(model, said),
        scores=None if score is None else {"earned": Score(value=score, answer=one.answer)},
        error=None if why is None else EvalError(message=why, traceback=why, traceback_ansi=why),
        store={ROW: trajectory_to_row(one)},
    )


def _chat_message(message: Message) -> ChatMessage:
    thoughts = message.thoughts if isinstance(message, AgentTurn) else None
    if thoughts is None:
        return KINDS[message.role](content=message.content)
    return KINDS[message.role](
        content=[ContentReasoning(reasoning=thoughts), ContentText(text=message.content)]
    )


def _trajectory(sample: EvalSample, model: str, path: Path) -> Trajectory:
    if ROW in sample.store:
        own = trajectory_from_row(sample.store[ROW], path=path)
        if "agent_model" in own.provenance:
            return own
        return trajectory_from_row(
            {**sample.store[ROW], "provenance": {**own.provenance, "agent_model": model}}
        )
    asked = sample.input if isinstance(sample.input, str) else "\n\n".join(one.text for one in sample.input)
    target = sample.target if isinstance(sample.target, str) else "\n".join(sample.target)
    history = _dialogue(sample.messages, path)
    said = next((one.content for one in reversed(history) if one.role == "assistant"), None)
    error = None if sample.error is None else Failure("error", sample.error.message)
    return Trajectory(
        task=task_from_row(
            {
                "task_id": str(sample.id),
                "problem_description": asked,
                "ground_truth": target,
                "hidden_information": target,
                "test_cases": {},
            }
        ),
        dialogue_history=history,
        answer=said,
        sample_index=sample.epoch - 1,
        stop_reason=StopReason.ANSWERED if error is None else StopReason.POLICY_FAILED,
        reward=_reward(sample) if error is None else None,
        error=error,
        provenance={"agent_model": model},
    )


def _dialogue(messages: Iterable[ChatMessage], path: Path) -> tuple[Message, ...]:
    """What was said; every turn of the agent with what it was given."""
    before: list[Message] = []
    for one in messages:
        if one.role == "tool" or getattr(one, "tool_calls", None):
            raise DataError("has calls of tools, which are no dialogue of texts", path=path, field="messages")
        given = as_json(before)
        agent = one.role == "assistant"
        before.append(
            AgentTurn("assistant", one.text, given, one.text) if agent else Message(one.role, one.text)
        )
    return tuple(message for message in before if message.role != "system")


def _reward(sample: EvalSample) -> float | None:
    """The first score, or the first number of it."""
    first = next(iter((sample.scores or {}).values()), None)
    if first is None:
        return None
    value = first.value
    if isinstance(value, dict):
        value = next(iter(value.values()))
    return float(value_to_float()(value))
