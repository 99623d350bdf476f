"""Trajectories as documents of ATIF, harbor's agent trajectory interchange format, and back.

What the format has a place for stands there: texts, thoughts, sampled tokens and their log-probabilities. A
turn's reward and credit are `extra` of its step; what is ours alone is `extra["sweet_rl"]` of the step and of
the document, so that a document of ours comes back whole. Hidden solutions are in it as they are in a
trajectory file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sweet_rl.doors.atif_foreign import DOCUMENT, again, read_foreign
from sweet_rl.doors.atif_steps import CREDIT, OURS, SOURCES, credit_in, entry_of, step_of
from sweet_rl.errors import DataError
from sweet_rl.records import trajectory_from_row, trajectory_to_row
from sweet_rl.types import Json, Trajectory
from sweet_rl.version import __version__

VERSION = "ATIF-v1.7"
"""What we write: the first version that has a place for all of it."""


def document_of(one: Trajectory) -> dict[str, Json]:
    """A trajectory as a document; one that was read from another's document becomes that document again."""
    row = trajectory_to_row(one)
    history, credit = row.pop("dialogue_history"), row.pop(CREDIT, None)
    steps = [step_of(place, entry) for place, entry in enumerate(history, 1)]
    turns = [step for step, entry in zip(steps, history, strict=True) if "input" in entry]
    for step, known in zip(turns, credit or (), strict=False):
        step["extra"] |= {} if known is None else {"credit": known}
    if (theirs := row.get(DOCUMENT)) is not None:
        return again(theirs, [step["extra"] for step in turns], one.reward)
    name, known = f"{one.task.task_id}.{one.sample_index}", one.provenance
    counts = [step.get("metrics", {}).get("completion_tokens") for step in turns]
    return {
        "schema_version": VERSION,
        "session_id": str(known.get("run", name)),
        "trajectory_id": name,
        "agent": {"name": str(known.get("agent", OURS)), "version": str(known.get("sweet_rl", __version__))}
        | ({"model_name": str(known["agent_model"])} if "agent_model" in known else {}),
        "steps": steps,
        "final_metrics": {"total_steps": len(steps)}
        | ({} if None in counts else {"total_completion_tokens": sum(counts)})
        | ({} if one.reward is None else {"extra": {"reward": one.reward}}),
        "extra": {OURS: row},
    }


def trajectory_in(document: Mapping[str, Any], path: Path) -> Trajectory:
    """The trajectory of a document, ours or another's; `path` is the file that it is in."""
    version, steps = str(document.get("schema_version", "")), document.get("steps")
    if not version.startswith("ATIF-v1.") or not steps or not isinstance(steps, list):
        raise DataError("is no ATIF trajectory of a version 1", path=path, field="schema_version")
    for place, step in enumerate(steps):
        if not isinstance(step, Mapping) or step.get("source") not in SOURCES or "message" not in step:
            repair = f"A step has a message and its source: {', '.join(SOURCES)}."
            raise DataError("is no step", path=path, field=f"steps[{place}]", value=step, repair=repair)
    try:
        row = (document.get("extra") or {}).get(OURS)
        row = trajectory_to_row(read_foreign(document, path)) if row is None else _row_of_ours(row, steps)
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        repair = "Every field has the type that ATIF gives it."
        raise DataError(f"is no ATIF trajectory ({error!r})", path=path, repair=repair) from error
    return trajectory_from_row(row, path=path)


def _row_of_ours(row: Mapping[str, Any], steps: Sequence[Mapping[str, Any]]) -> dict[str, Json]:
    history = [entry_of(step) for step in steps]
    credit = credit_in(step for step, entry in zip(steps, history, strict=True) if "input" in entry)
    return {**row, "dialogue_history": history, **credit}
