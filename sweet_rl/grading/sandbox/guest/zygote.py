"""The warm process that forks a child for each job, and the child.

The zygote never sees a job: the child reads it from a channel of its own, so that no later child can find it
in inherited memory. The zygote only forks, kills on request, and cleans up. It learns neither its children's
numbers nor how they have ended: the next one could find that in inherited memory, too.

Messages: the zygote sends `READY` with the channel of a new child attached, or, where it can have no further
child because this one has left files, `RETIRED`; it is sent `NEXT`: end the child, and fork another one.
Child and outside speak as `_read_job` and `_pack` show.

What is between the fork and the job is written to touch few pages: in a forked interpreter each one is a copy
to be made, and copies are most of what an answer costs. Hence the calls of `guest.libc` that are prepared.
"""

from __future__ import annotations

import _socket
import gc
import marshal
import os
import signal
import struct
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

from . import descriptors, isolation, landlock, libc, seccomp
from .programs import ENDED, MEMORY, Result, run_fixed, run_published, traces

READY, RETIRED, NEXT = b"c", b"r", b"n"
RESULT = struct.Struct("<IBII")
LENGTH = struct.Struct("<I")

_CHILD = 2
"""Every child's process number, where it gets one; the zygote is process 1."""
_NOT_IGNORED = {
    *(signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD),
    *(signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL),
}


class _Children(NamedTuple):
    """What they have in common."""

    alone: (
        bool  # their parent is process 1 of its own namespace, may kill everybody else and takes all with it
    )
    pairs: descriptors.Pairs
    prepare: list[libc.Step]  # one
    doors: list[libc.Step]  # to be closed behind one
    look: Callable[[], bytes]  # at what differs once one has had a file, and which none can change back


def main(control: _socket.socket, settings: dict[str, Any]) -> None:
    """Isolate, report the layers that are active, and serve children until the other end closes.

    Args:
        control: a datagram-like socket pair end to the process outside.
        settings: "readable" folders, "hidden" ones below them, "memory_bytes", "cpu_s", "path" for imports.
    """
    layers = isolation.enter_namespaces()
    inner = os.fork() if "process" in layers else 0
    if inner:  # outside the new process namespace: wait for it to end
        control.close()
        os.waitpid(inner, 0)
        os._exit(0)
    os.setsid()
    readable, hidden, alone = settings["readable"], settings["hidden"], "process" in layers
    numbers = isolation.open_process_numbers() if alone else None
    scratch = isolation.hide_file_system(readable, hidden) if "mount" in layers else None
    if scratch is None:
        layers = [layer for layer in layers if layer != "mount"]
    else:
        hidden = []
    own_user = isolation.drop_privileges(
        readable if scratch is None else (), keep_numbering=numbers is not None
    )
    libc.take([isolation.die_with_parent()])  # a change of user would have made the kernel forget it
    layers += landlock.restrict(readable, hidden, scratch, isolation.NULL)
    os.chdir(scratch or "/")
    os.environ["HOME"] = os.environ["TMPDIR"] = scratch or "/"
    isolation.hide_memory()
    set_number = isolation.count_from(_CHILD, numbers)
    _ignore_signals()
    filters: seccomp.Filters | None = None
    with suppress(OSError):
        filters = seccomp.prepare(numbered=set_number is not None, writable=scratch is not None)
        libc.take([filters.restrict_worker])
        layers.append("seccomp")
    sys.path[:] = settings["path"]
    libc.take(isolation.inherited_limits(settings["memory_bytes"]))
    pairs = descriptors.Pairs()
    doors = [
        *([] if alone else [isolation.die_with_parent()]),
        libc.keep_capabilities(),
        *pairs.arrangement(),
        *isolation.limits_of_a_child(
            settings["cpu_s"],
            writable=scratch is not None,
            own_user=own_user,
            own_namespace="user" in layers,
        ),
        *([] if filters is None else [filters.restrict_child]),
    ]
    descriptors.offer_wake_pair()
    look = bytes if scratch is None else libc.prepared_look(scratch)
    prepare = [*pairs.make, *([] if set_number is None else [set_number])]
    children = _Children(alone, pairs, prepare, doors, look)
    gc.collect()
    gc.freeze()
    control.send(marshal.dumps([*layers, "rlimits"]))
    _serve(control, children)


def _ignore_signals() -> None:
    """Whoever may find a way to send one: nothing that can be ignored ends a worker."""
    for number in signal.valid_signals() - _NOT_IGNORED:
        with suppress(OSError):
            signal.signal(number, signal.SIG_IGN)


def _serve(control: _socket.socket, children: _Children) -> None:
    """One child after the other."""
    alone, pairs, prepare, doors, look = children
    untouched, channel = look(), descriptors.channel()
    attached = (_socket.SOL_SOCKET, _socket.SCM_RIGHTS, pairs.outer)
    while True:
        libc.take(prepare)
        child = libc.fork()
        if child == 0:
            _be_child(channel, doors, look)
        if child < 0:
            os._exit(1)  # no room for it. To end "-1" would be to kill all that this user has
        libc.take(pairs.close_ends)
        control.sendmsg([READY], [attached])
        libc.take(pairs.close_outer)
        asked = control.recv(len(NEXT))
        libc.end(-1 if alone else child)  # and whatever it may have left
        if not asked:
            os._exit(0)  # the parent has gone
        if look() != untouched:
            control.send(RETIRED)
            os._exit(0)


def _be_child(channel: _socket.socket, doors: list[libc.Step], look: Callable[[], bytes]) -> None:
    """Lock the doors, read one job, run it, end. Never returns."""
    status = 1
    try:
        libc.take(doors)
        _run(channel, _read_job(channel), look)
        channel.close()  # which says that this is all, before the process has been taken down
        status = 0
    finally:
        os._exit(status)


def _read_job(channel: _socket.socket) -> dict[str, Any]:
    length = channel.recv(LENGTH.size)
    if not length:
        os._exit(0)  # nothing is asked of this child
    # all at once; of us, from outside
    job: dict[str, Any] = marshal.loads(channel.recv(LENGTH.unpack(length)[0], _socket.MSG_WAITALL))  # noqa: S302
    return job


def _run(channel: _socket.socket, job: dict[str, Any], look: Callable[[], bytes]) -> None:
    """All programs of the job from test number `first` on; each result is sent as soon as it is known.

    Ends early where a program has left something that the next one would notice: that one gets a fresh child.
    """
    start, first, several = 0, job["first"], len(job["programs"]) > 1
    if any(program["packed"] for program in job["programs"]):
        import _json  # noqa: F401 - for `wire`: not to be taken for what a program has left
    if any(program["data"] for program in job["programs"]):
        import json  # noqa: F401 - likewise
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
                channel.sendall(_pack(number, result))
                if result.outcome == ENDED:
                    return
                short_of_memory = short_of_memory or result.outcome == MEMORY
                number += 1
        start = end


def _pack(number: int, result: Result) -> bytes:
    text = result.text.encode("utf-8", "replace")
    return RESULT.pack(number, result.outcome, len(result.value), len(text)) + result.value + text
