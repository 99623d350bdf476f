"""The worker's side: reads requests from a pipe, answers, ends with the pipe."""

from __future__ import annotations

import os
import pickle
import shutil
import signal
import sys
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

Methods = Mapping[str, Callable[..., Any]]
"""What may be asked, by name."""


def work(start: Callable[..., Methods]) -> None:
    """The whole life of a worker process. Arguments: the pipe's descriptor, a folder, the pool's own.

    It works in the folder, and removes it: an engine that writes files writes them there. The pool removes
    what is left of a worker that was killed.

    Args:
        start: makes of the pool's arguments what answers, at the first question; what it raises reaches the
            caller.
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
        if isinstance(answer, Exception) and not _travels(answer):
            answer = RuntimeError(f"{type(answer).__name__}: {answer}")
        pipe.send(answer)


def _travels(error: Exception) -> bool:
    """Whether the other side can read it: some can be written only."""
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301 - our own
    except Exception:  # noqa: BLE001 - whatever its class does
        return False
    return True
