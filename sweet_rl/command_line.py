"""A command line to the arguments of a stage's function: by its signature, and refused before anything runs.

`--name value`, `--name=value`, a bare `--switch`, `--noswitch`, and words without a name for the parameters
that may be given so, in their order. A value is read by its parameter's annotation, not by its looks.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sweet_rl.errors import UsageError, suggestion

_ALSO_BARE = frozenset({"mean_log_prob", "use_wandb"})
"""Published switches that became choices: text, and `True` where they stand alone."""


_SHORT = re.compile(r"-[A-Za-z]")


@dataclass(frozen=True, slots=True)
class Typed:
    """What a person typed, as text: values by parameter, and the words of one that takes any number."""

    flags: Mapping[str, str]
    words: tuple[str, ...]


def read(function: Callable[..., Any], arguments: Sequence[str]) -> Typed:
    """The command line taken apart.

    Raises:
        UsageError: a flag or a word that the function does not take, or one that it needs is missing.
    """
    parameters = inspect.signature(function).parameters
    flags: dict[str, str] = {}
    words: list[str] = []
    left = list(arguments)
    while left:
        argument = left.pop(0)
        if _SHORT.match(argument):
            raise UsageError(f"{argument}: write flags in full, with two dashes (--help lists them).")
        if not argument.startswith("--") or argument == "--":
            words.append(argument)
            continue
        typed, equals, value = argument[2:].partition("=")
        name, negated = _name(typed, parameters, bare=not equals)
        if equals:
            flags[name] = value
        elif negated:
            flags[name] = "False"
        elif left and not (left[0].startswith("--") or _SHORT.match(left[0])):
            flags[name] = left.pop(0)
        elif _kind(parameters[name]) == "bool" or name in _ALSO_BARE:
            flags[name] = "True"
        else:
            raise UsageError(f"--{name} needs a value.")
    return _placed(parameters, flags, words)


def values(function: Callable[..., Any], typed: Typed) -> dict[str, Any]:
    """What was typed as the values that the function expects.

    Raises:
        UsageError: a value is not of its flag's kind.
    """
    parameters = inspect.signature(function).parameters
    return {name: _value(parameters[name], text) for name, text in typed.flags.items()}


def with_defaults(function: Callable[..., Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The value of every flag: as given, or as the function has it."""
    parameters = inspect.signature(function).parameters.values()
    return {one.name: given.get(one.name, one.default) for one in parameters if not takes_words(one)}


def takes_words(parameter: inspect.Parameter) -> bool:
    """Whether it takes all words that are no flags."""
    return parameter.kind is inspect.Parameter.VAR_POSITIONAL


def _name(typed: str, parameters: Mapping[str, inspect.Parameter], *, bare: bool) -> tuple[str, bool]:
    """The parameter that a flag names, and whether it is negated."""
    name = typed.replace("-", "_")
    known = [one.name for one in parameters.values() if not takes_words(one)]
    if name in known:
        return name, False
    positive = name.removeprefix("no")
    if bare and positive != name and positive in known and _kind(parameters[positive]) == "bool":
        return positive, True
    raise UsageError(f"unknown flag --{typed}{suggestion(name.strip('_'), known, '--')}.")


def _placed(
    parameters: Mapping[str, inspect.Parameter], flags: dict[str, str], words: Sequence[str]
) -> Typed:
    """Words given to the parameters that may be given without a name."""
    left = list(words)
    for name, parameter in parameters.items():
        if parameter.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD and name not in flags and left:
            flags[name] = left.pop(0)
    if left and not any(map(takes_words, parameters.values())):
        raise UsageError(
            f"{left[0]!r} belongs to no flag, and this stage takes no further words (--help lists its flags)."
        )
    for name, parameter in parameters.items():
        if parameter.default is parameter.empty and not takes_words(parameter) and name not in flags:
            raise UsageError(f"--{name} is needed (--help explains it).")
    return Typed(flags, tuple(left))


def _kind(parameter: inspect.Parameter) -> str:
    return str(parameter.annotation).replace("| None", "").strip()


def _value(parameter: inspect.Parameter, text: str) -> Any:
    if "None" in str(parameter.annotation) and text == "None":
        return None
    return _READERS[_kind(parameter)](parameter.name, text)


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


_READERS: dict[str, Callable[[str, str], Any]] = {
    "bool": _bool,
    "int": _int,
    "float": _float,
    "str": lambda _, text: text,
}
