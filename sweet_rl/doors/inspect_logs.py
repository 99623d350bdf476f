"""Trajectories as logs of inspect_ai (`.eval`), and back.

A log of ours, converted or played through our own door, holds whole rows and comes back unchanged. Of other
people's logs the text is read: what was asked, what was said, the score. Hidden solutions are in a log as
they are in a trajectory file: as a sample's target, which no model is shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from inspect_ai import log as logs
from inspect_ai.model import ModelOutput
from inspect_ai.scorer import Score, value_to_float

from sweet_rl.doors.foreign import trajectory_of
from sweet_rl.doors.inspect import ROW
from sweet_rl.doors.inspect_messages import ours, theirs
from sweet_rl.records import trajectory_from_row, trajectory_to_row
from sweet_rl.types import Trajectory


def write_log(trajectories: Sequence[Trajectory], path: Path) -> None:
    """Write trajectories as one log."""
    models = sorted({str(one.provenance.get("agent_model", "unknown")) for one in trajectories})
    ids = list(dict.fromkeys(one.task.task_id for one in trajectories))
    rewards = [one.reward for one in trajectories if one.reward is not None]
    mean = {"mean": logs.EvalMetric(name="mean", value=sum(rewards) / len(rewards))} if rewards else {}
    earned = logs.EvalScore(name="reward", scorer="earned", scored_samples=len(rewards), metrics=mean)
    log = logs.EvalLog(
        status="success",
        eval=logs.EvalSpec(
            created=datetime.now(UTC).isoformat(),
            task="sweet_rl/world",
            dataset=logs.EvalDataset(name="sweet_rl", samples=len(ids), sample_ids=ids),
            model=", ".join(models),
            config=logs.EvalConfig(epochs=1 + max((one.sample_index for one in trajectories), default=0)),
        ),
        results=logs.EvalResults(
            total_samples=len(trajectories),
            completed_samples=len(rewards),
            scores=[earned],
        ),
        samples=[_sample(one, models[0]) for one in trajectories],
    )
    logs.write_eval_log(log, path)


def read_log(path: Path) -> list[Trajectory]:
    """The trajectories of a log.

    Raises:
        DataError: a sample is no dialogue of texts.
    """
    log = logs.read_eval_log(path, resolve_attachments=True)
    return [_trajectory(one, log.eval.model, path) for one in log.samples or ()]


def _sample(one: Trajectory, model: str) -> logs.EvalSample:
    said = next((m.content for m in reversed(one.dialogue_history) if m.role == "assistant"), "")
    score = Score(value={"reward": one.reward}, answer=one.answer) if one.reward is not None else None
    why = None if one.error is None else str(one.error)
    return logs.EvalSample(
        id=one.task.task_id,
        epoch=one.sample_index + 1,
        input=one.task.problem_description,
        target=one.task.ground_truth,
        messages=[theirs(message) for message in one.dialogue_history],
        output=ModelOutput.from_content(model, said),
        scores=None if score is None else {"earned": score},
        error=None if why is None else logs.EvalError(message=why, traceback=why, traceback_ansi=why),
        store={ROW: trajectory_to_row(one)},
    )


def _trajectory(sample: logs.EvalSample, model: str, path: Path) -> Trajectory:
    if ROW in sample.store:
        own = trajectory_from_row(sample.store[ROW], path=path)
        return replace(own, provenance={"agent_model": model, **own.provenance})
    asked, target = sample.input, sample.target
    return trajectory_of(
        [ours(one, path) for one in sample.messages],
        task_id=str(sample.id),
        asked=asked if isinstance(asked, str) else "\n\n".join(one.text for one in asked),
        target=target if isinstance(target, str) else "\n".join(target),
        sample_index=sample.epoch - 1,
        reward=_reward(sample),
        error=None if sample.error is None else sample.error.message,
        model=model,
    )


def _reward(sample: logs.EvalSample) -> float | None:
    """The first score, or the first number of it."""
    first = next(iter((sample.scores or {}).values()), None)
    if first is None:
        return None
    value = next(iter(first.value.values())) if isinstance(first.value, dict) else first.value
    return float(value_to_float()(value))
