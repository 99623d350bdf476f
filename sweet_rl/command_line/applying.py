"""Flags without effect in this run of a stage are refused, not ignored."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from sweet_rl.command_line.reading import every_flag, with_defaults
from sweet_rl.errors import UsageError
from sweet_rl.flags import Flag

Facets = Mapping[str, Collection[str]]
"""What a run is about to do: for each facet that its flags know, the values in play."""


def refuse_idle(function: Callable[..., Any], given: Mapping[str, Any]) -> None:
    """Refuse flags that do not apply to what the stage is about to do."""
    facets: Callable[[Mapping[str, Any]], Facets] | None = getattr(function, "facets", None)
    if facets is None:
        return
    typed = {name for name, value in given.items() if value is not None}
    flags = [one for one in every_flag(function, given) if one.name in typed]
    refuse(flags, facets(with_defaults(function, given)))


def refuse(flags: Iterable[Flag], facets: Facets, *, dashes: str = "--") -> None:
    """The same for flags and facets that are known."""
    for one in sorted(flags, key=lambda one: one.name):
        here = None if one.only is None else facets.get(one.only.facet)
        if here is not None and one.only is not None and set(here).isdisjoint(one.only.allowed):
            words = str(one.only) if dashes else str(one.only).removeprefix("--")
            now = f", and this is {' and '.join(sorted(here))}" if here else ""
            raise UsageError(f"{dashes}{one.name} belongs to {words}{now}. Leave it out.")
