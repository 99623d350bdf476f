"""Which world another tool opens, and for whom: declared once, for every tool that asks for it in its own way."""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, TypeVar

from sweet_rl.errors import UsageError, no_such
from sweet_rl.flags import flag, no_flag
from sweet_rl.flags.shared import NumTasks, Seeded, Tasks, WorldName
from sweet_rl.types import Json
from sweet_rl.worlds import first_for

Made = TypeVar("Made")


@dataclass(frozen=True, kw_only=True)
class WorldChoice(WorldName, Tasks, NumTasks, Seeded):
    """The world, as it can stand in another tool's configuration; `options` are the world's, `grading` those
    of `sweet_rl.grade`.
    """

    human: str = flag(
        "auto",
        "who answers: auto (without human_url who needs no model), a server's model, module:ATTRIBUTE.",
    )
    human_url: str | None = flag(None, "base URL of the human's server.")
    options: dict[str, Json] = no_flag(factory=dict)
    grading: dict[str, Json] = no_flag(factory=dict)


def choice_fields() -> dict[str, tuple[Any, Any]]:
    """Type and default of every field, by its name."""
    hints = typing.get_type_hints(WorldChoice)
    usual = {"world": first_for("dialogue"), "options": {}, "grading": {}}
    return {one.name: (hints[one.name], usual.get(one.name, one.default)) for one in fields(WorldChoice)}


def choice_of(settings: Mapping[str, Any]) -> WorldChoice:
    """A choice from another tool's configuration; what that leaves out is as usual."""
    usual = {name: default for name, (_, default) in choice_fields().items()}
    for name in settings:
        if name not in usual:
            raise no_such("setting of a world", name, usual)
    choice = WorldChoice(**usual | dict(settings))
    for name in ("options", "grading"):
        if not isinstance(value := getattr(choice, name), Mapping):
            raise UsageError(f"{name} of a world must be names with values, like {{'a': 1}}, got {value!r}.")
    return choice


def by_fields(function: Callable[[WorldChoice], Made]) -> Callable[..., Made]:
    """A function of a choice as one of the choice's fields, for tools that read signatures."""

    @functools.wraps(function)
    def call(**named: Any) -> Made:
        return function(choice_of(named))

    call.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=kind, default=default)
            for name, (kind, default) in choice_fields().items()
        ]
    )
    return call
