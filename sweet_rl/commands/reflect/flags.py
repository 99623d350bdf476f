"""The flags that the stages of Reflect-RL share, written as the published parser reads them.

It takes unique beginnings of names, `--x` and `--no_x` for switches, and `yes` for true. `rewrite` turns such
a command line into the one that every stage of this library reads.

Published behaviour: docs/published/reflect_rl.md#flags.
"""

from __future__ import annotations

import functools
import inspect
import re
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, make_dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from sweet_rl.cli.parse import Facets, Options, stage_flags
from sweet_rl.cli.stage import Stage, needing, stage
from sweet_rl.errors import UsageError
from sweet_rl.flags import flag
from sweet_rl.flags import flags_of as flags_of_settings
from sweet_rl.flags.shared import LogTo, Quiet
from sweet_rl.online.reflect.settings import PLAIN, ReflectFlags, settings_of
from sweet_rl.worlds import flags_of, names, world_of

_TRUE, _FALSE = frozenset({"true", "t", "yes", "y", "1"}), frozenset({"false", "f", "no", "n", "0"})
_PACKAGES = frozenset({"torch", "transformers", "peft", "safetensors", "yaml", "numpy"})


@dataclass(frozen=True, kw_only=True)
class Resuming(LogTo, Quiet):
    """Like many stages."""

    resume: str | None = flag(
        None, "a run's folder: resume it from its newest checkpoint, with its own flags."
    )


def reflect_stage(
    *,
    helps: Mapping[str, str] | None = None,
    narrow: Mapping[str, Mapping[str, Any]] | None = None,
    **defaults: Any,
) -> Callable[[Stage], Stage]:
    """Give a stage's function the published flags and those of the world, which become one `ReflectSettings`."""

    def decorate(function: Stage) -> Stage:
        guarded = needing(_PACKAGES, "reflect", needed_for=function.__name__)(function)
        plain = inspect.signature(function)
        of_any, *others = plain.parameters.values()
        groups = [one for one in others if one.kind is one.POSITIONAL_ONLY]

        @functools.wraps(function)
        def chosen(flags: ReflectFlags, *more: Any, **named: Any) -> None:
            how, (own, *words) = more[: len(groups)], more[len(groups) :]
            values = {name: getattr(flags, name) for name in PLAIN}
            values |= {one.name: getattr(own, one.name) for one in fields(own)}
            guarded(settings_of(**values), *how, *words, **named)

        own = of_any.replace(name="own")
        parameters = [of_any, *groups, own, *others[len(groups) :]]
        types = typing.get_type_hints(function)
        chosen.__signature__ = plain.replace(parameters=parameters)  # type: ignore[attr-defined]
        chosen.__annotations__ = {one.name: types[one.name] for one in groups} | {of_any.name: ReflectFlags}
        reading = stage(
            defaults=defaults,
            helps=helps,
            narrow=narrow,
            facets=_facets,
            options=Options("env", own_flags, names),
        )(chosen)
        reading.rewrite_arguments = functools.partial(rewrite, reading)  # type: ignore[attr-defined]
        return reading

    return decorate


@functools.cache
def own_flags(env: str) -> type:
    """The options of a world where an agent learns in it, as settings of a stage; none where it cannot."""
    world = world_of(env)
    if world.answered_by == "human":
        return make_dataclass("WorldFlags", [])
    kind = world.learns_with
    types = typing.get_type_hints(kind)
    known = {one.name: one for one in flags_of_settings(kind)}
    made = []
    for name, option in flags_of(world, learning=True).items():
        one = known[option]
        ranges = {what: getattr(one, what) for what in ("at_least", "above", "at_most", "below")}
        made.append((name, types[option], flag(one.default, one.help, shown=one.shown, **ranges)))
    return make_dataclass("WorldFlags", made, kw_only=True, namespace={"__doc__": kind.__doc__})


def _facets(flags: Mapping[str, Any]) -> Facets:
    """What a run learns by; published command lines and resumed runs have more than they use."""
    if flags["compat"] == "published" or flags.get("resume") or flags["mode"] in {"train_SPT", "test"}:
        return {}
    return {
        "trainer": {flags["trainer"]},
        "critic": {"used"} if flags["use_critic"] else {"none"},
        "reflect": {"asked"} if flags["reflect"] or flags["reflect_load_dir"] else {"none"},
    }


def rewrite(function: Stage, arguments: Sequence[str]) -> list[str]:
    """The command line with whole names, and a value behind every switch.

    Options of other worlds are left out where published command lines have them without effect: in
    fine-tuning, with --compat published, and where a run is resumed. Such a run's world is that of its folder.
    """
    arguments = [re.sub(r"^--world(?==|$)", "--env", word) for word in arguments]
    kinds = {
        name: one.annotation.partition(" ")[0]
        for one in stage_flags(function)
        for name in (one.name, *one.aliases)
    }
    worlds = {
        name: {one.name: one.annotation.partition(" ")[0] for one in _own(name)} for name in _envs(arguments)
    }
    rewritten = list(
        _rewritten(kinds | {flag: kind for own in worlds.values() for flag, kind in own.items()}, arguments)
    )
    typed = dict(word[2:].split("=", 1) for word in rewritten if word.startswith("--") and "=" in word)
    if "resume" in typed and "env" not in typed and (env := _env_of(typed["resume"])):
        rewritten.append(f"--env={env}")
        typed["env"] = env
    usual = {one.name: one.default for one in stage_flags(function)}
    if "resume" not in typed and typed.get("compat") != "published" and usual["mode"] != "train_SPT":
        return rewritten
    here = {one.name for one in _own(typed.get("env", usual["env"]))}
    others = {flag for own in worlds.values() for flag in own} - here
    return [word for word in rewritten if word[2:].partition("=")[0] not in others]


def _own(env: str) -> Sequence[Any]:
    return flags_of_settings(own_flags(env))


def _envs(arguments: Sequence[str]) -> set[str]:
    """The worlds that have a name, and one that is named as module:ATTRIBUTE."""
    named = [word.partition("=")[2] for word in arguments if word.startswith("--env=")]
    named += [after for word, after in pairwise(arguments) if word == "--env"]
    return {*names(), *(name for name in named if ":" in name)}


def _env_of(folder: str) -> str | None:
    """The world of a run that is resumed; the stage says what is wrong with a folder that names none."""
    from sweet_rl.online.reflect.runs import read_settings

    try:
        return str(read_settings(Path(folder).expanduser())["env"])
    except (UsageError, KeyError):
        return None


def _rewritten(kinds: Mapping[str, str], arguments: Sequence[str]) -> Iterator[str]:
    words = ["--compat=published" if word in {"--strict", "--strict=True"} else word for word in arguments]
    published = "--compat=published" in words or ("--compat", "published") in pairwise(words)
    while words:
        word = words.pop(0)
        if not word.startswith("--") or word == "--":
            yield word
            continue
        typed, equals, value = word[2:].partition("=")
        name = _whole(typed.replace("-", "_"), kinds)
        if name not in kinds:
            negated = name.removeprefix("no_")
            if kinds.get(negated) == "bool" and not equals:
                yield f"--{negated}=False"
            else:
                yield word  # the check of names suggests what was probably meant
            continue
        if kinds[name] == "bool":
            if not equals:
                follows = words and words[0].lower() in _TRUE | _FALSE
                value = words.pop(0) if follows else "True"
            value = str(_switch(name, value))
        elif not equals:
            if not words or (words[0].startswith("--") and words[0][2:3].isalpha()):
                raise UsageError(f"--{name} needs a value.")
            value = words.pop(0)
        if published and name == "weight_decay" and not value.isdigit():
            raise UsageError(f"--weight_decay is a whole number in the published code, got {value!r}.")
        yield f"--{name}={value}"


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
