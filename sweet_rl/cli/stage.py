"""A stage from its settings: a function of a few dataclasses, called by flags; and the record of every run of it.

    @recorded("filter_websites", reads=("saved_path",))
    @stage("saved_path", defaults={"render_cache": "none"})
    def filter_websites(files: FilterFlags, rendering: RenderFlags, /) -> None: ...

The fields of the dataclasses (`sweet_rl.flags`) are the stage's flags. From Python it is called with the flags
as keywords; it builds the dataclasses, which check themselves, and hands them on.
"""

from __future__ import annotations

import functools
import inspect
import os
import shlex
import sys
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from sweet_rl import tracking
from sweet_rl.chat.formats import SMOLLM2, model_path
from sweet_rl.cli.parse import Facets, Options, bound, stage_flags, with_defaults
from sweet_rl.errors import missing_package
from sweet_rl.flags import REQUIRED, Flag, Only, described, flags_of
from sweet_rl.flags.shared import Budget
from sweet_rl.openai_client import shown
from sweet_rl.types import Json

Stage = Callable[..., None]
Built = TypeVar("Built")

given_flags: ContextVar[frozenset[str]] = ContextVar("given_flags", default=frozenset())
"""The flags that the running stage was called with, whatever their values; the others have their defaults."""

typed_here: ContextVar[bool] = ContextVar("typed_here", default=False)
"""Whether the stage that begins next was typed on the command line of this process."""

PARENT = "SWEET_RL_PARENT_RUN"
"""Environment variable with the id of the run that a process works for."""

STEP = "SWEET_RL_STEP"
"""Environment variable with the name that a pipeline has for the stage that a process runs."""

_SPENDING = sorted(flags_of(Budget), key=lambda one: one.name != "prices")


class StageEntry(NamedTuple):
    """A stage in a list of stages."""

    place: str  # `module:function`; imported when the stage is asked for
    summary: str
    writes: tuple[str, ...] = ()  # patterns of the files that it writes, to say so where one is missing


def written_by(path: Path, stages: Mapping[str, StageEntry]) -> str:
    """A sentence on the stage that writes such a file or folder, behind a blank; "" for any other."""
    fits = [(len(one), name) for name, stage in stages.items() for one in stage.writes if path.match(one)]
    return f" `sweet-rl {max(fits)[1]}` writes it." if fits else ""


def stage(
    *positional: str,
    defaults: Mapping[str, Any] | None = None,
    helps: Mapping[str, str] | None = None,
    narrow: Mapping[str, Mapping[str, Any]] | None = None,
    only: Mapping[str, Only | None] | None = None,
    without: Sequence[str] = (),
    facets: Callable[[Mapping[str, Any]], Facets] | None = None,
    options: Options | None = None,
) -> Callable[[Callable[..., None]], Stage]:
    """Make a stage of a function whose positional-only parameters are dataclasses of flags.

    Words without a flag, if it takes any, are explained under `Args:` of its docstring. With `options` the last
    dataclass is the one that they choose, or None where there is none.

    Args:
        positional: flags that may be given without their name, in this order.
        defaults: flags whose default is another one in this stage; `REQUIRED`: it must be given.
        helps: flags that are explained otherwise in this stage.
        narrow: flags that may be less in this stage: `at_least`, `above`, `at_most`, `below` or `choices`.
        only: flags that have a meaning elsewhere than usual; None: everywhere.
        without: fields of the dataclasses that are no flags of this stage, and keep their defaults.
        facets: what the stage is about to do, from the values of all flags; what was typed for something else
            is refused. It may raise UsageError.
        options: flags that depend on what another flag names.
    """
    changes: dict[str, dict[str, Any]] = {name: {"positional": True} for name in positional}
    for what, of_flags in (("default", defaults), ("help", helps), ("only", only)):
        for name, value in (of_flags or {}).items():
            changes.setdefault(name, {})[what] = value
    for name, values in (narrow or {}).items():
        changes.setdefault(name, {}).update(values)

    def decorate(function: Callable[..., None]) -> Stage:
        types, known, groups = typing.get_type_hints(function), dict[str, Flag](), list[type]()
        for one in inspect.signature(function).parameters.values():
            if one.kind is one.VAR_POSITIONAL:
                words = described(function).get(one.name, "")
                known[one.name] = Flag(name=one.name, help=words, many=True, default=REQUIRED)
            elif one.kind is one.POSITIONAL_ONLY:
                groups.append(types[one.name])
        if options is not None:
            groups.pop()
        known |= {one.name: one for kind in groups for one in flags_of(kind) if one.name not in without}
        if wrong := sorted(changes.keys() - known.keys()):
            raise TypeError(f"this stage has no flag {wrong[0]!r}")
        # those first that may be given without their name
        flags = [
            replace(known[name], **changes.get(name, {})) for name in dict.fromkeys((*positional, *known))
        ]

        def construct(given: Mapping[str, Any]) -> tuple[list[Any], tuple[Any, ...]]:
            """The dataclasses of a call, and its words."""
            values = {one.name: given.get(one.name, () if one.many else one.default) for one in flags}
            for one in flags:
                one.check(values[one.name])
            settings: list[Any] = [built(kind, values) for kind in groups]
            if options is not None:
                name, further = values[options.by], {flag: given[flag] for flag in given if flag not in known}
                own = {one.name for one in options.flags(name)}
                for flag, value in further.items():
                    if flag not in own and value is not None:
                        options.refuse_of_others(flag, name)
                        raise TypeError(f"unexpected flag {flag!r}")
                chosen = None if name is None else options.of(name)
                settings.append(chosen and chosen(**{flag: further[flag] for flag in further if flag in own}))
            return settings, next((values[one.name] for one in flags if one.many), ())

        def build(*positional: Any, **named: Any) -> object:
            """The settings alone, to check them before anything runs."""
            return construct(bound(run, positional, named))

        @functools.wraps(function)
        def run(*positional: Any, **named: Any) -> None:
            given = bound(run, positional, named)
            before = given_flags.set(frozenset(given))
            try:
                settings, words = construct(given)
                function(*settings, *words)
            finally:
                given_flags.reset(before)

        _sign(run, flags, "options" if options else "")
        run.__dict__ |= {"options": options, "facets": facets, "build": build}
        return run

    return decorate


def _sign(function: Stage, flags: Sequence[Flag], further: str) -> None:
    """Give a function the flags of a stage, and the signature; `further` is the name of those that depend on another one."""
    kinds = inspect.Parameter
    parameters = []
    for one in flags:
        by_name = kinds.POSITIONAL_OR_KEYWORD if one.positional else kinds.KEYWORD_ONLY
        kind = kinds.VAR_POSITIONAL if one.many else by_name
        default = kinds.empty if one.default is REQUIRED else one.default
        parameters.append(inspect.Parameter(one.name, kind, default=default, annotation=one.annotation))
    parameters.sort(key=lambda one: one.kind)  # as Python wants it
    order = [one.name for one in parameters]
    parameters += [inspect.Parameter(further, kinds.VAR_KEYWORD)] if further else []
    function.__dict__["flags"] = tuple(sorted(flags, key=lambda one: order.index(one.name)))
    function.__dict__["__signature__"] = inspect.Signature(parameters, return_annotation=None)


def built(kind: type[Built], values: Mapping[str, Any]) -> Built:
    """A dataclass of flags from the values of more flags than it has."""
    return kind(**{one.name: values[one.name] for one in flags_of(kind) if one.name in values})


@contextmanager
def needing(packages: frozenset[str], extra: str, *, needed_for: str) -> Iterator[None]:
    """A failed import of one of the packages becomes an error that names the extra to install."""
    try:
        yield
    except ImportError as error:
        package = (error.name or "").partition(".")[0]
        if package not in packages:
            raise
        raise missing_package(package, extra, needed_for=needed_for) from error


def recorded(
    name: str, *, reads: Sequence[str] = (), prices: bool = False, resumes: bool = False
) -> Callable[[Stage], Stage]:
    """Make a stage's function keep a `run.json` with the outputs that it reports to `sweet_rl.tracking`.

    Args:
        name: the stage's, as in `sweet_rl.cli.main.COMMANDS`.
        reads: flags that name files, folders, models or tasks that the outputs depend on.
        prices: give the stage the flags --prices and --max_...; for those whose models may cost money.
        resumes: the same command resumes what was interrupted, without a flag.
    """
    spending = {one.name: one for one in _SPENDING if prices}

    def decorate(function: Stage) -> Stage:
        own = stage_flags(function)
        missing = sorted(set(reads) - {one.name for one in own})
        if missing and getattr(function, "options", None) is None:
            raise TypeError(f"{name} has no flag {missing[0]!r}")

        @functools.wraps(function)
        def stage(*positional: Any, **named: Any) -> None:
            from sweet_rl.runs.facts import load_prices
            from sweet_rl.runs.record import Record

            argv = list(sys.argv) if typed_here.get() else None
            typed_here.set(False)
            given = bound(stage, positional, named)
            settings = _settings(stage, given)
            budget = Budget(**{flag: settings[flag] for flag in spending})
            # a server's model is not loaded here, whatever it is called
            roles = ("", "agent_", "reflection_")
            served = any(settings.get(f"{role}base_url") is not None for role in roles)
            parent = tracking.current().id
            with Record(
                name,
                settings,
                command=_command(name, stage, given),
                argv=argv,
                prices=None if budget.prices is None else load_prices(budget.prices),
                budget=budget,
                parent=parent or os.environ.get(PARENT) or None,
                step=None if parent else os.environ.get(STEP) or None,
            ):
                tracking.reads("prices", budget.prices)
                for flag in reads:
                    value = settings.get(flag)
                    for source in value if isinstance(value, list) else (value,):
                        if source == SMOLLM2 and flag != "env_model" and not served:
                            model_path(source)  # refused before anything is written
                        tracking.reads(flag, source)
                function(*positional, **{flag: named[flag] for flag in named if flag not in spending})

        kinds = inspect.signature(function).parameters.values()
        further = next((one.name for one in kinds if one.kind is one.VAR_KEYWORD), "")
        _sign(stage, (*own, *spending.values()), further)
        stage.__dict__ |= {"__recorded__": name, "__resumes__": resumes}
        return stage

    return decorate


def settings_of(function: Stage, positional: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Json]:
    """Every flag of a recorded stage with its value, as the record of a call with these arguments has them."""
    return _settings(function, bound(function, positional, named))


def _settings(function: Stage, given: dict[str, Any]) -> dict[str, Json]:
    words: dict[str, Any] = {one.name: () for one in stage_flags(function) if one.many}
    found = with_defaults(function, given) | words | given
    return {flag: _plain(value) for flag, value in found.items()}


def _plain(value: Any) -> Json:
    if isinstance(value, Path):
        return str(value)
    return list(value) if isinstance(value, tuple) else value


def _command(name: str, function: Stage, given: Mapping[str, Any]) -> str:
    """A command line that calls the stage with these values."""
    flags, words = {one.name: one for one in stage_flags(function)}, ["sweet-rl", *name.split()]
    for flag, value in given.items():
        known = flags.get(flag)  # none: a flag that depends on another one
        if known is not None and known.many:
            words += map(str, value)
        elif known is None or value != known.default:
            words += [f"--{flag}", str(value)]
    return shown(shlex.join(words))
