"""Flags that the stages of Reflect-RL's data share, each declared once.

Flags of every stage that asks a teacher, or measures one, have their defaults, help and limits here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from sweet_rl.command_line import Facets, Options
from sweet_rl.command_line.servers import key_in
from sweet_rl.command_line.stages import Stage, stage
from sweet_rl.errors import UsageError
from sweet_rl.flags import REQUIRED, Only, Settings, flag, flags_of
from sweet_rl.flags.common import Overwriting, Quiet, Seeded
from sweet_rl.flags.models import BaseUrl, KeyVar, Requests
from sweet_rl.openai_client import shown
from sweet_rl.types import Json


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


PUBLISHED_MODELS = ("gpt-4", "gpt-3.5-turbo")
"""The defaults of --model, each in its stages."""


_OPENAI: Final = Only("teacher", ("openai",))


@dataclass(frozen=True, kw_only=True)
class TeacherFlags(BaseUrl, KeyVar, Requests):
    """The teacher, and how it is asked."""

    teacher: Literal["embedded", "openai"] = flag(
        "embedded",
        "embedded (an expert with sentences of its own; needs no model), or openai: a model behind any "
        "OpenAI-compatible server.",
    )

    model: str = flag(PUBLISHED_MODELS[0], "for openai: the server's name for the model.", only=_OPENAI)
    concurrency: int = flag(16, "for openai: requests in flight.", at_least=1)

    def check_together(self) -> None:
        """A teacher with a model needs both its name and its server."""
        super().check_together()
        if self.teacher == "openai" and not self.base_url:
            raise UsageError("--teacher openai needs --base_url, like https://host/v1.")
        key_in(self.api_key_var)
        if self.teacher == "embedded":
            self._refuse_flags_of_a_model()

    def _refuse_flags_of_a_model(self) -> None:
        """A model or its server that is named is asked."""
        usual = {one.name: (one.default,) for one in flags_of(type(self))} | {"model": PUBLISHED_MODELS}
        for name in ("base_url", "model", "api_key_var", "request_timeout_s", "request_attempts"):
            if getattr(self, name) not in usual[name]:
                raise UsageError(f"--{name} is of use with --teacher openai only; pass that as well.")

    @property
    def name(self) -> str:
        """The name that records give the teacher."""
        return self.model if self.teacher == "openai" else "embedded"

    def measured(self, embedded: str) -> str:
        """A line for stages that measure a model: which one, and how to choose another."""
        if self.teacher == "openai":
            return shown(f"Measured: the model {self.model} at {self.base_url}.")
        return (
            f"Measured: the embedded player, which {embedded}; no model was asked. To measure one: "
            "--teacher openai --base_url https://host/v1 --model NAME"
        )

    def settings(self) -> dict[str, Json]:
        """What decides about the content of what it says."""
        return {"teacher": self.teacher, "model": self.name}


def teacher_stage(
    *positional: str,
    helps: Mapping[str, str] | None = None,
    defaults: Mapping[str, Any] | None = None,
    narrow: Mapping[str, Mapping[str, Any]] | None = None,
    options: Options | None = None,
) -> Callable[[Callable[..., None]], Stage]:
    """Make a stage of a function that asks a teacher, or measures one."""
    own = {name: help_ for name, help_ in _HELPS.items() if name not in (helps or {})}
    return stage(
        *positional,
        defaults=defaults,
        helps=own | dict(helps or {}),
        narrow=narrow,
        only=dict.fromkeys(("api_key_var", "request_timeout_s", "request_attempts"), _OPENAI),
        facets=_facets,
        options=options,
    )


_HELPS: Final = {
    "base_url": "for openai: the server, like https://host/v1; several, separated by commas, share the load.",
}


def _facets(flags: Mapping[str, Any]) -> Facets:
    return {"teacher": {flags["teacher"]}}
