"""Interpreters in processes of their own, shared by many episodes.

The interpreter is a C library that blocks and could crash, so it never runs in the process that trains. An
episode hands its saved position to whichever worker is free and gets the next one back: a worker that dies
spoils the one command that it was given, and is replaced.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from sweet_rl.envs.adventure.interpreter import Position
from sweet_rl.errors import EpisodeError, SweetRLError
from sweet_rl.types import Failure, StopReason

TIMEOUT_S = 60.0
"""For one command, which takes milliseconds: a worker that needs longer hangs."""


class Interpreters:
    """A pool of worker processes for one game file. Started when first needed, bound to no event loop.

    Args:
        story: the game file; checked by the caller.
        workers: processes; None for one for each core, four at most.
        timeout_s: seconds until a command counts as hanging.
    """

    def __init__(self, story: Path, *, workers: int | None = None, timeout_s: float = TIMEOUT_S) -> None:
        self.story = story
        self.workers = workers or min(4, os.cpu_count() or 1)
        self._timeout_s = timeout_s
        self._idle: queue.LifoQueue[_Worker] = queue.LifoQueue()
        self._lock = threading.Lock()
        self._threads: ThreadPoolExecutor | None = None
        self._first: dict[bool, Position] = {}

    async def begin(self, *, with_actions: bool = True) -> Position:
        """The game's first moment.

        Raises:
            UsageError: jericho is not installed.
            EpisodeError: the interpreter broke.
        """
        if with_actions not in self._first:  # it is always the same
            self._first[with_actions] = await self._ask("begin", with_actions)
        return self._first[with_actions]

    async def play(self, state: bytes, command: str, *, with_actions: bool = True) -> Position:
        """What `command` leads to from a saved moment.

        Raises:
            EpisodeError: the interpreter broke, or hangs; the pool goes on without it.
        """
        position: Position = await self._ask("play", state, command, with_actions)
        return position

    async def walkthrough(self) -> tuple[str, ...]:
        """The commands that reach the highest score, as jericho ships them."""
        commands: tuple[str, ...] = await self._ask("walkthrough")
        return commands

    def close(self) -> None:
        """Stop the processes. May be called more than once; a later question starts new ones."""
        with self._lock:
            threads, self._threads = self._threads, None
        if threads is not None:
            threads.shutdown(cancel_futures=True)
        with contextlib.suppress(queue.Empty):
            while True:
                self._idle.get_nowait().stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def _ask(self, *question: Any) -> Any:
        with self._lock:
            if self._threads is None:
                self._threads = ThreadPoolExecutor(self.workers, thread_name_prefix="interpreter")
            threads = self._threads
        return await asyncio.get_running_loop().run_in_executor(threads, self._ask_now, question)

    def _ask_now(self, question: tuple[Any, ...]) -> Any:
        """In a thread of the pool; there are as many workers as threads."""
        try:
            worker = self._idle.get_nowait()
        except queue.Empty:
            worker = _Worker(self.story)
        try:
            answer = worker.ask(question, self._timeout_s)
        except _WorkerLostError as lost:
            worker.stop()
            asked = question[2] if question[0] == "play" else question[0]
            failure = Failure("game_crashed", f"{lost} at {asked!r}")
            raise EpisodeError(StopReason.WORLD_FAILED, failure) from None
        self._idle.put(worker)
        if isinstance(answer, SweetRLError):
            raise answer
        if isinstance(answer, Exception):
            detail = f"{type(answer).__name__}: {answer}"
            raise EpisodeError(StopReason.WORLD_FAILED, Failure("game_failed", detail)) from answer
        return answer


class _WorkerLostError(Exception):
    """The process died or hangs."""


class _Worker:
    """One process, seen from outside."""

    def __init__(self, story: Path) -> None:
        self._pipe: Connection
        self._pipe, inner = Pipe()
        with inner:
            self._process = subprocess.Popen(  # noqa: S603 - our own module
                [sys.executable, "-m", "sweet_rl.envs.adventure.worker", str(inner.fileno()), str(story)],
                pass_fds=[inner.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
            )

    def ask(self, question: tuple[Any, ...], timeout_s: float) -> Any:
        try:
            self._pipe.send(question)
            if not self._pipe.poll(timeout_s):
                raise _WorkerLostError(f"the interpreter gave no answer within {timeout_s:g} s")
            return self._pipe.recv()
        except (EOFError, OSError):
            code = self._wait()
            raise _WorkerLostError(f"the interpreter died (exit status {code})") from None

    def stop(self) -> None:
        self._pipe.close()  # an idle worker leaves by itself, and takes its folder with it
        if self._wait(timeout_s=2) is None:
            self._process.kill()
            self._process.wait()

    def _wait(self, timeout_s: float = 5) -> int | None:
        try:
            return self._process.wait(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            return None
