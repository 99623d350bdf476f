"""Flags that the stages of Reflect-RL's data share, each declared once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sweet_rl.flags import REQUIRED, Settings, flag
from sweet_rl.flags.common import Overwriting, Quiet, Seeded


@dataclass(frozen=True, kw_only=True)
class TaskFile(Settings):
    """Inputs and outputs."""

    task_file: str = flag(REQUIRED, "the tasks.")


@dataclass(frozen=True, kw_only=True)
class Output(Settings):
    """Inputs and outputs."""

    output: str = flag(REQUIRED, "the file to write; empty: its usual place.")


@dataclass(frozen=True, kw_only=True)
class MaxTurns(Settings):
    """The games."""

    max_turns: int = flag(15, "agent turns of an episode at most.", at_least=1, aliases=("horizon",))


@dataclass(frozen=True, kw_only=True)
class Markov(MaxTurns):
    """The games."""

    markov: bool = flag(False, "the model is shown nothing of earlier steps.", shown="all")


@dataclass(frozen=True, kw_only=True)
class Played(MaxTurns):
    """The games."""

    num_records: int = flag(REQUIRED, "states to record.", at_least=1)
    random_share: float = flag(
        0.9, "how often the player takes any action, 0 to 1; else the best one.", at_least=0, at_most=1
    )
    reflections: bool = flag(True, "ask the teacher at all.")


@dataclass(frozen=True, kw_only=True)
class RecordingFlags(Played, Output, Seeded, Overwriting, Quiet):
    """Flags of every stage that records played states."""


@dataclass(frozen=True, kw_only=True)
class TextFlags(TaskFile, Output, Overwriting):
    """What every stage is told that writes training texts."""


@dataclass(frozen=True, kw_only=True)
class Label(Settings):
    """The texts."""

    label: Literal["taken", "best"] = flag("taken", "which action is the label.")


@dataclass(frozen=True, kw_only=True)
class Rules(Settings):
    """The games."""

    with_prompt: bool = flag(False, "put the rules into every state.")
