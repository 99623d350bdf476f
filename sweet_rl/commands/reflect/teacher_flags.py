"""The flags of every stage that asks a teacher, or measures one: their defaults, their help, their limits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from sweet_rl.commands.belonging import Facets, belonging
from sweet_rl.commands.flag_groups import Stage, with_flags
from sweet_rl.commands.servers import key_in
from sweet_rl.errors import UsageError
from sweet_rl.types import Json

TEACHERS = ("embedded", "openai")

PUBLISHED_MODELS = ("gpt-4", "gpt-3.5-turbo")
"""The defaults of --model, each in its stages."""


@dataclass(frozen=True, slots=True)
class TeacherFlags:
    """Who is asked, and how.

    Args:
        teacher: embedded (knows the way and has sentences of its own; needs no model), or openai: a model
            behind any OpenAI-compatible server.
        base_url: for openai: the server, like https://host/v1; several, separated by commas, share the load.
        model: for openai: the server's name for the model.
        api_key_var: for openai: environment variable that holds the key, which must be set; default
            OPENAI_API_KEY, if that is set.
        request_timeout_s: for openai: seconds that one request may take.
        request_attempts: for openai: how often a request is tried when it fails in a way that can pass.
        concurrency: for openai: requests in flight.

    Raises:
        UsageError: a flag has a value that it cannot have, or needs another one.
    """

    teacher: str = "embedded"
    base_url: str | None = None
    model: str = "gpt-4"
    api_key_var: str | None = None
    request_timeout_s: float = 120.0
    request_attempts: int = 4
    concurrency: int = 16

    def __post_init__(self) -> None:
        if self.teacher not in TEACHERS:
            raise UsageError(f"--teacher must be {' or '.join(TEACHERS)}, got {self.teacher!r}.")
        if self.concurrency < 1:
            raise UsageError(f"--concurrency must be at least 1, got {self.concurrency}.")
        if self.teacher == "openai" and not self.base_url:
            raise UsageError("--teacher openai needs --base_url, like https://host/v1.")
        key_in(self.api_key_var)
        if self.teacher == "embedded":
            self._refuse_flags_of_a_model()

    def _refuse_flags_of_a_model(self) -> None:
        """A model or its server that is named is asked.

        Raises:
            UsageError: a flag was given that the embedded teacher has no use for.
        """
        usual = {one.name: (one.default,) for one in fields(self)} | {"model": PUBLISHED_MODELS}
        for name in ("base_url", "model", "api_key_var", "request_timeout_s", "request_attempts"):
            if getattr(self, name) not in usual[name]:
                raise UsageError(f"--{name} is of use with --teacher openai only; pass that as well.")

    @property
    def name(self) -> str:
        """The name that records give the teacher."""
        return self.model if self.teacher == "openai" else "embedded"

    def measured(self, embedded: str) -> str:
        """A line for stages that measure a model: which one, and how to choose another.

        Args:
            embedded: what the embedded player knows that a model does not.
        """
        if self.teacher == "openai":
            return f"Measured: the model {self.model} at {self.base_url}."
        return (
            f"Measured: the embedded player, which {embedded}; no model was asked. To measure one: "
            "--teacher openai --base_url https://host/v1 --model NAME"
        )

    def settings(self) -> dict[str, Json]:
        """What decides about the content of what it says."""
        return {"teacher": self.teacher, "model": self.name}


def teacher_stage(**defaults: Any) -> Callable[[Stage], Stage]:
    """Give a stage's function the teacher's flags, in signature and help, in place of `flags`.

    Args:
        **defaults: flags whose default is another one in this stage.
    """

    def decorate(function: Stage) -> Stage:
        return belonging(_facets)(with_flags({"flags": TeacherFlags}, defaults)(function))  # type: ignore[no-any-return]

    return decorate


def _facets(flags: Mapping[str, Any]) -> Facets:
    scenario = {"scenario": {flags["scenario"]}} if "scenario" in flags else {}
    return {"teacher": {flags["teacher"]}} | scenario
