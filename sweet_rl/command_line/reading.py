"""Parses a command line by the flags of a stage.

`--name value`, `--name=value`, a bare `--switch`, `--noswitch`, and words without a name for the flags
that may be given so, in their order. A value is read by its flag's kind, not by its looks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sweet_rl.command_line.stage_flags import Options, needed, stage_flags
from sweet_rl.errors import UsageError, suggestion
from sweet_rl.flags import REQUIRED, Flag

_SHORT: Final = re.compile(r"-[A-Za-z]")


@dataclass(frozen=True, slots=True)
class Typed:
    """What a person typed, as text: values by flag, and the words of one that takes any number."""

    flags: Mapping[str, str]
    words: tuple[str, ...]


def read(function: Callable[..., Any], arguments: Sequence[str]) -> Typed:
    """The command line of a stage taken apart."""
    flags = flags_here(function, arguments)
    typed, words = _split(flags, arguments)
    if unknown := [name for name in typed if name.startswith("-")]:
        _unknown(unknown[0][2:], flags, function, typed, words)
    _place(flags, typed, words)
    if words and not any(one.many for one in flags):
        raise UsageError(
            f"{words[0]!r} belongs to no flag, and this stage takes no further words "
            "(--help lists its flags)."
        )
    for one in flags:
        if one.default is REQUIRED and not one.many and one.name not in typed:
            raise needed(one)
    return Typed(typed, tuple(words))


def values(function: Callable[..., Any], typed: Typed) -> dict[str, Any]:
    """The typed flags as the values that the stage expects."""
    flags = {one.name: one for one in every_flag(function, typed.flags)}
    return {name: value_of(flags[name], text) for name, text in typed.flags.items()}


def every_flag(function: Callable[..., Any], given: Mapping[str, Any]) -> tuple[Flag, ...]:
    """The flags of a stage, and those of the world that is named among these values."""
    return (*stage_flags(function), *joined_flags(function, given))


def with_defaults(function: Callable[..., Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The value of every flag: as given, or as the stage has it."""
    flags = every_flag(function, given)
    return {one.name: given.get(one.name, one.default) for one in flags if not one.many}


def flags_here(function: Callable[..., Any], arguments: Sequence[str]) -> tuple[Flag, ...]:
    """The flags of a stage for this command line: its own, and those of the world that is named."""
    own = stage_flags(function)
    options: Options | None = getattr(function, "options", None)
    if options is None:
        return own
    every = {one.name: one for name in options.names() for one in options.flags(name)}
    typed, words = _split((*own, *every.values()), arguments, lenient=True)
    _place(own, typed, words)
    return (*own, *joined_flags(function, typed))


def value_of(flag: Flag, text: str) -> Any:
    """A text as its flag's kind."""
    if flag.optional and text == "None":
        return None
    return _READERS[flag.kind](flag.name, text)


def joined_flags(function: Callable[..., Any], given: Mapping[str, Any]) -> tuple[Flag, ...]:
    """The flags of the world that is named, or of whatever a stage's options depend on."""
    options: Options | None = getattr(function, "options", None)
    if options is None:
        return ()
    return options.flags(_named(function, options, given))


def _named(function: Callable[..., Any], options: Options, given: Mapping[str, Any]) -> str | None:
    """What is chosen: as given, or by default."""
    default = next(one.default for one in stage_flags(function) if one.name == options.by)
    name: str | None = given.get(options.by, None if default is REQUIRED else default)
    return name


def _split(
    flags: Sequence[Flag], arguments: Sequence[str], *, lenient: bool = False
) -> tuple[dict[str, str], list[str]]:
    """Values by flag, and the words that stand alone; what is no flag keeps its dashes."""
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
        name, equals, value = argument.lstrip("-").partition("=")  # a published README prints ---train
        found, negated = _find(name, by_name, bare=not equals)
        flag = found or Flag(name=f"--{argument[2:].partition('=')[0]}", bare="")
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
    return typed, words


def _find(typed: str, by_name: Mapping[str, Flag], *, bare: bool) -> tuple[Flag | None, bool]:
    """The flag of this name, and whether it is negated."""
    name = typed.replace("-", "_")
    if name in by_name:
        return by_name[name], False
    positive = by_name.get(name.removeprefix("no")) if bare and name.startswith("no") else None
    if positive is not None and positive.kind is bool:
        return positive, True
    return None, False


def _unknown(
    wrong: str,
    flags: Sequence[Flag],
    function: Callable[..., Any],
    typed: Mapping[str, str],
    words: Sequence[str],
) -> None:
    """Raises UsageError that says whose flag it is, or which one may be meant."""
    name = wrong.replace("-", "_")
    options: Options | None = getattr(function, "options", None)
    if options is not None:
        settings = dict(typed)
        _place(flags, settings, list(words))
        options.refuse_of_others(name, _named(function, options, settings))
    listed = [each for one in flags for each in (one.name, *one.aliases) if one.shown != "never"]
    every = [each for one in flags for each in one.names if not one.many]
    close = suggestion(name.strip("_"), listed, "--") or suggestion(name.strip("_"), every, "--")
    raise UsageError(f"unknown flag --{wrong}{close}.")


def _place(flags: Sequence[Flag], typed: dict[str, str], words: list[str]) -> None:
    """Give words to the flags that may be given without a name, in their order."""
    for one in flags:
        if one.positional and one.name not in typed and words:
            typed[one.name] = words.pop(0)


def _bool(name: str, text: str) -> bool:
    meanings = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
    if text.lower() not in meanings:
        raise UsageError(f"--{name} is a switch: true or false, got {text!r}.")
    return meanings[text.lower()]


def _int(name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise UsageError(f"--{name} must be a whole number, got {text!r}.") from None


def _float(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"--{name} must be a number, got {text!r}.") from None


_READERS: Final[Mapping[type, Callable[[str, str], Any]]] = {
    bool: _bool,
    int: _int,
    float: _float,
    str: lambda _, text: text,
}


Facets = Mapping[str, Collection[str]]
"""What a run is about to do: for each facet that its flags know, the values in play."""


def refuse_idle(function: Callable[..., Any], given: Mapping[str, Any]) -> None:
    """Refuse flags that do not apply to what the stage is about to do."""
    facets: Callable[[Mapping[str, Any]], Facets] | None = getattr(function, "facets", None)
    if facets is None:
        return
    typed = {name for name, value in given.items() if value is not None}
    flags = [one for one in every_flag(function, given) if one.name in typed]
    refuse(flags, facets(with_defaults(function, given)))


def refuse(flags: Iterable[Flag], facets: Facets, *, dashes: str = "--") -> None:
    """The same for flags and facets that are known."""
    for one in sorted(flags, key=lambda one: one.name):
        here = None if one.only is None else facets.get(one.only.facet)
        if here is not None and one.only is not None and set(here).isdisjoint(one.only.allowed):
            words = str(one.only) if dashes else str(one.only).removeprefix("--")
            now = f", and this is {' and '.join(sorted(here))}" if here else ""
            raise UsageError(f"{dashes}{one.name} belongs to {words}{now}. Leave it out.")
