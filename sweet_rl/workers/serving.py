"""The worker's side: reads requests from a pipe, answers, ends with the pipe."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import warnings
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection
from typing import Any

Methods = Mapping[str, Callable[..., Any]]
"""What may be asked, by name."""


def work(start: Callable[[], Methods]) -> None:
    """The whole life of a worker process, whose first argument is the pipe's descriptor.

    Its working folder is one of its own that goes with it: an engine that writes files writes them there.

    Args:
        start: makes what answers, at the first question: what it raises reaches the caller.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the run, which closes the pipe
    warnings.simplefilter("ignore")
    pipe = Connection(int(sys.argv[1]))
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        serve(pipe, start)
        os.chdir("/")


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
        try:
            pipe.send(answer)
        except (TypeError, AttributeError, ValueError):  # an exception that cannot be sent
            pipe.send(RuntimeError(f"{type(answer).__name__}: {answer}"))
