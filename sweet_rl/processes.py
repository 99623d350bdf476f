"""Worker processes that answer requests, for engines that block, could crash or hang."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pickle
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from multiprocessing.connection import Connection, Pipe
from typing import Any, Self

from sweet_rl.errors import EpisodeError, SweetRLError
from sweet_rl.types import Failure, StopReason


class WorkerPool:
    """Started when first needed, bound to no event loop, safe to be asked from many threads.

    A worker is `python -m MODULE FD FOLDER ARGUMENTS...`, which calls `work`; it is stopped when a question takes
    longer than `timeout_s`. `workers` None is one for each core, four at most; `called` names one in messages.
    """

    def __init__(
        self,
        module: str,
        arguments: Sequence[str] = (),
        *,
        workers: int | None = None,
        timeout_s: float,
        called: str = "worker",
    ) -> None:
        self.workers = workers or min(4, os.cpu_count() or 1)
        self._start = partial(_Worker, [module, *arguments], called)
        self._timeout_s = timeout_s
        self._called = called
        self._places = threading.BoundedSemaphore(self.workers)
        self._idle: queue.LifoQueue[_Worker] = queue.LifoQueue()
        self._lock = threading.Lock()
        self._threads: ThreadPoolExecutor | None = None

    async def ask(self, *question: Any, label: str = "", timeout_s: float | None = None) -> Any:
        """As `ask_now`, without blocking the event loop."""
        with self._lock:
            if self._threads is None:
                self._threads = ThreadPoolExecutor(self.workers, thread_name_prefix=self._called)
            threads = self._threads
        work = partial(self.ask_now, *question, label=label, timeout_s=timeout_s)
        return await asyncio.get_running_loop().run_in_executor(threads, work)

    def ask_now(self, *question: Any, label: str = "", timeout_s: float | None = None) -> Any:
        """What a worker answers, once one is free."""
        with self._places:
            try:
                worker = self._idle.get_nowait()
            except queue.Empty:
                worker = self._start()
            try:
                answer = worker.ask(question, self._timeout_s if timeout_s is None else timeout_s)
            except _WorkerLostError as lost:
                worker.stop()
                failure = Failure("game_crashed", f"{lost} at {label or question[0]!r}")
                raise EpisodeError(StopReason.WORLD_FAILED, failure) from None
            self._idle.put(worker)
        if isinstance(answer, SweetRLError):
            raise answer
        if isinstance(answer, Exception):
            detail = f"{type(answer).__name__}: {answer}"
            raise EpisodeError(StopReason.WORLD_FAILED, Failure("game_failed", detail)) from answer
        return answer

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

    def __exit__(self, *_: object) -> None:
        self.close()


class _WorkerLostError(Exception):
    """The process died or hangs."""


class _Worker:
    """One process, seen from outside."""

    def __init__(self, module: Sequence[str], called: str) -> None:
        self._called = called
        self._pipe: Connection
        self._pipe, inner = Pipe()
        with inner:
            name, *arguments = module
            self._folder = tempfile.mkdtemp(prefix="sweet_rl_worker_")
            self._process = subprocess.Popen(
                [sys.executable, "-m", name, str(inner.fileno()), self._folder, *arguments],
                pass_fds=[inner.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
            )

    def ask(self, question: tuple[Any, ...], timeout_s: float) -> Any:
        try:
            self._pipe.send(question)
            if not self._pipe.poll(timeout_s):
                raise _WorkerLostError(f"the {self._called} gave no answer within {timeout_s:g} s")
            return self._pipe.recv()
        except (EOFError, OSError):
            code = self._wait()
            raise _WorkerLostError(f"the {self._called} died (exit status {code})") from None

    def stop(self) -> None:
        self._pipe.close()  # an idle worker leaves by itself, and takes its folder with it
        if self._wait(timeout_s=2) is None:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _wait(self, timeout_s: float = 5) -> int | None:
        try:
            return self._process.wait(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            return None


Methods = Mapping[str, Callable[..., Any]]
"""What may be asked, by name."""


def work(start: Callable[..., Methods]) -> None:
    """The whole life of a worker process. Arguments: the pipe's descriptor, a folder, the pool's own.

    It works in the folder, and removes it: an engine that writes files writes them there. The pool removes
    what is left of a worker that was killed.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the run, which closes the pipe
    warnings.simplefilter("ignore")
    descriptor, folder, *arguments = sys.argv[1:]
    os.chdir(folder)
    try:
        serve(Connection(int(descriptor)), partial(start, *arguments))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def serve(pipe: Connection, start: Callable[[], Methods]) -> None:
    """Answer questions `(method, *arguments)` until the other side closes the pipe.

    What a method raises is sent instead of its answer.
    """
    methods: Methods | None = None
    while True:
        try:
            method, *arguments = pipe.recv()
        except EOFError:
            return
        try:
            if methods is None:
                methods = start()
            answer: Any = methods[method](*arguments)
        except Exception as error:  # noqa: BLE001 - reaches the caller
            answer = error
        if isinstance(answer, Exception):
            try:  # whether the other side can read it: some can be written only
                pickle.loads(pickle.dumps(answer))  # noqa: S301 - our own
            except Exception:  # noqa: BLE001 - whatever its class does
                answer = RuntimeError(f"{type(answer).__name__}: {answer}")
        pipe.send(answer)
