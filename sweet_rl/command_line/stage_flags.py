"""The flags of a stage: given by its settings, or by the signature and docstring of its function."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sweet_rl.errors import UsageError
from sweet_rl.flags import REQUIRED, Flag, any_of, described, flags_of, read_type

_KINDS: Final[Mapping[str, type]] = {"bool": bool, "int": int, "float": float, "str": str}


@dataclass(frozen=True, slots=True)
class Options:
    """Flags that depend on what another flag names: those of a world, for one."""

    by: str
    of: Callable[[str], type | None]
    names: Callable[[], Iterable[str]]

    def flags(self, name: str | None) -> tuple[Flag, ...]:
        """The flags of the named choice; none without a name."""
        kind = None if name is None else self.of(name)
        return () if kind is None else flags_of(kind)

    def refuse_of_others(self, flag: str, name: str | None) -> None:
        """Distinguish a flag of another world from an unknown flag."""
        owners = tuple(one for one in self.names() if flag in _every_name(self.flags(one)))
        if owners:
            raise UsageError(
                f"--{flag} belongs to the {self.by} {any_of(owners)}, and this is {name}. Leave it out."
            )


def stage_flags(function: Callable[..., Any]) -> tuple[Flag, ...]:
    """The flags of a stage that do not depend on others, in the order of its signature."""
    known = {one.name: one for one in getattr(function, "flags", ())}
    helps = described(function)
    return tuple(
        known.get(parameter.name) or flag_of(parameter, helps.get(parameter.name, ""))
        for parameter in inspect.signature(function).parameters.values()
        if parameter.kind is not inspect.Parameter.VAR_KEYWORD
    )


def in_front(
    function: Callable[..., Any], words: Sequence[str], values: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Positional and named arguments of a call: further words follow the flags that need no name."""
    if not words:
        return (), dict(values)
    first = [one for one in stage_flags(function) if one.positional and not one.many]
    names = {one.name for one in first}
    rest = {name: value for name, value in values.items() if name not in names}
    return (*(values.get(one.name, one.default) for one in first), *words), rest


def flag_of(parameter: inspect.Parameter, words: str) -> Flag:
    """A parameter of a function as a flag."""
    written = parameter.annotation
    if isinstance(written, str):
        kind, optional = _KINDS[written.replace("| None", "").strip()], "None" in written
    else:  # of a module that does not postpone its annotations
        kind, optional, _ = read_type(str if written is parameter.empty else written)
    return Flag(
        name=parameter.name,
        help=words,
        kind=kind,
        optional=optional,
        default=REQUIRED if parameter.default is parameter.empty else parameter.default,
        positional=parameter.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD,
        many=parameter.kind is inspect.Parameter.VAR_POSITIONAL,
    )


def bound(
    function: Callable[..., Any],
    signature: inspect.Signature,
    positional: Sequence[Any],
    named: Mapping[str, Any],
) -> inspect.BoundArguments:
    """The arguments of a call from Python, aliases replaced by their flags; no defaults yet."""
    names = {name: one.name for one in getattr(function, "flags", ()) for name in one.names}
    given = signature.bind_partial(
        *positional, **{names.get(name, name): value for name, value in named.items()}
    )
    options: Options | None = getattr(function, "options", None)
    if options is not None and (further := given.arguments.get("options")):
        by = given.arguments.get(options.by, signature.parameters[options.by].default)
        own = {name: one.name for one in options.flags(by) for name in one.names}
        given.arguments["options"] = {own.get(name, name): value for name, value in further.items()}
    for one in stage_flags(function):
        if one.default is REQUIRED and not one.many and one.name not in given.arguments:
            raise needed(one)
    return given


def needed(flag: Flag) -> UsageError:
    """The error for a flag that is missing."""
    return UsageError(f"--{flag.name} is needed: {flag.help}")


def _every_name(flags: Sequence[Flag]) -> set[str]:
    return {name for one in flags for name in one.names}
