"""What the functions of the interface share: what they are given is looked at, and coroutines run for callers without an event
loop, or with a running one, as in a notebook.

All calls share one loop in a thread of its own: an agent's connections live from one call to the next.
"""

from __future__ import annotations

import asyncio
import functools
import os
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from sweet_rl.errors import UsageError, no_such
from sweet_rl.plugins import is_own
from sweet_rl.records import task_from_row, unique_tasks
from sweet_rl.types import Json, Task, Trajectory
from sweet_rl.worlds import Options, World, check_tasks, check_world, load_tasks, names, world_of

Tasks = str | Path | Iterable[Task | Mapping[str, Json]]
"""The name of a list or a file, or tasks themselves: as objects, or as rows of a task file."""


@contextmanager
def in_words_of_python() -> Iterator[None]:
    """Call arguments in messages what they are called here, and not flags."""
    try:
        yield
    except UsageError as error:
        raise UsageError(str(error).replace("--", "")) from None


def episodes_in(what: Any, call: str) -> list[Trajectory]:
    """The trajectories that a function is given, or that `evaluate` returned."""
    what = getattr(what, "trajectories", what)
    found = [] if isinstance(what, str | Mapping | Path) or not isinstance(what, Iterable) else list(what)
    if (what and not found) or not all(isinstance(one, Trajectory) for one in found):
        raise UsageError(
            f"{call} takes a list of trajectories, as simulate returns it; got {what!r:.80}. "
            "sweet_rl.records.load_trajectories(path) reads a file of them."
        )
    return found


def world_for(world: Any) -> World:
    """The world that is named, or given."""
    if isinstance(world, str):
        return world_of(world)
    if not isinstance(world, World):
        wanted = "must be a name, module:ATTRIBUTE, or an object of a subclass of sweet_rl.World"
        raise UsageError(f"world {wanted}; got {world!r}. Names: {', '.join(names())}.")
    if is_own(type(world).__module__):
        check_world(world)
    return world


def options_for(world: World, options: Options | Mapping[str, Json] | None) -> Options:
    """A world's options."""
    if isinstance(options, Options):
        if not isinstance(options, world.options):
            raise UsageError(f"{world.name} takes {world.options.__name__}, got {options!r}.")
        return options
    known = [one.name for one in fields(world.options)]
    for name in options or {}:
        if name not in known:
            raise no_such(f"option of {world.name}", name, known)
    with in_words_of_python():
        return world.options(**(options or {}))


def tasks_for(world: World, tasks: Tasks | None, num_tasks: int | None) -> list[Task]:
    """What is played."""
    if num_tasks is not None and (not isinstance(num_tasks, int) or num_tasks < 1):
        raise UsageError(f"num_tasks must be a whole number, at least 1; got {num_tasks!r}.")
    source = "tasks"
    if tasks is None or isinstance(tasks, str | Path):
        source = str(tasks) if tasks is not None else world.tasks.test
        some = load_tasks(source, num_tasks=num_tasks, world=world)
    else:
        some = unique_tasks(one if isinstance(one, Task) else task_from_row(one) for one in tasks)[:num_tasks]
    check_tasks(world, some, source)
    return some


# ---- coroutines

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
_beginning = threading.Lock()


@functools.cache
def _own(process: int) -> tuple[asyncio.AbstractEventLoop, threading.Thread]:
    """The loop of this process and its thread, begun when it is first needed: threads do not survive a fork."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name=f"sweet_rl interface {process}", daemon=True)
    thread.start()
    return loop, thread


def wait_for(work: Coroutine[Any, Any, Result], *, instead: str) -> Result:
    """Run a coroutine to its end, with the context of this thread. Ctrl-C cancels it and waits until it has cleaned up.

    `instead` is what those are to await who are on the loop already.
    """
    with _beginning:
        loop, thread = _own(os.getpid())
    if threading.current_thread() is thread:
        work.close()
        raise RuntimeError(f"This would wait for itself: an agent, a human or a world awaits {instead}.")
    ended, begun = threading.Event(), list[asyncio.Task[Result]]()

    def begin() -> None:
        begun.append(loop.create_task(work))
        begun[0].add_done_callback(lambda _: ended.set())

    def cancel() -> None:
        if begun:
            begun[0].cancel()
        else:  # stopped before it was handed over
            work.close()
            ended.set()

    try:
        loop.call_soon_threadsafe(begin)
        ended.wait()
    except BaseException:
        loop.call_soon_threadsafe(cancel)
        ended.wait()
        raise
    return begun[0].result()


def waiting(function: Callable[Arguments, Coroutine[Any, Any, Result]]) -> Callable[Arguments, Result]:
    """A function that is called and returns what a coroutine would; `awaited` gives the coroutine back."""

    @functools.wraps(function)
    def call(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        return wait_for(function(*args, **kwargs), instead=f"a{function.__name__}")

    return call


def awaited(function: Callable[Arguments, Result]) -> Callable[Arguments, Coroutine[Any, Any, Result]]:
    """The coroutine that `waiting` made a function of, for callers with an event loop of their own."""
    coroutine: Callable[Arguments, Coroutine[Any, Any, Result]] = function.__wrapped__  # type: ignore[attr-defined]
    return coroutine


def in_thread(function: Callable[[], Result]) -> Result:
    """Call a function where no event loop runs, since it runs one of its own."""
    return wait_for(asyncio.to_thread(function), instead="asyncio.to_thread")
