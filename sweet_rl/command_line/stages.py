"""A stage from its settings: a function of a few dataclasses, called by flags.

    @stage("saved_path", defaults={"render_cache": "none"})
    def filter_websites(files: FilterFlags, rendering: RenderFlags, /) -> None: ...

The fields of the dataclasses (`sweet_rl.flags`) are the stage's flags. From Python it is called with the flags
as keywords; it builds the dataclasses, which check themselves, and hands them on.
"""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import Any, TypeVar

from sweet_rl.command_line import Facets, Options, bound
from sweet_rl.command_line.stage_flags import flag_of
from sweet_rl.errors import missing_package
from sweet_rl.flags import REQUIRED, Flag, Only, described, flags_of

__all__ = ["Facets", "Stage", "built", "given_flags", "needing", "stage"]

Stage = Callable[..., None]
Built = TypeVar("Built")

given_flags: ContextVar[frozenset[str]] = ContextVar("given_flags", default=frozenset())
"""The flags that the running stage was called with, whatever their values; the others have their defaults."""


def stage(
    *positional: str,
    defaults: Mapping[str, Any] | None = None,
    helps: Mapping[str, str] | None = None,
    narrow: Mapping[str, Mapping[str, Any]] | None = None,
    only: Mapping[str, Only | None] | None = None,
    facets: Callable[[Mapping[str, Any]], Facets] | None = None,
    options: Options | None = None,
    listing: Callable[[], str] | None = None,
) -> Callable[[Callable[..., None]], Stage]:
    """Make a stage of a function whose positional-only parameters are dataclasses of flags.

    Its other parameters, if it has any, are flags as well, explained under `Args:` of its docstring. With
    `options` the last dataclass is the one that they choose, or None where there is none.

    Args:
        positional: flags that may be given without their name, in this order.
        defaults: flags whose default is another one in this stage; `REQUIRED`: it must be given.
        helps: flags that are explained otherwise in this stage.
        narrow: flags that may be less in this stage: `at_least`, `above`, `at_most`, `below` or `choices`.
        only: flags that have a meaning elsewhere than usual; None: everywhere.
        facets: what the stage is about to do, from the values of all flags; what was typed for something else
            is refused. It may raise UsageError.
        options: flags that depend on what another flag names.
        listing: what the help says behind the docstring; made when help is asked for.
    """

    def decorate(function: Callable[..., None]) -> Stage:
        plain = inspect.signature(function)
        groups = _groups(function, plain, joined=options is not None)
        rest = plain.replace(
            parameters=[p for p in plain.parameters.values() if p.kind is not p.POSITIONAL_ONLY]
        )
        own = described(function)
        flags = [flag_of(parameter, own.get(name, "")) for name, parameter in rest.parameters.items()]
        flags += {one.name: one for kind in groups for one in flags_of(kind)}.values()
        changes = {"default": defaults or {}, "help": helps or {}, "only": only or {}}
        flags = list(_changed(flags, changes, narrow or {}, positional))
        signature = plain.replace(parameters=list(_parameters(flags, options)))

        def build(*positional: Any, **named: Any) -> tuple[list[Any], inspect.BoundArguments]:
            return construct(bound(run, signature, positional, named))

        def construct(given: inspect.BoundArguments) -> tuple[list[Any], inspect.BoundArguments]:
            given.apply_defaults()
            values = given.arguments
            further = values.pop("options") if options else {}
            for one in flags:
                if not one.many:
                    one.check(values[one.name])
            settings = [built(kind, values) for kind in groups]
            if options:
                settings.append(_chosen(options, values, further))
            return settings, inspect.BoundArguments(rest, {name: values[name] for name in rest.parameters})

        @functools.wraps(function)
        def run(*positional: Any, **named: Any) -> None:
            given = bound(run, signature, positional, named)
            names = frozenset({*given.arguments, *given.arguments.get("options", ())})
            settings, call = construct(given)
            before = given_flags.set(names)
            try:
                function(*settings, *call.args, **call.kwargs)
            finally:
                given_flags.reset(before)

        run.__signature__ = signature  # type: ignore[attr-defined]
        run.flags = tuple(flags)  # type: ignore[attr-defined]
        run.options = options  # type: ignore[attr-defined]
        run.build = build  # type: ignore[attr-defined] # the settings alone, to check them before anything runs
        run.listing = listing  # type: ignore[attr-defined]
        run.facets = facets  # type: ignore[attr-defined]
        return run

    return decorate


def built(kind: type[Built], values: Mapping[str, Any]) -> Built:
    """A dataclass of flags from the values of more flags than it has."""
    return kind(**{one.name: values[one.name] for one in flags_of(kind)})


def _groups(function: Callable[..., None], plain: inspect.Signature, *, joined: bool) -> list[type]:
    """The dataclasses that a function takes, without the one that is chosen when it is called."""
    types = typing.get_type_hints(function)
    names = [name for name, one in plain.parameters.items() if one.kind is one.POSITIONAL_ONLY]
    return [types[name] for name in (names[:-1] if joined else names)]


def _changed(
    flags: Sequence[Flag],
    changes: Mapping[str, Mapping[str, Any]],
    narrow: Mapping[str, Mapping[str, Any]],
    positional: Sequence[str],
) -> Iterator[Flag]:
    """The flags as one stage has them, those first that may be given without their name."""
    known = {one.name: one for one in flags}
    changed = {name for change in changes.values() for name in change}
    if wrong := sorted({*changed, *narrow, *positional} - set(known)):
        raise TypeError(f"this stage has no flag {wrong[0]!r}")
    for name in dict.fromkeys((*positional, *known)):
        own = {what: change[name] for what, change in changes.items() if name in change}
        own |= narrow.get(name, {})
        yield replace(known[name], positional=name in positional or known[name].positional, **own)


def _parameters(flags: list[Flag], options: Options | None) -> Iterator[inspect.Parameter]:
    """The flags as a signature has them: first what may be given without a name."""
    order = (
        (inspect.Parameter.POSITIONAL_OR_KEYWORD, [one for one in flags if one.positional and not one.many]),
        (inspect.Parameter.VAR_POSITIONAL, [one for one in flags if one.many]),
        (inspect.Parameter.KEYWORD_ONLY, [one for one in flags if not one.positional and not one.many]),
    )
    for kind, some in order:
        for one in some:
            default = inspect.Parameter.empty if one.default is REQUIRED else one.default
            yield inspect.Parameter(one.name, kind, default=default, annotation=one.annotation)
    if options is not None:
        yield inspect.Parameter("options", inspect.Parameter.VAR_KEYWORD)


def _chosen(options: Options, values: Mapping[str, Any], further: Mapping[str, Any]) -> Any:
    """The settings of the world, or whatever it is, that was named."""
    name = values[options.by]
    kind = None if name is None else options.of(name)
    known = {one.name for one in options.flags(name)}
    for flag, value in further.items():
        if flag not in known and value is not None:
            options.refuse_of_others(flag, name)
            raise TypeError(f"unexpected flag {flag!r}")
    given = {flag: value for flag, value in further.items() if flag in known}
    return None if kind is None else kind(**given)


@contextmanager
def needing(packages: frozenset[str], extra: str, *, needed_for: str) -> Iterator[None]:
    """An import that fails within becomes an error that names what to install.

    Args:
        packages: of the extra; the failure of any other import stays what it is.
        extra: that installs them.
        needed_for: what the packages are needed for.
    """
    try:
        yield
    except ImportError as error:
        package = (error.name or "").partition(".")[0]
        if package not in packages:
            raise
        raise missing_package(package, extra, needed_for=needed_for) from error
