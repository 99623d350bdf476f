"""A decorator that records every run of a stage, from the command line and from Python."""

from __future__ import annotations

import functools
import inspect
import os
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from sweet_rl import tracking
from sweet_rl.chat.names import SMOLLM2, model_path
from sweet_rl.command_line import bound, with_defaults
from sweet_rl.errors import BudgetSpent, DataError, NonFiniteError, SweetRLError, UsageError
from sweet_rl.flags import flags_of
from sweet_rl.flags.common import Budget
from sweet_rl.openai_client import shown
from sweet_rl.types import Json

Stage = Callable[..., None]

typed_here: ContextVar[bool] = ContextVar("typed_here", default=False)
"""Whether the stage that begins next was typed on the command line of this process."""

PARENT = "SWEET_RL_PARENT_RUN"
"""Environment variable with the id of the run that a process works for."""

STEP = "SWEET_RL_STEP"
"""Environment variable with the name that a pipeline has for the stage that a process runs."""

_SPENDING = sorted(flags_of(Budget), key=lambda one: one.name != "prices")
_HAS = "__recorded__"
_RESUMES = "__resumes__"


def recorded(
    name: str, *, reads: Sequence[str] = (), prices: bool = False, resumes: bool = False
) -> Callable[[Stage], Stage]:
    """Make a stage's function keep a `run.json` with the outputs that it reports to `sweet_rl.tracking`.

    Args:
        name: the stage's, as in `sweet_rl.commands.catalogue.COMMANDS`.
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
            was_typed = typed_here.get()
            typed_here.set(False)
            given = bound(function, signature, positional, named)
            explicit = dict(given.arguments)
            call = inspect.BoundArguments(
                plain, {name: explicit[name] for name in explicit if name in plain.parameters}
            )
            given.apply_defaults()
            values: dict[str, Any] = dict(given.arguments)
            spending = {one.name: values.pop(one.name) for one in _SPENDING} if prices else {}
            budget = Budget(**spending)
            typed = _flat(plain, values)
            flat = with_defaults(function, typed) | typed
            settings = flat | spending
            # a server's model is not loaded here, whatever it is called
            served = any(flat.get(f"{role}base_url") is not None for role in ("", "agent_", "reflection_"))
            with _record(name, signature, explicit, settings, budget, was_typed=was_typed):
                tracking.reads("prices", budget.prices)
                for flag in reads:
                    value = flat.get(flag)
                    for source in value if isinstance(value, tuple) else (value,):
                        if source == SMOLLM2 and flag != "env_model" and not served:
                            model_path(source)  # refused before anything is written
                        tracking.reads(flag, source)
                function(*call.args, **call.kwargs)

        stage.__signature__ = signature  # type: ignore[attr-defined]
        if prices:
            stage.flags = (*getattr(function, "flags", ()), *_SPENDING)  # type: ignore[attr-defined]
        setattr(stage, _HAS, name)
        setattr(stage, _RESUMES, resumes)
        return stage

    return decorate


@contextmanager
def _record(
    name: str,
    signature: inspect.Signature,
    explicit: Mapping[str, Any],
    values: Mapping[str, Any],
    budget: Budget,
    *,
    was_typed: bool,
) -> Iterator[None]:
    """Open a record around a stage, and close it with how the stage ended."""
    from sweet_rl.runs.reading import load_prices
    from sweet_rl.runs.record import Record

    parent = tracking.current()
    record = Record(
        name,
        {flag: _plain(value) for flag, value in values.items()},
        command=_command(name, signature, explicit),
        argv=list(sys.argv) if was_typed else None,
        prices=load_prices(budget.prices) if budget.prices is not None else None,
        budget=budget,
        parent=(os.environ.get(PARENT) or None) if parent is None else parent.id,
        step=(os.environ.get(STEP) or None) if parent is None else None,
    )
    try:
        with tracking.listening(record):
            yield
    except BaseException as error:
        refused = isinstance(error, (UsageError, DataError)) and not isinstance(error, NonFiniteError)
        record.close(*_end(error), refused=refused)
        raise
    record.close("finished")


def settings_of(function: Stage, positional: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Json]:
    """Every flag of a recorded stage with its value, as the record of a call with these arguments has them."""
    given = bound(function, inspect.signature(function), positional, named)
    given.apply_defaults()
    typed = _flat(inspect.signature(function), dict(given.arguments))
    return {flag: _plain(value) for flag, value in (with_defaults(function, typed) | typed).items()}


def is_recorded(function: Stage) -> bool:
    """Whether a stage keeps a record."""
    return hasattr(function, _HAS)


def resumes_itself(function: Stage) -> bool:
    """Whether the same call resumes what a stage was interrupted in, without a flag."""
    return getattr(function, _RESUMES, False)


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
