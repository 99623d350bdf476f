"""Parses a command line by the flags of a stage, and refuses what has no meaning in a run.

`--name value`, `--name=value`, a bare `--switch`, `--noswitch`, and words without a name for the flags
that may be given so, in their order. A value is read by its flag's kind, not by its looks.
"""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from sweet_rl.errors import UsageError, suggestion
from sweet_rl.flags import REQUIRED, Flag, any_of, described, flags_of, read_type

_SHORT: Final = re.compile(r"-[A-Za-z]")
_SWITCH: Final = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}

Facets = Mapping[str, Collection[str]]
"""What a run is about to do: for each facet that its flags know, the values in play."""


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
        owners = [one for one in self.names() if any(flag in known.names for known in self.flags(one))]
        if owners:
            raise UsageError(
                f"--{flag} belongs to the {self.by} {any_of(tuple(owners))}, and this is {name}. Leave it out."
            )


class Typed(NamedTuple):
    """What a person typed, as text: values by flag, and the words of one that takes any number."""

    flags: Mapping[str, str]
    words: tuple[str, ...]


def stage_flags(function: Callable[..., Any]) -> tuple[Flag, ...]:
    """The flags of a stage that do not depend on others; of a function without settings its parameters."""
    known: tuple[Flag, ...] | None = getattr(function, "flags", None)
    if known is not None:
        return known
    helps, hints, found = described(function), typing.get_type_hints(function), []
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD:
            continue
        kind, optional, choices = read_type(hints.get(name, str))
        found.append(
            Flag(
                name=name,
                help=helps.get(name, ""),
                kind=kind,
                optional=optional,
                choices=choices,
                default=REQUIRED if parameter.default is parameter.empty else parameter.default,
                positional=parameter.kind is parameter.POSITIONAL_OR_KEYWORD,
                many=parameter.kind is parameter.VAR_POSITIONAL,
            )
        )
    return tuple(found)


def _choice(function: Callable[..., Any], given: Mapping[str, Any]) -> tuple[Options | None, str | None]:
    """What a stage's further flags depend on, and which choice is named, or is the default."""
    options: Options | None = getattr(function, "options", None)
    if options is None:
        return None, None
    default = next(one.default for one in stage_flags(function) if one.name == options.by)
    return options, given.get(options.by, None if default is REQUIRED else default)


def joined_flags(function: Callable[..., Any], given: Mapping[str, Any]) -> tuple[Flag, ...]:
    """The flags of the world that is named, or of whatever a stage's options depend on."""
    options, name = _choice(function, given)
    return () if options is None else options.flags(name)


def flags_here(function: Callable[..., Any], arguments: Sequence[str]) -> tuple[Flag, ...]:
    """The flags of a stage for this command line: its own, and those of the world that is named."""
    own = stage_flags(function)
    options: Options | None = getattr(function, "options", None)
    if options is None:
        return own
    typed, _ = _split(own, own, arguments, lenient=True)
    if any(name.startswith("-") for name in typed):  # whose flag it is decides whether a value follows
        every = {one.name: one for name in options.names() for one in options.flags(name)}
        typed, _ = _split((*own, *every.values()), own, arguments, lenient=True)
    return (*own, *joined_flags(function, typed))


def with_defaults(function: Callable[..., Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The value of every flag: as given, or as the stage has it."""
    flags = (*stage_flags(function), *joined_flags(function, given))
    return {one.name: given.get(one.name, one.default) for one in flags if not one.many}


def read(function: Callable[..., Any], arguments: Sequence[str]) -> Typed:
    """The command line of a stage taken apart."""
    flags = flags_here(function, arguments)
    typed, words = _split(flags, flags, arguments)
    if unknown := next((name for name in typed if name.startswith("-")), None):
        name = unknown[2:].replace("-", "_")
        options, choice = _choice(function, typed)
        if options is not None:
            options.refuse_of_others(name, choice)
        listed = [each for one in flags for each in (one.name, *one.aliases) if one.shown != "never"]
        every = [each for one in flags for each in one.names if not one.many]
        close = suggestion(name.strip("_"), listed, "--") or suggestion(name.strip("_"), every, "--")
        raise UsageError(f"unknown flag {unknown}{close}.")
    if words and not any(one.many for one in flags):
        raise UsageError(
            f"{words[0]!r} belongs to no flag, and this stage takes no further words (--help lists its flags)."
        )
    _need(flags, typed)
    return Typed(typed, tuple(words))


def values_of(function: Callable[..., Any], typed: Typed) -> dict[str, Any]:
    """The typed flags as the values that the stage expects; all of them apply to what it is about to do."""
    flags = {one.name: one for one in (*stage_flags(function), *joined_flags(function, typed.flags))}
    found = {name: value_of(flags[name], text) for name, text in typed.flags.items()}
    if facets := getattr(function, "facets", None):
        given = [flags[name] for name, value in found.items() if value is not None]
        refuse(given, facets(with_defaults(function, found)))
    return found


def value_of(flag: Flag, text: str) -> Any:
    """A text as its flag's kind."""
    if flag.optional and text == "None":
        return None
    if flag.kind is bool:
        if text.lower() not in _SWITCH:
            raise UsageError(f"--{flag.name} is a switch: true or false, got {text!r}.")
        return _SWITCH[text.lower()]
    try:
        return flag.kind(text)
    except ValueError:
        what = "a whole number" if flag.kind is int else "a number"
        raise UsageError(f"--{flag.name} must be {what}, got {text!r}.") from None


def refuse(flags: Iterable[Flag], facets: Facets, *, dashes: str = "--") -> None:
    """Refuse flags that do not apply to what a run is about to do."""
    for one in sorted(flags, key=lambda one: one.name):
        here = None if one.only is None else facets.get(one.only.facet)
        if here is not None and one.only is not None and set(here).isdisjoint(one.only.allowed):
            words = str(one.only) if dashes else str(one.only).removeprefix("--")
            now = f", and this is {' and '.join(sorted(here))}" if here else ""
            raise UsageError(f"{dashes}{one.name} belongs to {words}{now}. Leave it out.")


def in_front(
    function: Callable[..., Any], words: Sequence[str], values: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Positional and named arguments of a call: further words follow the flags that need no name."""
    if not words:
        return (), dict(values)
    first = {one.name: one for one in stage_flags(function) if one.positional and not one.many}
    rest = {name: value for name, value in values.items() if name not in first}
    return (*(values.get(name, one.default) for name, one in first.items()), *words), rest


def bound(
    function: Callable[..., Any], positional: Sequence[Any], named: Mapping[str, Any]
) -> dict[str, Any]:
    """The arguments of a call from Python by flag, aliases replaced by their flags; no defaults yet."""
    signature = inspect.signature(function)
    names = {name: one.name for one in stage_flags(function) for name in one.names}
    renamed = {names.get(name, name): value for name, value in named.items()}
    given = dict(signature.bind_partial(*positional, **renamed).arguments)
    for one in signature.parameters.values():
        if one.kind is one.VAR_KEYWORD and (further := given.pop(one.name, None)):
            own = {name: flag.name for flag in joined_flags(function, given) for name in flag.names}
            given |= {own.get(name, name): value for name, value in further.items()}
    _need(stage_flags(function), given)
    return given


def _need(flags: Iterable[Flag], given: Mapping[str, Any]) -> None:
    for one in flags:
        if one.default is REQUIRED and not one.many and one.name not in given:
            raise UsageError(f"--{one.name} is needed: {one.help}")


def _split(
    flags: Sequence[Flag], unnamed: Sequence[Flag], arguments: Sequence[str], *, lenient: bool = False
) -> tuple[dict[str, str], list[str]]:
    """Values by flag, and the words that are left; what is no flag keeps its dashes.

    Words go to those of the `unnamed` flags that may be given without a name, in their order.
    """
    by_name = {name: one for one in flags if not one.many for name in one.names}
    typed: dict[str, str] = {}
    words: list[str] = []
    left = list(arguments)
    while left:
        argument = left.pop(0)
        if _SHORT.match(argument) and not lenient:
            raise UsageError(f"{argument}: write flags in full, with two dashes (--help lists them).")
        if not argument.startswith("--") or argument == "--":
            words.append(argument)
            continue
        written, equals, value = argument.lstrip("-").partition("=")  # a published README prints ---train
        name = written.replace("-", "_")
        positive = by_name.get(name.removeprefix("no"))
        negated = name not in by_name and not equals and positive is not None and positive.kind is bool
        unknown = Flag(name=f"--{argument[2:].partition('=')[0]}", bare="")
        flag = positive if negated and positive is not None else by_name.get(name, unknown)
        if equals:
            typed[flag.name] = value
        elif negated:
            typed[flag.name] = "False"
        elif left and not (left[0].startswith("--") or _SHORT.match(left[0])):
            typed[flag.name] = left.pop(0)
        elif flag.kind is bool or flag.bare is not None:
            typed[flag.name] = "True" if flag.bare is None else flag.bare
        elif not lenient:
            hyphen = f' One that begins with a hyphen is written --{flag.name}="{left[0]}".' if left else ""
            raise UsageError(f"--{flag.name} needs a value.{hyphen}")
    for one in unnamed:
        if one.positional and one.name not in typed and words:
            typed[one.name] = words.pop(0)
    return typed, words
