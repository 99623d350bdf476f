"""The flags that the stages of Reflect-RL share, written as the published parser reads them.

It takes unique beginnings of names, `--x` and `--no_x` for switches, and `yes` for true. `rewrite` turns such
a command line into the one that every stage of this library reads.

Published behaviour: docs/published/reflect_rl.md#flags.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sweet_rl.commands.belonging import Facets, belonging
from sweet_rl.commands.stages import Stage, needing, stage
from sweet_rl.errors import UsageError

_TRUE, _FALSE = frozenset({"true", "t", "yes", "y", "1"}), frozenset({"false", "f", "no", "n", "0"})
_PACKAGES = frozenset({"torch", "transformers", "peft", "safetensors", "yaml", "numpy"})


def reflect_stage(**defaults: Any) -> Callable[[Stage], Stage]:
    """Give a stage's function the published flags, which become one `ReflectSettings`.

    Args:
        **defaults: flags whose default is another one in this stage.
    """

    def decorate(function: Stage) -> Stage:
        guarded = needing(_PACKAGES, "reflect", needed_for=function.__name__)(function)
        reading = stage(defaults=defaults)(guarded)
        kinds = {one.name: str(one.annotation) for one in inspect.signature(reading).parameters.values()}
        reading.rewrite_arguments = functools.partial(rewrite, kinds)  # type: ignore[attr-defined]
        return belonging(_facets)(reading)  # type: ignore[no-any-return]

    return decorate


def _facets(flags: Mapping[str, Any]) -> Facets:
    """What a run learns in and by; published command lines and runs that go on say more than they use."""
    if flags["strict"] or flags.get("resume") or flags["mode"] == "train_SPT":
        return {}
    facets = {"env": {flags["env"]}}
    if flags["mode"] == "test":
        return facets
    facets["trainer"] = {flags["trainer"]}
    facets["critic"] = {"used"} if flags["use_critic"] else {"none"}
    facets["reflect"] = {"asked"} if flags["reflect"] else {"none"}
    return facets


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
                rewritten.append(word)  # the check of names suggests what was probably meant
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
