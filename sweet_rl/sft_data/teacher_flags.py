"""The flags of every stage that asks a teacher, or measures one: their defaults, their help, their limits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from sweet_rl.command_line import Facets, Options
from sweet_rl.command_line.servers import key_in
from sweet_rl.command_line.stages import Stage, stage
from sweet_rl.errors import UsageError
from sweet_rl.flags import Only, flag, flags_of
from sweet_rl.flags.models import BaseUrl, KeyVar, Requests
from sweet_rl.openai_client import shown
from sweet_rl.types import Json

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
