"""Trials of harbor's jobs on disk: a folder TASK__ID with the agent's trajectory, the verifier's reward."""

from __future__ import annotations

import json
from pathlib import Path


def task_of(document: Path) -> str | None:
    """The task of the trial that a document is of; None for a document that is in no trial."""
    trial = document.parent.parent
    if document.name != "trajectory.json" or document.parent.name != "agent":
        return None
    return trial.name.rpartition("__")[0] or trial.name


def reward_of(document: Path) -> float | None:
    """What the verifier of that trial wrote: `reward`, else its first number; None where it wrote nothing."""
    verifier = document.parent.parent / "verifier"
    if (verifier / "reward.json").is_file():
        rewards = json.loads((verifier / "reward.json").read_text())
        return float(rewards.get("reward", next(iter(rewards.values()))))
    text = verifier / "reward.txt"
    return float(text.read_text()) if text.is_file() else None
