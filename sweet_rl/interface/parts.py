"""What the interface is given: worlds and their options, tasks, episodes; each error says what it is to be."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from numbers import Integral
from pathlib import Path
from typing import Any

from sweet_rl.errors import UsageError, no_such
from sweet_rl.records import task_from_row, unique_tasks
from sweet_rl.types import Json, Task, Trajectory
from sweet_rl.worlds import Options, World, check_tasks, load_tasks, names, world_of

Tasks = str | Path | Iterable[Task | Mapping[str, Json]]
"""The name of a list or a file, or tasks themselves: as objects, or as rows of a task file."""

_READ = (
    "sweet_rl.records.load_trajectories(path) reads a file of them, trajectory_from_row(row) a row of one."
)


def shown(value: object) -> str:
    """A value that is not what was asked for, shortened, with its type."""
    text = repr(value)
    return f"got {text if len(text) <= 80 else f'{text[:79]}…'} ({type(value).__name__})"


def check_whole(least: int | None = None, **given: object) -> None:
    """Refuse what is no whole number, or a smaller one."""
    for name, value in given.items():
        whole = isinstance(value, Integral) and not isinstance(value, bool)
        if not whole or (least is not None and value < least):  # type: ignore[operator]
            at_least = "" if least is None else f", at least {least}"
            raise UsageError(f"{name} must be a whole number{at_least}; {shown(value)}.")


def check_kinds(kinds: type | tuple[type, ...], words: str, **given: object) -> None:
    """Refuse what is of another type."""
    for name, value in given.items():
        if not isinstance(value, kinds):
            raise UsageError(f"{name} must be {words}; {shown(value)}.")


@contextmanager
def in_words_of_python() -> Iterator[None]:
    """Call arguments in messages what they are called here, and not flags."""
    try:
        yield
    except UsageError as error:
        raise UsageError(str(error).replace("--", "")) from None


def episodes_in(what: Any, call: str, *, texts: bool = False) -> list[Any]:
    """The trajectories that a function is given, or that `evaluate` returned; where it takes them, also texts."""
    what = getattr(what, "trajectories", what)
    wants = f"{call} takes {'an answer with its task, or ' * texts}a list of trajectories, as simulate returns it;"
    if isinstance(what, Trajectory):
        raise UsageError(f"{wants} got a single one. Put it into a list: [episode].")
    if isinstance(what, str | bytes | Path | Mapping) or not isinstance(what, Iterable):
        raise UsageError(f"{wants} {shown(what)}. {_READ}")
    found = list(what)
    for place, one in enumerate(found):
        if not isinstance(one, (Trajectory, str) if texts else Trajectory):
            raise UsageError(f"{wants} at place {place} it {shown(one)}. {_READ}")
    return found


def world_for(world: World | str) -> World:
    """The world that is named, or given."""
    if isinstance(world, str):
        return world_of(world)
    if inspect.isclass(world):
        raise UsageError(f"world is the class {world.__name__}: give an object of it, {world.__name__}().")
    if not isinstance(world, World):
        raise UsageError(
            f"world must be a name ({', '.join(names())}), module:ATTRIBUTE, or an object of a subclass of "
            f"sweet_rl.World; {shown(world)}."
        )
    needed = ("name", "rows", "open")
    missing = [one for one in needed if getattr(type(world), one, None) is getattr(World, one, None)]
    if lacking := [one for one in missing if one not in vars(world)]:
        raise UsageError(
            f"The world {type(world).__name__} has no {', '.join(lacking)}, which every world has "
            "(docs/tutorials/my_own_world.md)."
        )
    return world


def options_for(world: World, options: Options | Mapping[str, Json] | None) -> Options:
    """A world's options."""
    if isinstance(options, Options):
        if not isinstance(options, world.options):
            raise UsageError(f"{world.name} takes {world.options.__name__}, got {options!r}.")
        return options
    check_kinds(
        (Mapping, type(None)), f'like {{"max_turns": 5}}, or {world.options.__name__}', options=options
    )
    given, known = dict(options or {}), [one.name for one in fields(world.options)]
    for name in given:
        if name in known:
            continue
        others = [other for other in names() if name in {one.name for one in fields(world_of(other).options)}]
        hint = f"{name} is an option of {', '.join(others)}." if others else ""
        raise no_such(f"option of {world.name}", name, known, hint)
    with in_words_of_python():
        return world.options(**given)


def tasks_in(given: Any, argument: str) -> list[Task]:
    """Tasks that are given as objects, or as rows."""
    if isinstance(given, str | bytes | Task | Mapping) or not isinstance(given, Iterable):
        raise UsageError(
            f"{argument} must be a list of tasks (of a single one: [task]); {shown(given)}. "
            "sweet_rl.load_tasks('mini:test') reads those of a list or a file."
        )
    found = list(given)
    for place, one in enumerate(found):
        if not isinstance(one, Task | Mapping):
            raise UsageError(
                f"{argument} must hold tasks: sweet_rl.Task, or dicts with problem_description and ground_truth; "
                f"at place {place} it {shown(one)}. sweet_rl.load_tasks('mini:test') reads a list or a file."
            )
    return [one if isinstance(one, Task) else task_from_row(one) for one in found]


def tasks_for(world: World, tasks: Tasks | None, num_tasks: int | None) -> list[Task]:
    """What is played."""
    if num_tasks is not None:
        check_whole(1, num_tasks=num_tasks)
    if tasks is None or isinstance(tasks, str | Path):
        source = str(tasks) if tasks is not None else world.tasks.test
        some = load_tasks(source, num_tasks=num_tasks, world=world)
    else:
        source = "tasks"
        some = unique_tasks(tasks_in(tasks, source))[:num_tasks]
    check_tasks(world, some, source)
    return some
