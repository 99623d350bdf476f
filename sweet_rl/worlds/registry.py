"""Which worlds there are."""

from __future__ import annotations

from collections.abc import Iterator

from sweet_rl.command_line.listing import StageEntry
from sweet_rl.errors import UsageError
from sweet_rl.plugins import Registry
from sweet_rl.worlds.base import World, flags_of

_FOLDERS = {
    "code": "backend_programming",
    "html": "frontend_design",
    "twenty_questions": "twenty_questions",
    "guess_my_city": "guess_my_city",
    "detective": "detective",
    "lantern": "lantern",
    "webshop": "webshop",
    "dangerous_taxi": "dangerous_taxi",
    "auto_explore": "auto_explore",
    "alfworld": "alfworld",
}
_PUBLISHED = {
    "adventure": "detective",
    "llm_twenty_questions": "sweet_rl.worlds.twenty_questions:TEN_WORDS",
    "taxi": "dangerous_taxi",
}
"""What worlds are called in published command lines, where that is another name than ours."""

ARCHERS_FIRST = "twenty_questions"
"""The world of ArCHer's commands where none is named."""

REFLECTS_FIRST = "auto_explore"
"""The world of Reflect-RL's commands where none is named."""

MEASURED_FIRST = "taxi"
"""The world that models are measured in as they are where none is named."""

_WORLDS = Registry(
    "sweet_rl.worlds",
    "world",
    {name: f"sweet_rl.worlds.{folder}:WORLD" for name, folder in _FOLDERS.items()},
)


def names() -> tuple[str, ...]:
    """All worlds that have a name: ours, then those of installed packages."""
    return _WORLDS.names()


def world_of(name: str) -> World:
    """The world of this name, ours or the published one, or `module:ATTRIBUTE`.

    Raises:
        UsageError: there is none, or what is there is no world.
    """
    found = _WORLDS.find(_PUBLISHED.get(name, name))
    if not isinstance(found, World):
        raise UsageError(
            f"{name!r} is no world but {found!r}. It has to be an object of a subclass of "
            "sweet_rl.worlds.World."
        )
    return found


def worlds_with(flag: str) -> tuple[str, ...]:
    """The names of the worlds that have an option of this flag."""
    return tuple(world.name for world in all_worlds() if flag in flags_of(world))


def all_worlds() -> Iterator[World]:
    """Every world that has a name."""
    return map(world_of, names())


def stages() -> dict[str, StageEntry]:
    """The stages that worlds have of their own, by what is typed behind `sweet-rl`."""
    return {name: stage for world in all_worlds() for name, stage in world.stages.items()}
