"""The registry of worlds: folders beside this file that have a `WORLD`, and those of installed packages."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator, Mapping
from dataclasses import Field, fields
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from sweet_rl.cli.stage import StageEntry
from sweet_rl.errors import DataError, UsageError
from sweet_rl.flags import flags_of as flags_of_settings
from sweet_rl.plugins import Registry
from sweet_rl.types import Json
from sweet_rl.worlds.base import World
from sweet_rl.worlds.options import COMMON, Options

_MINI = ("sweet_rl.mini.lantern",)
"""Worlds that stand in for another, which nothing here imports."""
_FIRST = ("human", "oracle", "world")
"""Worlds are listed by who answers in them."""
_OTHERS: dict[str, World] = {}
"""Those that were asked for as `module:ATTRIBUTE` in this process: their lists of tasks have names, too."""


def names() -> tuple[str, ...]:
    """All worlds that have a name: ours, then those of installed packages."""
    return _registry().names()


def world_of(name: str) -> World:
    """The world of this name, ours or the published one, or `module:ATTRIBUTE`.

    Raises:
        UsageError: there is none, or what is there is no world.
    """
    place = _published().get(name, name)
    found = _registry().find(place if ":" in place or place in names() else place.replace("-", "_"))
    if not isinstance(found, World):
        raise UsageError(
            f"{name!r} is no world but {found!r}. It has to be an object of a subclass of sweet_rl.worlds.World."
        )
    if ":" in name:
        _OTHERS[name] = found
    return found


def agents_with(flag: str) -> tuple[str, ...]:
    """The names of the scripted agents that take this flag, whichever world they play."""
    takers = {name for world in all_worlds() for name, takes in world.takes.items() if flag in takes}
    return tuple(sorted(takers))


def options_by_name(name: str) -> type[Options]:
    """The dataclass of a world's options.

    Raises:
        UsageError: there is no such world.
    """
    return world_of(name).options


def all_worlds() -> Iterator[World]:
    """Every world that has a name, then those that were asked for by their place."""
    yield from map(world_of, names())
    yield from list(_OTHERS.values())


def world_with(source: str) -> World:
    """The world of this name, or the one that has a list of tasks of this name, also with what it wants.

    Raises:
        UsageError: there is none.
    """
    return next(
        (world for world in all_worlds() if source.partition(":")[0] in world.sources), None
    ) or world_of(source)


def world_in(provenance: Mapping[str, Json]) -> World | None:
    """The world that a row says it is of; a published row says none, and one of a person's own file has no name."""
    name = world_named_in(provenance)
    return world_of(name) if name in names() else None


def world_named_in(provenance: Mapping[str, Json]) -> str | None:
    """The name of the world that a row says it is of, which need not be known here."""
    settings = provenance.get("settings") or {}
    name = settings.get("world") or settings.get("task_type")
    return world_of(name).name if name in _published() else name


def two_worlds(this: str, other: str, first: int, *, path: str | Path | None, line: int) -> DataError:
    """The error for a file with rows of two worlds; the first row of the other one is in line `first`."""
    return DataError(
        f"is of {this}, and line {first} is of {other}",
        path=path,
        line=line,
        repair="Grades of two worlds have no common mean: put the rows of each into a file of their own.",
    )


def stages() -> dict[str, StageEntry]:
    """The stages of single worlds, by their names after `sweet-rl`."""
    return {name: stage for world in all_worlds() for name, stage in world.stages.items()}


def first_for(commands: str) -> str:
    """The name of the world that these commands play where none is named (`World.first_for`)."""
    return next(world.name for world in all_worlds() if world.first_for == commands)


@cache
def _ours() -> dict[str, World]:
    """Every world object in the folders beside this file and in `_MINI`, by its place."""
    folders = [found.name for found in pkgutil.iter_modules([str(Path(__file__).parent)]) if found.ispkg]
    modules = [import_module(name) for name in (*(f"sweet_rl.worlds.{name}" for name in folders), *_MINI)]
    return {
        f"{module.__name__}:{attribute}": value
        for module in modules
        for attribute, value in vars(module).items()
        if isinstance(value, World)
    }


@cache
def _registry() -> Registry:
    named = {world.name: place for place, world in _ours().items() if place.endswith(":WORLD")}
    order = sorted(named, key=lambda name: (_FIRST.index(_ours()[named[name]].answered_by), name))
    return Registry("sweet_rl.worlds", "world", {name: named[name] for name in order})


@cache
def _published() -> dict[str, str]:
    """Places by what worlds are called in published command lines, where that is another name than ours."""
    return {name: place for place, world in _ours().items() for name in world.published_names}


def own_options(world: World) -> tuple[Field[Any], ...]:
    """The options that this world has beyond those of all."""
    return tuple(option for option in fields(world.options) if option.name not in COMMON)


def flags_of(world: World, *, learning: bool = False) -> dict[str, str]:
    """The flags of a world's options: the name that is typed, and the option's.

    Args:
        learning: where an agent learns level by level; without those that any world has.
    """
    if learning:  # by the published names, where they are others
        flags = {(one.aliases or (one.name,))[0]: one.name for one in flags_of_settings(world.learns_with)}
        return {flag: name for flag, name in flags.items() if name not in COMMON}
    return {one.name: one.name for one in flags_of_settings(world.options)}


def options_of(world: World, values: Mapping[str, Json], *, learning: bool = False) -> Options:
    """The options of this world among the values of many; those of other worlds are left out.

    Args:
        learning: where an agent learns level by level.
    """
    kind = world.learns_with if learning else world.options
    names = {option.name for option in fields(kind)}
    return kind(**{name: value for name, value in values.items() if name in names})
