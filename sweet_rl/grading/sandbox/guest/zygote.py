"""The warm process that forks a child for each job, and the child.

The zygote never sees a job: the child reads it from a channel of its own, so that no later child can find it
in inherited memory. The zygote only forks, kills on request, and cleans up. It learns neither its children's
numbers nor how they have ended: the next one could find that in inherited memory, too.

Messages: the zygote sends `READY` with the channel of a new child attached, or, where it can have no further
child because this one has left files, `RETIRED`; it is sent `NEXT`: end the child, and fork another one.
Child and outside speak as `_read_job` and `_pack` show.

What is between the fork and the job is written to touch few pages: in a forked interpreter each one is a copy
to be made, and copies are most of what an answer costs.
"""

from __future__ import annotations

import _socket
import gc
import marshal
import os
import resource
import signal
import struct
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

from . import descriptors, isolation, landlock, libc, seccomp
from .programs import ENDED, MEMORY, Result, run_fixed, run_published, traces

READY, RETIRED, NEXT = b"c", b"r", b"n"
RESULT = struct.Struct("<IBdII")
LENGTH = struct.Struct("<I")

_DESCRIPTOR = struct.Struct("i")
_CHILD = 2
"""Every child's number, for the zygote; for itself it is process 1."""
_NOT_IGNORED = {
    *(signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD),
    *(signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL),
}


_wait_for_all = libc.prepared_wait()


class _Doors(NamedTuple):
    """What a child closes behind itself."""

    limits: list[isolation.Limit]
    filters: seccomp.Filters | None
    alone: bool  # its parent is process 1 of its own namespace, may kill everybody else and takes all with it
    give_up_capabilities: Callable[[], None]
    own_null: bool
    look: Callable[[], bytes]  # at what differs once a child has had a file; no child can change it back


def main(control: _socket.socket, settings: dict[str, Any]) -> None:
    """Isolate, report the layers that are active, and serve children until the other end closes.

    Args:
        control: a datagram-like socket pair end to the process outside.
        settings: "readable" folders, "hidden" ones below them, "memory_bytes", "cpu_s", "path" for imports,
            "namespaces": whether to try for any.
    """
    layers = isolation.enter_namespaces() if settings["namespaces"] else []
    inner = os.fork() if "process" in layers else 0
    if inner:  # outside the new process namespace: wait for it to end
        control.close()
        os.waitpid(inner, 0)
        os._exit(0)
    os.setsid()
    readable, hidden, alone = settings["readable"], settings["hidden"], "process" in layers
    scratch = isolation.hide_file_system(readable, hidden) if "mount" in layers else None
    if scratch is None:
        layers = [layer for layer in layers if layer != "mount"]
    else:
        hidden = []
    isolation.drop_privileges(readable if scratch is None else (), keep_namespaces=alone)
    isolation.die_with_parent()  # a change of user would have made the kernel forget it
    layers += landlock.restrict(readable, hidden, scratch, isolation.NULL)
    isolation.hide_memory()
    _ignore_signals()
    filters: seccomp.Filters | None = None
    with suppress(OSError):
        filters = seccomp.prepare(namespaces=alone, writable=scratch is not None)
        filters.restrict_worker()
        layers.append("seccomp")
    sys.path[:] = settings["path"]
    isolation.limit_resources(isolation.inherited_limits(settings["memory_bytes"]))
    limits = isolation.limits_of_a_child(settings["cpu_s"], writable=scratch is not None)
    look: Callable[[], bytes] = bytes
    if scratch is not None:
        look = libc.prepared_look(scratch)
        os.chdir(scratch)
        os.environ["HOME"] = os.environ["TMPDIR"] = scratch
    doors = _Doors(limits, filters, alone, libc.keep_capabilities(), descriptors.can_open_null(), look)
    descriptors.offer_wake_pair()
    gc.collect()
    gc.freeze()
    control.send(marshal.dumps([*layers, "rlimits"]))
    _serve(control, doors)


def _ignore_signals() -> None:
    """Whoever may find a way to send one: nothing that can be ignored ends a worker."""
    for number in signal.valid_signals() - _NOT_IGNORED:
        with suppress(OSError):
            signal.signal(number, signal.SIG_IGN)


def _serve(control: _socket.socket, doors: _Doors) -> None:
    """One child after the other."""
    fork, untouched = _fork_of(doors), doors.look()
    while True:
        outer, inner = descriptors.make_pair()
        one, other = descriptors.make_pair()
        child = fork()
        if child == 0:
            _be_child((inner.fileno(), one.fileno(), other.fileno()), doors)
        for end in (inner, one, other):
            end.close()
        attached = (_socket.SOL_SOCKET, _socket.SCM_RIGHTS, _DESCRIPTOR.pack(outer.fileno()))
        control.sendmsg([READY], [attached])
        outer.close()
        asked = control.recv(len(NEXT))
        _clean_up(child, doors.alone)
        if not asked:
            os._exit(0)  # nobody is there any more
        if doors.look() != untouched:
            control.send(RETIRED)
            os._exit(0)


def _fork_of(doors: _Doors) -> Callable[[], int]:
    """A fork with a process namespace for each child, where that is possible."""
    if not doors.alone:
        return os.fork
    fork = libc.prepared_fork(inner=1, outer=_CHILD)
    trial = fork()
    if trial == 0:
        os._exit(0)
    if trial < 0:
        return os.fork
    _clean_up(trial, alone=True)
    return fork


def _clean_up(child: int, alone: bool) -> None:
    """Kill the child and whatever it may have left, and let nothing of it remain."""
    with suppress(ProcessLookupError):
        os.kill(-1 if alone else child, signal.SIGKILL)
    _wait_for_all()


def _be_child(ends: tuple[int, int, int], doors: _Doors) -> None:
    """Lock the door, read one job, run it, end. Never returns."""
    status = 1
    try:
        if not doors.alone:
            isolation.die_with_parent()
        doors.give_up_capabilities()
        channel = descriptors.arrange(*ends, own_null=doors.own_null)
        for what, bounds in doors.limits:
            resource.setrlimit(what, bounds)
        if doors.filters is not None:
            doors.filters.restrict_child()
        _run(channel, _read_job(channel), doors.look)
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


def _run(channel: _socket.socket, job: dict[str, Any], look: Callable[[], bytes]) -> None:
    """All programs of the job from test number `first` on; each result is sent as soon as it is known.

    Ends early where a program has left something that the next one would notice: that one gets a fresh child.
    """
    start, first, several = 0, job["first"], len(job["programs"]) > 1
    if any(program["packed"] or program["data"] for program in job["programs"]):
        import json  # noqa: F401, PLC0415 - for `wire`: not to be taken for what a program has left
    send, now = channel.sendall, time.process_time
    before, short_of_memory = (traces(), look()) if several else None, False
    for program in job["programs"]:
        expressions = program["expressions"]
        end = start + len(expressions)
        if first < end:
            if first < start and (short_of_memory or (traces(), look()) != before):
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
