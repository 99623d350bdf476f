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
from sweet_rl.cli.parse import Facets, Options, bound, with_defaults
from sweet_rl.errors import BudgetSpent, DataError, NonFiniteError, SweetRLError, UsageError, missing_package
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
    fits = [
        (len(pattern), name)
        for name, stage in stages.items()
        for pattern in stage.writes
        if path.match(pattern)
    ]
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

    def decorate(function: Callable[..., None]) -> Stage:
        plain = inspect.signature(function)
        types = typing.get_type_hints(function)
        names = [name for name, one in plain.parameters.items() if one.kind is one.POSITIONAL_ONLY]
        groups: list[type] = [types[name] for name in (names[:-1] if options else names)]
        words = [one for one in plain.parameters.values() if one.kind is one.VAR_POSITIONAL]
        known = {one.name: one for kind in groups for one in flags_of(kind) if one.name not in without}
        known |= {
            one.name: Flag(
                name=one.name, help=described(function).get(one.name, ""), many=True, default=REQUIRED
            )
            for one in words
        }
        changes = {"default": defaults or {}, "help": helps or {}, "only": only or {}}
        if wrong := sorted(
            {*positional, *(narrow or {}), *(name for one in changes.values() for name in one)} - set(known)
        ):
            raise TypeError(f"this stage has no flag {wrong[0]!r}")
        flags = []
        for name in dict.fromkeys((*positional, *known)):  # those first that may be given without their name
            own = {what: change[name] for what, change in changes.items() if name in change}
            own |= (narrow or {}).get(name, {})
            flags.append(replace(known[name], positional=name in positional or known[name].positional, **own))
        parameters = []
        for one in sorted(flags, key=_kind_of):  # in the order that Python wants
            default = inspect.Parameter.empty if one.default is REQUIRED else one.default
            parameters.append(
                inspect.Parameter(one.name, _kind_of(one), default=default, annotation=one.annotation)
            )
        if options is not None:
            parameters.append(inspect.Parameter("options", inspect.Parameter.VAR_KEYWORD))
        signature = plain.replace(parameters=parameters)

        def construct(given: inspect.BoundArguments) -> tuple[list[Any], tuple[Any, ...]]:
            given.apply_defaults()
            values = given.arguments
            further = values.pop("options") if options else {}
            for one in flags:
                if not one.many:
                    one.check(values[one.name])
            settings = [built(kind, values) for kind in groups]
            if options:
                name = values[options.by]
                kind, own = (
                    (None if name is None else options.of(name)),
                    {one.name for one in options.flags(name)},
                )
                for flag, value in further.items():
                    if flag not in own and value is not None:
                        options.refuse_of_others(flag, name)
                        raise TypeError(f"unexpected flag {flag!r}")
                chosen = {flag: value for flag, value in further.items() if flag in own}
                settings.append(None if kind is None else kind(**chosen))
            return settings, values[words[0].name] if words else ()

        @functools.wraps(function)
        def run(*positional: Any, **named: Any) -> None:
            given = bound(run, signature, positional, named)
            before = given_flags.set(frozenset({*given.arguments, *given.arguments.get("options", ())}))
            try:
                settings, more = construct(given)
                function(*settings, *more)
            finally:
                given_flags.reset(before)

        # `build` makes the settings alone, to check them before anything runs
        more = {"flags": tuple(flags), "options": options, "facets": facets, "__signature__": signature}
        run.__dict__ |= more | {"build": lambda *args, **named: construct(bound(run, signature, args, named))}
        return run

    return decorate


def _kind_of(flag: Flag) -> Any:
    """How a flag stands in a signature."""
    if flag.many:
        return inspect.Parameter.VAR_POSITIONAL
    return inspect.Parameter.POSITIONAL_OR_KEYWORD if flag.positional else inspect.Parameter.KEYWORD_ONLY


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

    def decorate(function: Stage) -> Stage:
        plain = inspect.signature(function)
        missing = sorted(set(reads) - set(plain.parameters))
        if missing and getattr(function, "options", None) is None:
            raise TypeError(f"{name} has no flag {missing[0]!r}")
        signature = _with_prices(plain) if prices else plain

        @functools.wraps(function)
        def stage(*positional: Any, **named: Any) -> None:
            from sweet_rl.runs.reading import load_prices
            from sweet_rl.runs.record import Record

            was_typed = typed_here.get()
            typed_here.set(False)
            given = bound(function, signature, positional, named)
            explicit = dict(given.arguments)
            call = inspect.BoundArguments(
                plain, {name: value for name, value in explicit.items() if name in plain.parameters}
            )
            given.apply_defaults()
            values = dict(given.arguments)
            spending = {one.name: values.pop(one.name) for one in _SPENDING} if prices else {}
            budget = Budget(**spending)
            settings = _settings(function, plain, values)
            # a server's model is not loaded here, whatever it is called
            served = any(
                settings.get(f"{role}base_url") is not None for role in ("", "agent_", "reflection_")
            )
            parent = tracking.current()
            record = Record(
                name,
                settings | {flag: _plain(value) for flag, value in spending.items()},
                command=_command(name, signature, explicit),
                argv=list(sys.argv) if was_typed else None,
                prices=load_prices(budget.prices) if budget.prices is not None else None,
                budget=budget,
                parent=(os.environ.get(PARENT) or None) if parent is None else parent.id,
                step=(os.environ.get(STEP) or None) if parent is None else None,
            )
            try:
                with tracking.listening(record):
                    tracking.reads("prices", budget.prices)
                    for flag in reads:
                        value = settings.get(flag)
                        for source in value if isinstance(value, list) else (value,):
                            if source == SMOLLM2 and flag != "env_model" and not served:
                                model_path(source)  # refused before anything is written
                            tracking.reads(flag, source)
                    function(*call.args, **call.kwargs)
            except BaseException as error:
                refused = isinstance(error, (UsageError, DataError)) and not isinstance(error, NonFiniteError)
                record.close(*_end(error), refused=refused)
                raise
            record.close("finished")

        stage.__dict__ |= {"__signature__": signature, "__recorded__": name, "__resumes__": resumes}
        if prices:
            stage.__dict__["flags"] = (*getattr(function, "flags", ()), *_SPENDING)
        return stage

    return decorate


def _settings(function: Stage, signature: inspect.Signature, values: Mapping[str, Any]) -> dict[str, Json]:
    """Every flag with its value, from the arguments of a call."""
    typed = _flat(signature, values)
    return {flag: _plain(value) for flag, value in (with_defaults(function, typed) | typed).items()}


def settings_of(function: Stage, positional: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Json]:
    """Every flag of a recorded stage with its value, as the record of a call with these arguments has them."""
    signature = inspect.signature(function)
    given = bound(function, signature, positional, named)
    given.apply_defaults()
    return _settings(function, signature, given.arguments)


def _end(error: BaseException) -> tuple[str, str | None]:
    """How a stage ended that ended with this: the status, and why."""
    if isinstance(error, KeyboardInterrupt):
        return "interrupted", None
    if isinstance(error, SystemExit):
        done = error.code in {None, 0}
        return ("finished", None) if done else ("failed", f"exit status {error.code}")
    words = str(error) if isinstance(error, SweetRLError) else f"{type(error).__name__}: {error}"
    return "interrupted" if isinstance(error, BudgetSpent) else "failed", words[:2000]


def _with_prices(signature: inspect.Signature) -> inspect.Signature:
    flags = [
        inspect.Parameter(one.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=one.annotation)
        for one in _SPENDING
    ]
    before = [*signature.parameters.values()]
    options = [before.pop()] if before and before[-1].kind is inspect.Parameter.VAR_KEYWORD else []
    return signature.replace(parameters=[*before, *flags, *options])


def _flat(signature: inspect.Signature, values: Mapping[str, Any]) -> dict[str, Any]:
    """Values by flag, with those that depend on another flag beside the rest."""
    flat: dict[str, Any] = {}
    for name, value in values.items():
        joined = signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD
        flat |= value if joined else {name: value}
    return flat


def _plain(value: Any) -> Json:
    if isinstance(value, Path):
        return str(value)
    return list(value) if isinstance(value, tuple) else value


def _command(name: str, signature: inspect.Signature, explicit: Mapping[str, Any]) -> str:
    """A command line that calls the stage with these values."""
    words = ["sweet-rl", *name.split()]
    for flag, value in _flat(signature, explicit).items():
        known = signature.parameters.get(flag)  # none: a flag that depends on another one
        if known is not None and known.kind is inspect.Parameter.VAR_POSITIONAL:
            words += map(str, value)
        elif known is None or value != known.default:
            words += [f"--{flag}", str(value)]
    return shown(shlex.join(words))
