"""The open files of a child: nothing shared with the next one, and no sockets that could be counted.

A socket's inode number comes from a counter of the whole machine: who makes many tells it to all who make
one later. So a child can make none (`guest.seccomp`), its own have numbers from `HIDDEN` on, and a descriptor
from there on cannot be asked for its inode, or be copied to a number below. asyncio, which wakes itself up
through a pair of sockets, is handed copies of a pair that the child was born with.
"""

from __future__ import annotations

import _socket  # its sockets ask the kernel nothing when they are made
import errno
import os
import sys
from typing import Any

HIDDEN, END = 48, 64
"""The descriptors of which nothing can be asked, and their end, which is that of all."""

CHANNEL, _WAKE_ONE, _WAKE_OTHER = HIDDEN, HIDDEN + 1, HIDDEN + 2

_NULL = "/dev/null"
_DUPFD_CLOEXEC = 1030


def make_pair() -> tuple[_socket.socket, _socket.socket]:
    """Two connected local streams."""
    return _pair()


def can_open_null() -> bool:
    """Whether a child may open the file that output goes to, and needs nobody else's."""
    try:
        os.close(os.open(_NULL, os.O_RDWR))
    except OSError:
        return False
    return True


def arrange(channel: int, one: int, other: int, *, own_null: bool) -> _socket.socket:
    """Give up all descriptors but these three, which get their places; return the channel.

    Args:
        channel: to the process outside.
        one: of the pair that asyncio gets.
        other: likewise.
        own_null: open standard input and output anew; else they stay what they are.
    """
    os.dup2(channel, CHANNEL)
    os.dup2(one, _WAKE_ONE)
    os.dup2(other, _WAKE_OTHER)
    if own_null:
        os.closerange(0, HIDDEN)
        os.dup2(os.open(_NULL, os.O_RDWR), 1)
        os.dup2(0, 2)
    else:
        os.dup2(1, 2)  # the worker's own complaints go to a file, an answer's go nowhere
        os.closerange(3, HIDDEN)
    return _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM, 0, CHANNEL)


def offer_wake_pair() -> None:
    """From now on `socket.socketpair` gives asyncio copies of the child's pair, and nobody else anything."""
    _socket.socketpair = _wake_pair


def _wake_pair(*_: Any) -> tuple[_socket.socket, _socket.socket]:
    if not sys._getframe(2).f_globals.get("__name__", "").startswith("asyncio."):  # noqa: SLF001
        raise PermissionError(errno.EPERM, "no sockets in the sandbox")
    import fcntl  # noqa: PLC0415 - not in every worker's memory

    kind = (_socket.AF_UNIX, _socket.SOCK_STREAM, 0)
    one, other = (fcntl.fcntl(end, _DUPFD_CLOEXEC, HIDDEN) for end in (_WAKE_ONE, _WAKE_OTHER))
    return _socket.socket(*kind, one), _socket.socket(*kind, other)


_pair = _socket.socketpair
