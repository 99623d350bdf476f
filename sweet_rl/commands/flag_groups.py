"""Flags that several stages share: a dataclass declares each of them once, with its default and its help.

A stage's function takes the whole dataclass as one parameter; what a person types, and what `--help` teaches,
are its fields.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from typing import Any

from sweet_rl.errors import missing_package

Stage = Callable[..., None]


def with_flags(
    groups: Mapping[str, type], defaults: Mapping[str, Any] | None = None
) -> Callable[[Stage], Stage]:
    """Give a stage's function the fields of dataclasses as flags, in signature and help.

    Each group stands in the signature where the function has its parameter. What the stage's own docstring
    says of a flag counts more than what the group says.

    Args:
        groups: dataclasses by the parameters that they stand for; the function need not have all of them.
            Their docstrings describe the fields under `Args:`.
        defaults: flags whose default is another one in this stage.
    """
    own_defaults = defaults or {}

    def decorate(function: Stage) -> Stage:
        plain = inspect.signature(function)
        found = {name: groups[name] for name in plain.parameters if name in groups}
        shown: list[inspect.Parameter] = []
        for name, parameter in plain.parameters.items():
            shown += _flags(found[name], own_defaults) if name in found else [parameter]
        signature = plain.replace(parameters=shown)

        @functools.wraps(function)
        def stage(*positional: Any, **named: Any) -> None:
            given = signature.bind(*positional, **named)
            given.apply_defaults()
            values = given.arguments
            for name, kind in found.items():
                values[name] = kind(**{field.name: values.pop(field.name) for field in fields(kind)})
            call = inspect.BoundArguments(plain, values)
            function(*call.args, **call.kwargs)

        stage.__signature__ = signature  # type: ignore[attr-defined]
        stage.__doc__ = _help(function, found)
        return stage

    return decorate


def _flags(kind: type, defaults: Mapping[str, Any]) -> list[inspect.Parameter]:
    return [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=defaults.get(field.name, field.default),
            annotation=field.type,
        )
        for field in fields(kind)
    ]


def _help(function: Stage, groups: Mapping[str, type]) -> str:
    """The function's docstring, with a line for each flag in place of one for each group."""
    text, _, own = inspect.cleandoc(function.__doc__ or "").partition("Args:\n")
    described: dict[str, str] = {}
    for kind in groups.values():
        described |= _described(inspect.cleandoc(kind.__doc__ or "").partition("Args:\n")[2])
    described |= {name: words for name, words in _described(own).items() if name not in groups}
    lines = [f"    {name}: {words}" for name, words in described.items()]
    return "\n".join([text.rstrip(), "", "Args:", *lines])


def _described(args: str) -> dict[str, str]:
    """What stands behind each name of a docstring's `Args:`, on one line."""
    found: dict[str, str] = {}
    name = ""
    for line in args.partition("\n\n")[0].splitlines():
        if line.startswith("     "):  # goes on from the line before
            found[name] += f" {line.strip()}"
            continue
        name, _, words = line.strip().partition(": ")
        found[name] = words
    return found


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
