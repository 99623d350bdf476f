"""The warm process that forks a child for each job, and the child.

The zygote never sees a job: the child reads it from a channel of its own, so that no later child can find it
in inherited memory. The zygote only forks, kills on request, and cleans up.

Messages: the zygote sends `(serial)` with the channel of a new child attached; it is sent
`(serial, most_s, least_s)`: end that child, and fork the next one, if it has computed for `most_s` or more,
or for less than `least_s`. Child and outside speak as `_read_job` and `_pack` show.

What is between the fork and the job is written to touch few pages: in a forked interpreter each one is a copy
to be made, and copies are most of what an answer costs.
"""

from __future__ import annotations

import _socket  # its sockets ask the kernel nothing when they are made
import gc
import marshal
import os
import resource
import signal
import struct
import sys
import time
from contextlib import suppress
from typing import Any, NamedTuple

from . import isolation, seccomp
from .programs import ENDED, MEMORY, Result, run_fixed, run_published, traces

REQUEST = struct.Struct("<Idd")
RESULT = struct.Struct("<IBdII")
LENGTH = struct.Struct("<I")

_DESCRIPTOR = struct.Struct("i")


class _Doors(NamedTuple):
    """What a child closes behind itself."""

    limits: list[isolation.Limit]
    filters: seccomp.Filters | None
    alone: bool  # its parent is process 1 of its own namespace, may kill everybody else and takes all with it


def main(control: _socket.socket, settings: dict[str, Any]) -> None:
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
    isolation.limit_resources(isolation.inherited_limits(settings["memory_bytes"]))
    doors = _Doors(isolation.limits_of_a_child(settings["cpu_s"]), filters, "process" in layers)
    gc.collect()
    gc.freeze()
    control.send(marshal.dumps([*layers, "rlimits"]))
    _serve(control, doors)


def _serve(control: _socket.socket, doors: _Doors) -> None:
    """One child after the other."""
    serial = 0
    while True:
        serial += 1
        outer, inner = _socket.socketpair()
        child = os.fork()
        if child == 0:
            control.close()
            outer.close()
            _be_child(inner, doors)
        inner.close()
        attached = (_socket.SOL_SOCKET, _socket.SCM_RIGHTS, _DESCRIPTOR.pack(outer.fileno()))
        control.sendmsg([LENGTH.pack(serial)], [attached])
        outer.close()
        while not _is_over(control.recv(REQUEST.size), serial, child):
            pass
        _clean_up(child, doors.alone)


def _is_over(request: bytes, serial: int, child: int) -> bool:
    """Whether the request means this child, and now. Does not return when nobody is there to ask any more."""
    if not request:
        os.kill(child, signal.SIGKILL)
        os._exit(0)
    meant, most_s, least_s = REQUEST.unpack(request)
    return bool(meant == serial and (most_s == 0 or not least_s <= _cpu_seconds(child) < most_s))


def _clean_up(child: int, alone: bool) -> None:
    """Kill the child and whatever it may have left, and let nothing of it remain."""
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    try:
        while alone:  # all orphans of the namespace are ours
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                os.kill(-1, signal.SIGKILL)
                os.waitpid(-1, 0)
    except ChildProcessError:
        return


def _cpu_seconds(process: int) -> float:
    """CPU time of another process: its clock's number is made from its own (clock_getcpuclockid)."""
    try:
        return time.clock_gettime((~process << 3) | 2)
    except OSError:
        return 0.0


def _be_child(channel: _socket.socket, doors: _Doors) -> None:
    """Lock the door, read one job, run it, end. Never returns."""
    status = 1
    try:
        if not doors.alone:
            isolation.die_with_parent()
        os.dup2(1, 2)  # the worker's own complaints go to a file, an answer's go nowhere
        for what, bounds in doors.limits:
            resource.setrlimit(what, bounds)
        if doors.filters is not None:
            doors.filters.restrict_child()
        _run(channel, _read_job(channel))
        channel.close()  # which says that this is all, before the process has been taken down
        status = 0
    finally:
        os._exit(status)


def _read_job(channel: _socket.socket) -> dict[str, Any]:
    length = channel.recv(LENGTH.size)
    if not length:
        os._exit(0)  # nobody wants anything from this child
    # all at once; of us, from outside
    job: dict[str, Any] = marshal.loads(channel.recv(LENGTH.unpack(length)[0], _socket.MSG_WAITALL))  # noqa: S302
    return job


def _run(channel: _socket.socket, job: dict[str, Any]) -> None:
    """All programs of the job from test number `first` on; each result is sent as soon as it is known.

    Ends early where a program has left something that the next one would notice: that one gets a fresh child.
    """
    start, first, several = 0, job["first"], len(job["programs"]) > 1
    send, now = channel.sendall, time.process_time
    before, short_of_memory = traces() if several else None, False
    for program in job["programs"]:
        expressions = program["expressions"]
        end = start + len(expressions)
        if first < end:
            if first < start and (short_of_memory or traces() != before):
                return
            number = max(first, start)
            skip = number - start
            if job["kind"] == "fixed":
                results = run_fixed(program, skip)
            else:
                results = run_published(
                    program["reference"], program["source"], expressions, job["timeout_s"], skip
                )
            for result in results:
                send(_pack(number, result, now()))
                if result.outcome == ENDED:
                    return
                short_of_memory = short_of_memory or result.outcome == MEMORY
                number += 1
        start = end


def _pack(number: int, result: Result, cpu_s: float) -> bytes:
    text = result.text.encode("utf-8", "replace")
    return RESULT.pack(number, result.outcome, cpu_s, len(result.value), len(text)) + result.value + text
