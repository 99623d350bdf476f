"""Trajectories as samples of a log of inspect_ai, and back.

A sample of ours, converted or played through our own door, holds the whole row and comes back unchanged. Of
other people's the text is read: what was asked, what was said, the score.
"""

from __future__ import annotations

from dataclasses import replace
from math import isfinite
from pathlib import Path

from inspect_ai.log import EvalError, EvalSample
from inspect_ai.model import ModelOutput
from inspect_ai.scorer import Score

from sweet_rl.doors.foreign import trajectory_of
from sweet_rl.doors.inspect import ROW
from sweet_rl.doors.inspect_messages import ours, theirs
from sweet_rl.records import trajectory_from_row, trajectory_to_row
from sweet_rl.types import Trajectory

_WORDS = {"c": 1.0, "p": 0.5, "i": 0.0, "n": 0.0, "yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}
"""What inspect_ai takes words of its scorers for; its own reader takes all other words for 0."""


def sample_of(one: Trajectory, model: str) -> EvalSample:
    """A trajectory as a sample of a log; `model` is the log's."""
    said = next((m.content for m in reversed(one.dialogue_history) if m.role == "assistant"), "")
    score = Score(value={"reward": one.reward}, answer=one.answer) if one.reward is not None else None
    why = None if one.error is None else str(one.error)
    return EvalSample(
        id=one.task.task_id,
        epoch=one.sample_index + 1,
        input=one.task.problem_description,
        target=one.task.ground_truth,
        messages=[theirs(message) for message in one.dialogue_history],
        output=ModelOutput.from_content(model, said),
        scores=None if score is None else {"earned": score},
        error=None if why is None else EvalError(message=why, traceback=why, traceback_ansi=why),
        store={ROW: trajectory_to_row(one)},
    )


def trajectory_in(sample: EvalSample, model: str, path: Path) -> Trajectory:
    """The trajectory of a sample; `path` is the log that it is in."""
    if ROW in sample.store:
        own = trajectory_from_row(sample.store[ROW], path=path)
        return replace(own, provenance={"agent_model": model, **own.provenance})
    asked, target, reward = sample.input, sample.target, _reward(sample)
    error = None if sample.error is None else sample.error.message
    if error is None and reward is None and sample.limit is not None:
        error = f"a limit of inspect_ai's ended it: {sample.limit.type}"
    return trajectory_of(
        [ours(one, path) for one in sample.messages],
        task_id=str(sample.id),
        asked=asked if isinstance(asked, str) else "\n\n".join(one.text for one in asked),
        target=target if isinstance(target, str) else "\n".join(target),
        sample_index=sample.epoch - 1,
        reward=reward,
        error=error,
        model=model,
    )


def _reward(sample: EvalSample) -> float | None:
    """The first score, or the first number of it; None where that is no number, as of an unscored sample."""
    first = next(iter((sample.scores or {}).values()), None)
    value = None if first is None else first.value
    if isinstance(value, dict):
        value = next(iter(value.values()), None)
    if isinstance(value, str):
        value = _WORDS.get(value.lower(), value)
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None
    return number if isfinite(number) else None
