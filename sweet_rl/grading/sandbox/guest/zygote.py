"""The warm process that forks a child for each job, and the child.

The zygote never sees a job: the child reads it from a channel of its own, so that no later child can find it
in inherited memory. The zygote only forks, kills on request, and cleans up.

Messages: the zygote sends `(serial)` with the channel of a new child attached; it is sent
`(serial, most_s, least_s)`: kill that child if it has computed for `most_s` or more, or for less than
`least_s`.
Child and outside speak as `_read_job` and `_pack` show.
"""

from __future__ import annotations

import gc
import marshal
import os
import select
import signal
import socket
import struct
import sys
import time
from contextlib import suppress
from typing import Any

from . import isolation, seccomp
from .programs import ENDED, Result, run_fixed, run_published

REQUEST = struct.Struct("<Idd")
RESULT = struct.Struct("<IBdII")
LENGTH = struct.Struct("<I")

_BURST_CPU_S = 0.02
"""Results are held back for so long, so that a quick job sends one message."""


def main(control: socket.socket, settings: dict[str, Any]) -> None:
    """Isolate, report the layers that are active, and serve children until the other end closes.

    Args:
        control: a datagram-like socket pair end to the process outside.
        settings: "readable" folders, "hidden" ones below them, "memory_bytes", "path" for imports.
    """
    user = isolation.unused_user()
    layers = isolation.enter_namespaces()
    inner = os.fork() if "process" in layers else 0
    if inner:  # outside the new process namespace: wait for it to end
        control.close()
        os.waitpid(inner, 0)
        os._exit(0)
    os.setsid()
    hidden = "mount" in layers and isolation.hide_file_system(settings["readable"], settings["hidden"])
    if not hidden:
        layers = [layer for layer in layers if layer != "mount"]
    isolation.drop_privileges(user, settings["readable"] if not hidden else ())
    isolation.die_with_parent()  # a change of user would have made the kernel forget it
    if isolation.restrict_files(settings["readable"]):
        layers.append("Landlock")
    isolation.hide_memory()
    filters: seccomp.Filters | None = None
    with suppress(OSError):
        filters = seccomp.prepare()
        filters.restrict_worker()
        layers.append("seccomp")
    sys.path[:] = settings["path"]
    gc.collect()
    gc.freeze()
    control.send(marshal.dumps([*layers, "rlimits"]))
    _Zygote(control, settings, filters, alone="process" in layers).serve()


class _Zygote:
    def __init__(
        self,
        control: socket.socket,
        settings: dict[str, Any],
        filters: seccomp.Filters | None,
        *,
        alone: bool,
    ) -> None:
        self._control, self._settings, self._filters = control, settings, filters
        self._alone = alone  # process 1 of its own namespace: may kill everybody else
        self._serial = 0

    def serve(self) -> None:
        while True:
            self._serial += 1
            outer, inner = socket.socketpair()
            child = os.fork()
            if child == 0:
                self._control.close()
                outer.close()
                _be_child(inner, self._settings, self._filters)
            inner.close()
            socket.send_fds(self._control, [LENGTH.pack(self._serial)], [outer.fileno()])
            outer.close()
            try:
                self._watch(child)
            finally:
                self._clean_up(child)

    def _watch(self, child: int) -> None:
        """Until the child has ended; kill it when asked to."""
        ended = os.pidfd_open(child)
        try:
            while True:
                ready, _, _ = select.select([ended, self._control.fileno()], [], [])
                if ended in ready:
                    return
                request = self._control.recv(REQUEST.size)
                if not request:
                    os.kill(child, signal.SIGKILL)
                    os._exit(0)
                serial, most_s, least_s = REQUEST.unpack(request)
                if serial == self._serial and not least_s <= _cpu_seconds(child) < most_s:
                    os.kill(child, signal.SIGKILL)
        finally:
            os.close(ended)

    def _clean_up(self, child: int) -> None:
        if self._alone:
            with suppress(ProcessLookupError):
                os.kill(-1, signal.SIGKILL)
        os.waitpid(child, 0)
        while self._alone:
            try:
                if os.waitpid(-1, os.WNOHANG)[0] == 0:
                    return
            except ChildProcessError:
                return


def _cpu_seconds(process: int) -> float:
    """CPU time of another process: its clock's number is made from its own (clock_getcpuclockid)."""
    try:
        return time.clock_gettime((~process << 3) | 2)
    except OSError:
        return 0.0


def _be_child(channel: socket.socket, settings: dict[str, Any], filters: seccomp.Filters | None) -> None:
    """Lock the door, read one job, run it, end. Never returns."""
    status = 1
    try:
        isolation.die_with_parent()
        os.dup2(1, 2)  # the worker's own complaints go to a file, an answer's go nowhere
        isolation.limit_resources(settings["memory_bytes"], settings["cpu_s"])
        if filters is not None:
            filters.restrict_child()
        _run(channel, _read_job(channel))
        status = 0
    finally:
        os._exit(status)


def _read_job(channel: socket.socket) -> dict[str, Any]:
    (length,) = LENGTH.unpack(_receive(channel, LENGTH.size))
    job: dict[str, Any] = marshal.loads(_receive(channel, length))  # noqa: S302 - it comes from outside, from us
    return job


def _receive(channel: socket.socket, length: int) -> bytes:
    parts = []
    while length:
        part = channel.recv(min(length, 1 << 20))
        if not part:
            os._exit(0)  # nobody wants anything from this child
        parts.append(part)
        length -= len(part)
    return b"".join(parts)


def _run(channel: socket.socket, job: dict[str, Any]) -> None:
    """All programs of the job from test number `first` on; results all at once, or one by one when slow."""
    number, first, waiting = 0, job["first"], []
    now = time.process_time
    send, one_by_one = channel.sendall, job["one_by_one"]
    for program in job["programs"]:
        expressions = program["expressions"]
        count = len(expressions)
        skip = min(max(first - number, 0), count)
        if job["kind"] == "fixed":
            results = run_fixed(program["source"], expressions, program["own_names"], skip)
        else:
            results = run_published(
                program["reference"], program["source"], expressions, job["timeout_s"], skip
            )
        for offset, result in enumerate(results, start=number + skip):
            waiting.append(_pack(offset, result, now()))
            if one_by_one or now() > _BURST_CPU_S:
                send(b"".join(waiting))
                waiting.clear()
            if result.outcome == ENDED:
                break
        number += count
    send(b"".join(waiting))


def _pack(number: int, result: Result, cpu_s: float) -> bytes:
    text = result.text.encode("utf-8", "replace")
    return RESULT.pack(number, result.outcome, cpu_s, len(result.value), len(text)) + result.value + text
