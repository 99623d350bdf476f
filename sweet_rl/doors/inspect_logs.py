"""Trajectories as logs of inspect_ai (`.eval`), and back.

Hidden solutions are in a log as they are in a trajectory file: as a sample's target, which no model is shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from zipfile import BadZipFile

from inspect_ai import log as logs

from sweet_rl.doors.inspect_samples import sample_of, trajectory_in
from sweet_rl.errors import DataError
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
    """The trajectories of a log."""
    try:
        log = logs.read_eval_log(path, resolve_attachments=True)
    except (ValueError, KeyError, EOFError, BadZipFile) as error:
        repair = "Name a whole .eval file, as inspect eval or sweet-rl export wrote it."
        raise DataError(f"is no log of inspect_ai ({error})", path=path, repair=repair) from error
    return [trajectory_in(one, log.eval.model, path) for one in log.samples or ()]
