"""Trajectories as logs of inspect_ai (`.eval`), and back.

Hidden solutions are in a log as they are in a trajectory file: as a sample's target, which no model is shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from zipfile import BadZipFile

from inspect_ai import log as logs
from inspect_ai.model import ModelOutput
from inspect_ai.scorer import Score

from sweet_rl.doors.inspect import theirs
from sweet_rl.doors.inspect_samples import ROW, no_log, trajectories_in
from sweet_rl.records import trajectory_to_row
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
        samples=[sample_of(one, models[0]) for one in trajectories],
    )
    logs.write_eval_log(log, path)


def read_log(path: Path) -> list[Trajectory]:
    """The trajectories of a log in the packed format, `.eval`.

    Raises:
        DataError: it is torn or no log, or a sample is no dialogue of texts.
    """
    try:
        log = logs.read_eval_log(path, resolve_attachments=True)
    except (ValueError, KeyError, EOFError, BadZipFile) as error:
        raise no_log(path, error) from error
    return trajectories_in(log.model_dump(mode="python"), path)


def sample_of(one: Trajectory, model: str) -> logs.EvalSample:
    """A trajectory as a sample of a log; `model` is the log's."""
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
