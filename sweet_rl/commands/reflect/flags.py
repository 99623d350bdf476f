"""The flags that the stages of Reflect-RL share, written as the published parser reads them (spec §7).

It takes unique beginnings of names, `--x` and `--no_x` for switches, and `yes` for true. `rewrite` turns such
a command line into the one that every stage of this library reads.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any

from sweet_rl.algorithms.reflect.settings import ReflectSettings
from sweet_rl.errors import UsageError, missing_package

_TRUE, _FALSE = frozenset({"true", "t", "yes", "y", "1"}), frozenset({"false", "f", "no", "n", "0"})
_PACKAGES = frozenset({"torch", "transformers", "peft", "safetensors", "yaml", "numpy"})
_GROUP = "flags"


def reflect_stage(**defaults: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a stage's function the published flags, in signature and help, in place of `flags`.

    Args:
        **defaults: flags whose default is another one in this stage.
    """

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        own = [one for name, one in inspect.signature(function).parameters.items() if name != _GROUP]
        shared = [
            inspect.Parameter(
                field.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=defaults.get(field.name, field.default),
                annotation=field.type,
            )
            for field in fields(ReflectSettings)
        ]
        signature = inspect.Signature([*own, *shared])
        many = [one.name for one in own if one.kind is inspect.Parameter.VAR_POSITIONAL]

        @functools.wraps(function)
        def stage(*positional: Any, **named: Any) -> None:
            given = signature.bind(*positional, **named)
            given.apply_defaults()
            values = given.arguments
            words = [word for name in many for word in values.pop(name)]
            values[_GROUP] = ReflectSettings(**{flag.name: values.pop(flag.name) for flag in shared})
            try:
                function(*words, **values)
            except ImportError as error:
                package = (error.name or "").partition(".")[0]
                if package not in _PACKAGES:
                    raise
                raise missing_package(package, "reflect", needed_for=function.__name__) from error

        stage.__signature__ = signature  # type: ignore[attr-defined]
        kinds = {one.name: str(one.annotation) for one in signature.parameters.values()}
        stage.rewrite_arguments = functools.partial(rewrite, kinds)  # type: ignore[attr-defined]
        lines = inspect.cleandoc(function.__doc__ or "").splitlines()
        lines = [line for line in lines if not line.startswith(f"    {_GROUP}:")]
        helps = inspect.cleandoc(ReflectSettings.__doc__ or "").partition("Args:\n")[2]
        stage.__doc__ = "\n".join([*lines, *helps.partition("\n\n")[0].splitlines()])
        return stage

    return decorate


def rewrite(kinds: Mapping[str, str], arguments: Sequence[str]) -> list[str]:
    """The command line with whole names, and a value behind every switch.

    Args:
        kinds: annotations by flag.
        arguments: as typed.

    Raises:
        UsageError: a beginning fits several flags, or a switch is given something else.
    """
    rewritten: list[str] = []
    words = list(arguments)
    strict = "--strict" in words or "--strict=True" in words
    while words:
        word = words.pop(0)
        if not word.startswith("--") or word == "--":
            rewritten.append(word)
            continue
        typed, equals, value = word[2:].partition("=")
        name = _whole(typed.replace("-", "_"), kinds)
        if name not in kinds:
            negated = name.removeprefix("no_")
            if kinds.get(negated) == "bool" and not equals:
                rewritten.append(f"--{negated}=False")
            else:
                rewritten.append(word)  # whoever checks names says what was probably meant
        elif kinds[name] == "bool":
            if not equals:
                follows = words and words[0].lower() in _TRUE | _FALSE
                value = words.pop(0) if follows else "True"
            rewritten.append(f"--{name}={_switch(name, value)}")
        elif equals:
            rewritten.append(f"--{name}={value}")
        else:
            if not words or (words[0].startswith("--") and words[0][2:3].isalpha()):
                raise UsageError(f"--{name} needs a value.")
            value = words.pop(0)
            rewritten.append(f"--{name}={value}")
        if strict and name == "weight_decay" and not rewritten[-1].partition("=")[2].isdigit():
            raise UsageError(f"--weight_decay is a whole number in the published code, got {value!r}.")
    return rewritten


def _whole(typed: str, kinds: Mapping[str, str]) -> str:
    """The flag that begins so, if there is one; published: `--no_x` counts as a flag of its own."""
    if typed in kinds:
        return typed
    known = [*kinds, *(f"no_{name}" for name, kind in kinds.items() if kind == "bool")]
    found = [name for name in known if name.startswith(typed)]
    if typed in found or not found:
        return typed
    if len(found) > 1:
        raise UsageError(f"--{typed} is not unique: it may be --{', --'.join(found[:6])}.")
    return found[0]


def _switch(name: str, value: str) -> bool:
    if value.lower() in _TRUE:
        return True
    if value.lower() in _FALSE:
        return False
    raise UsageError(f"--{name} is a switch: true or false, got {value!r}.")
