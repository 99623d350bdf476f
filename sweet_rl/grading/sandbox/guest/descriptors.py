"""The open files of a child: none shared with the next child, and no sockets.

A socket's inode number comes from a counter of the whole machine: who makes many tells it to all who make
one later. So a child can make none (`guest.seccomp`), its own have numbers from `HIDDEN` on, and a descriptor
from there on cannot be asked for its inode, or be copied to a number below. asyncio, which wakes itself up
through a pair of sockets, is handed copies of a pair that the child was born with.
"""

from __future__ import annotations

import _socket  # its sockets ask the kernel nothing when they are made
import ctypes
import errno
import os
import sys
from typing import Any

from . import libc

HIDDEN, END = 48, 64
"""The descriptors of which nothing can be asked, and their end, which is that of all."""

CHANNEL, _WAKE_ONE, _WAKE_OTHER = HIDDEN, HIDDEN + 1, HIDDEN + 2

_NULL = "/dev/null"
_DUPFD_CLOEXEC = 1030


class Pairs:
    """Two pairs of connected local streams, new ones for each child: to the process outside; asyncio's."""

    def __init__(self) -> None:
        size = ctypes.sizeof(ctypes.c_int)
        numbers = (ctypes.c_int * 4)()
        outer, *ends = (ctypes.c_int.from_buffer(numbers, at * size) for at in range(4))
        kind = (_socket.AF_UNIX, _socket.SOCK_STREAM, 0)
        places = zip(ends, (CHANNEL, _WAKE_ONE, _WAKE_OTHER), strict=True)
        self.outer = memoryview(outer).cast("B")
        self.make = [libc.prepared("socketpair", *kind, ctypes.byref(numbers, at * size)) for at in (0, 2)]
        self.close_ends = [libc.prepared("close", end) for end in ends]
        self.close_outer = [libc.prepared("close", outer)]
        self._arrange = [libc.prepared("dup2", *pair) for pair in places]

    def arrangement(self) -> list[libc.Step]:
        """What gives up all descriptors of a child but its ends, which get their places."""
        if _can_open_null():  # needs no other
            null = [libc.prepared("open", _NULL.encode(), os.O_RDWR), libc.prepared("dup2", 0, 1)]
            return [*self._arrange, (os.closerange, (0, HIDDEN)), *null, libc.prepared("dup2", 0, 2)]
        # the worker's own complaints go to a file, an answer's go nowhere
        return [*self._arrange, libc.prepared("dup2", 1, 2), (os.closerange, (3, HIDDEN))]


def _can_open_null() -> bool:
    try:
        os.close(os.open(_NULL, os.O_RDWR))
    except OSError:
        return False
    return True


def channel() -> _socket.socket:
    """A child's end of its pair, as something to speak through once it is in its place."""
    one, other = _pair()
    os.dup2(one.fileno(), CHANNEL)
    made = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM, 0, CHANNEL)
    for number in (one.detach(), other.detach(), CHANNEL):
        os.close(number)
    return made


def offer_wake_pair() -> None:
    """From now on `socket.socketpair` gives asyncio copies of the child's pair, and fails for others."""
    _socket.socketpair = _wake_pair


def _wake_pair(*_: Any) -> tuple[_socket.socket, _socket.socket]:
    if not sys._getframe(2).f_globals.get("__name__", "").startswith("asyncio."):
        raise PermissionError(errno.EPERM, "no sockets in the sandbox")
    import fcntl  # not in every worker's memory

    kind = (_socket.AF_UNIX, _socket.SOCK_STREAM, 0)
    one, other = (fcntl.fcntl(end, _DUPFD_CLOEXEC, HIDDEN) for end in (_WAKE_ONE, _WAKE_OTHER))
    return _socket.socket(*kind, one), _socket.socket(*kind, other)


_pair = _socket.socketpair
