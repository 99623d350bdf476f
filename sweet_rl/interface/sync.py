"""Runs coroutines for callers without an event loop, or with a running one, as in a notebook.

All calls share one loop in a thread of its own: an agent's connections live from one call to the next, and a
loop that runs in the caller's thread does not matter.
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


class _Loop:
    """The loop, begun when it is first needed; a process that was forked begins its own."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def get(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=self._loop.run_forever, name="sweet_rl interface", daemon=True
                )
                self._thread.start()
            return self._loop

    @property
    def is_here(self) -> bool:
        return threading.current_thread() is self._thread


_own = _Loop()


def _begin_anew() -> None:
    global _own  # noqa: PLW0603 - threads do not survive a fork
    _own = _Loop()


os.register_at_fork(after_in_child=_begin_anew)


def wait_for(work: Coroutine[Any, Any, Result], *, instead: str) -> Result:
    """Run a coroutine to its end, with the context of this thread. Ctrl-C cancels it and waits until it has cleaned up.

    `instead` is what those are to await who are on the loop already.
    """
    if _own.is_here:
        work.close()
        raise RuntimeError(f"This would wait for itself: an agent, a human or a world awaits {instead}.")
    loop, ended = _own.get(), threading.Event()
    begun: list[asyncio.Task[Result]] = []

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
