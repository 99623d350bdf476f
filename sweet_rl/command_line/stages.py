"""A stage from its settings: a function of a few dataclasses, called by flags.

    @stage(defaults={"render_cache": "none"})
    def filter_websites(files: FilterFlags, rendering: RenderFlags, /) -> None: ...

The fields of the dataclasses (`sweet_rl.flags`) are the stage's flags. From Python it is called with the flags
as keywords; it builds the dataclasses, which check themselves, and hands them on.
"""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, replace
from typing import Any

from sweet_rl.command_line import Options, bound
from sweet_rl.command_line.stage_flags import flag_of
from sweet_rl.errors import missing_package
from sweet_rl.flags import REQUIRED, Flag, described, flags_of

Stage = Callable[..., None]


def stage(
    *,
    defaults: Mapping[str, Any] | None = None,
    helps: Mapping[str, str] | None = None,
    options: Options | None = None,
) -> Callable[[Callable[..., None]], Stage]:
    """Make a stage of a function whose positional-only parameters are dataclasses of flags.

    Its other parameters, if it has any, are flags as well, explained under `Args:` of its docstring. With
    `options` the last dataclass is the one that they choose, or None where there is none.

    Args:
        defaults: flags whose default is another one in this stage.
        helps: flags that are explained otherwise in this stage.
        options: flags that depend on what another flag names.
    """

    def decorate(function: Callable[..., None]) -> Stage:
        plain = inspect.signature(function)
        groups = _groups(function, plain, joined=options is not None)
        rest = plain.replace(
            parameters=[p for p in plain.parameters.values() if p.kind is not p.POSITIONAL_ONLY]
        )
        own = described(function)
        flags = [flag_of(parameter, own.get(name, "")) for name, parameter in rest.parameters.items()]
        flags += [one for kind in groups for one in flags_of(kind)]
        flags = [_changed(one, defaults or {}, helps or {}) for one in flags]
        signature = plain.replace(parameters=list(_parameters(flags, options)))

        def build(*positional: Any, **named: Any) -> tuple[list[Any], inspect.BoundArguments]:
            given = bound(run, signature, positional, named)
            given.apply_defaults()
            values = given.arguments
            further = values.pop("options") if options else {}
            built = [kind(**{one.name: values.pop(one.name) for one in fields(kind)}) for kind in groups]
            if options:
                built.append(_chosen(options, values, built, further))
            return built, inspect.BoundArguments(rest, values)

        @functools.wraps(function)
        def run(*positional: Any, **named: Any) -> None:
            built, call = build(*positional, **named)
            function(*built, *call.args, **call.kwargs)

        run.__signature__ = signature  # type: ignore[attr-defined]
        run.flags = tuple(flags)  # type: ignore[attr-defined]
        run.options = options  # type: ignore[attr-defined]
        run.build = build  # type: ignore[attr-defined] # the settings alone, to check them before anything runs
        return run

    return decorate


def _groups(function: Callable[..., None], plain: inspect.Signature, *, joined: bool) -> list[type]:
    """The dataclasses that a function takes, without the one that is chosen when it is called."""
    types = typing.get_type_hints(function)
    names = [name for name, one in plain.parameters.items() if one.kind is one.POSITIONAL_ONLY]
    return [types[name] for name in (names[:-1] if joined else names)]


def _changed(flag: Flag, defaults: Mapping[str, Any], helps: Mapping[str, str]) -> Flag:
    default, words = defaults.get(flag.name, flag.default), helps.get(flag.name, flag.help)
    return replace(flag, default=default, help=words)


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


def _chosen(options: Options, values: Mapping[str, Any], built: list[Any], further: Mapping[str, Any]) -> Any:
    """The settings of the world, or whatever it is, that was named."""
    name = values.get(options.by)
    for settings in built:
        name = getattr(settings, options.by, name)
    kind = None if name is None else options.of(name)
    known = {one.name for one in options.flags(name)}
    for flag in further:
        if flag not in known:
            options.refuse_of_others(flag, name)
            raise TypeError(f"unexpected flag {flag!r}")
    return None if kind is None else kind(**further)


@contextmanager
def needing(packages: frozenset[str], extra: str, *, needed_for: str) -> Iterator[None]:
    """An import that fails within becomes an error that names what to install.

    Args:
        packages: of the extra; the failure of any other import stays what it is.
        extra: that installs them.
        needed_for: what the packages are needed for.

    Raises:
        UsageError: one of the packages is missing.
    """
    try:
        yield
    except ImportError as error:
        package = (error.name or "").partition(".")[0]
        if package not in packages:
            raise
        raise missing_package(package, extra, needed_for=needed_for) from error
