"""Runs coroutines for callers without an event loop, or with a running one, as in a notebook.

All calls share one loop in a thread of its own: an agent's connections live from one call to the next.
"""

from __future__ import annotations

import asyncio
import functools
import os
import threading
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec, TypeVar

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
