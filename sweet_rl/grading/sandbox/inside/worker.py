"""A worker: isolates itself once, then forks a process for every answer and holds a watch on it.

It never reads a job: the forked process does. So there is nothing of an earlier answer or reference in the memory
that a later answer is born with.
"""

from __future__ import annotations

import array
import gc
import marshal
import mmap
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable
from typing import NoReturn

from . import isolate, libc, seccomp, wire
from .answer import run_job

_COMMON_MODULES = (
    "bisect copy collections datetime functools heapq itertools json math operator random re string typing"
)
"""Imported before the first fork: what answers import most, so that they need not wait for it each time."""

_COMPUTING = 1 / 20
"""A test that has used this share of its time for computing is not asleep; see `_Watch`."""

_STARVED = 10
"""A test on a busy machine gets that many times its time on the wall's clock."""


def main(control_fd: int) -> NoReturn:
    """Serve the requests that come through this socket until it is closed. Never returns."""
    control = socket.socket(fileno=control_fd)
    settings = isolate.Settings(*marshal.loads(_receive_message(control)))
    report = isolate.Report()
    sys.stdin, sys.stdout, sys.stderr = (open(os.devnull, mode) for mode in "rww")  # noqa: SIM115
    isolate.leave_the_machine(settings, report)
    supervisor = os.fork()
    if supervisor:
        control.close()
        os.waitpid(supervisor, 0)
        os._exit(0)
    ...
