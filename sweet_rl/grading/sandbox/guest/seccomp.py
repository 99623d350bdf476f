"""The system calls an answer may make: reading, computing, waiting, threads. All others fail with EPERM.

A list of what is allowed rather than of what is not, so that a call that a later kernel adds is refused.
No call on it creates, changes or removes a file, starts a process, reaches another or leaves the machine.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Callable
from typing import Any, NamedTuple

from . import libc

_ALLOWED = {  # name: (number on x86_64, number on aarch64)
    "read": (0, 63), "readv": (19, 65), "pread64": (17, 67), "lseek": (8, 62), "close": (3, 57),
    "write": (1, 64), "writev": (20, 66), "pwrite64": (18, 68),
    "stat": (4, None), "lstat": (6, None), "fstat": (5, 80), "newfstatat": (262, 79), "statx": (332, 291),
    "access": (21, None), "faccessat": (269, 48), "faccessat2": (439, 439),
    "readlink": (89, None), "readlinkat": (267, 78), "getcwd": (79, 17), "getdents64": (217, 61),
    "fcntl": (72, 25), "dup": (32, 23), "dup2": (33, None), "dup3": (292, 24),
    "pipe": (22, None), "pipe2": (293, 59), "poll": (7, None), "ppoll": (271, 73),
    "select": (23, None), "pselect6": (270, 72), "eventfd2": (290, 19),
    "epoll_create1": (291, 20), "epoll_ctl": (233, 21), "epoll_wait": (232, None), "epoll_pwait": (281, 22),
    # on the two ends of a socketpair, which asyncio wakes itself up with; there is no other socket
    "sendto": (44, 206), "recvfrom": (45, 207), "shutdown": (48, 210),
    "getsockname": (51, 204), "getpeername": (52, 205), "getsockopt": (55, 209),
    "mmap": (9, 222), "munmap": (11, 215), "mremap": (25, 216), "mprotect": (10, 226),
    "madvise": (28, 233), "brk": (12, 214), "membarrier": (324, 283),
    "futex": (202, 98), "get_robust_list": (274, 100), "set_robust_list": (273, 99),
    "set_tid_address": (218, 96), "rseq": (334, 293), "arch_prctl": (158, None),
    "sched_yield": (24, 124), "sched_getaffinity": (204, 123),
    "rt_sigaction": (13, 134), "rt_sigprocmask": (14, 135), "rt_sigreturn": (15, 139),
    "rt_sigpending": (127, 136), "rt_sigsuspend": (130, 133), "rt_sigtimedwait": (128, 137),
    "sigaltstack": (131, 132), "restart_syscall": (219, 128), "pause": (34, None),
    "alarm": (37, None), "setitimer": (38, 103), "getitimer": (36, 102),
    "nanosleep": (35, 101), "clock_nanosleep": (230, 115), "clock_gettime": (228, 113),
    "clock_getres": (229, 114), "gettimeofday": (96, 169), "time": (201, None), "times": (100, 153),
    "getpid": (39, 172), "getppid": (110, 173), "gettid": (186, 178), "getpgrp": (111, None),
    "getuid": (102, 174), "geteuid": (107, 175), "getgid": (104, 176), "getegid": (108, 177),
    "getrusage": (98, 165), "getrlimit": (97, 163), "uname": (63, 160), "sysinfo": (99, 179),
    "getrandom": (318, 278), "exit": (60, 93), "exit_group": (231, 94),
}  # fmt: skip

_WORKERS_OWN = {
    "wait4": (61, 260), "kill": (62, 129), "sendmsg": (46, 211),
    "prctl": (157, 167),
}  # fmt: skip

_MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
"""Column of the table, and what the kernel calls the architecture."""

_X32 = 0x40000000
"""Numbers from here on are the calls of x86's other ABI, by which a filter could be walked around."""

_CLONE = (56, 220)
_CLONE_THREAD, _CLONE_NAMESPACES = 0x00010000, 0x7E020080
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_HARMLESS_IOCTLS = (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)
"""Terminal attributes (isatty), window size, bytes to read, blocking or not, closed on exec or not."""

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCHITECTURE = 0, 4
_KILL, _ALLOW = 0x80000000, 0x7FFF0000
_EPERM, _ENOSYS, _EACCES = (0x00050000 | number for number in (errno.EPERM, errno.ENOSYS, errno.EACCES))

_READ_BY_THE_KERNEL: list[Any] = []
"""Filters, which must stay where they are for as long as somebody may load them."""

_Instruction = tuple[int, int, int, int]  # code, jump if true, jump if false, operand


class Filters(NamedTuple):
    """Two filters, each put over the calling process, for good, by calling it.

    The long one holds for the worker and is inherited by every child; what only the worker needs (to fork, to
    wait, to kill, to hand over channels) is taken from a child by the short one. Loading a filter costs the
    kernel time in proportion to its length, and a child lives for a millisecond.
    """

    restrict_worker: Callable[[], None]
    restrict_child: Callable[[], None]


def prepare() -> Filters:
    """Build the filters for this machine.

    Raises:
        OSError: there is no table for this machine, or the kernel has no seccomp.
    """
    machine = os.uname().machine
    if os.uname().sysname != "Linux" or machine not in _MACHINES:
        raise OSError(f"seccomp: no list of system calls for {os.uname().sysname} on {machine}")
    column, architecture = _MACHINES[machine]
    return Filters(_loader(_long_program(column, architecture)), _loader(_short_program(column)))


def _loader(program: list[_Instruction]) -> Callable[[], None]:
    code = b"".join(struct.pack("=HBBI", *instruction) for instruction in program)
    buffer = ctypes.create_string_buffer(code, len(code))
    _READ_BY_THE_KERNEL.append(buffer)  # the header has its address, which keeps nothing alive
    header = struct.pack("@HP", len(program), ctypes.addressof(buffer))
    return libc.prepared(
        "prctl", libc.PR_SET_SECCOMP, 2, ctypes.create_string_buffer(header, len(header)), 0, 0
    )


def _long_program(column: int, architecture: int) -> list[_Instruction]:
    """Allow what an answer may do and what the worker needs; nothing else."""
    program = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUAL, 1, 0, architecture),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
        (_AT_LEAST, 0, 1, _X32),
        (_RETURN, 0, 0, _KILL),
    ]
    for numbers, check in _checked_calls():
        number = numbers[column]
        if number is not None:
            program += [(_EQUAL, 0, len(check), number), *check]
    for numbers in (*_ALLOWED.values(), *_WORKERS_OWN.values()):
        number = numbers[column]
        if number is not None:
            program += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _ALLOW)]
    return [*program, (_RETURN, 0, 0, _EPERM)]


def _short_program(column: int) -> list[_Instruction]:
    """Take back the worker's own calls; no new processes, only threads."""
    program = [(_LOAD, 0, 0, _NUMBER)]
    for numbers in _WORKERS_OWN.values():
        program += [(_EQUAL, 0, 1, numbers[column]), (_RETURN, 0, 0, _EPERM)]
    clone = [_argument(0), (_ANY_BIT, 1, 0, _CLONE_THREAD), (_RETURN, 0, 0, _EPERM)]
    return [*program, (_EQUAL, 0, len(clone), _CLONE[column]), *clone, (_RETURN, 0, 0, _ALLOW)]


def _checked_calls() -> list[tuple[tuple[int | None, int | None], list[_Instruction]]]:
    """What is allowed for some arguments only: the numbers of a call, and how its arguments are judged."""
    allow, refuse = (_RETURN, 0, 0, _ALLOW), (_RETURN, 0, 0, _EPERM)
    read_only = (_RETURN, 0, 0, _EACCES)
    ioctls = [(_EQUAL, len(_HARMLESS_IOCTLS) - at, 0, code) for at, code in enumerate(_HARMLESS_IOCTLS)]
    return [
        (_CLONE, [_argument(0), (_ANY_BIT, 1, 0, _CLONE_NAMESPACES), allow, refuse]),
        ((435, 435), [(_RETURN, 0, 0, _ENOSYS)]),  # clone3: libc then uses clone, whose flags can be read
        ((2, None), [_argument(1), (_ANY_BIT, 1, 0, _WRITING), allow, read_only]),  # open
        ((257, 56), [_argument(2), (_ANY_BIT, 1, 0, _WRITING), allow, read_only]),  # openat
        ((302, 261), [_argument(0), (_EQUAL, 0, 1, 0), allow, refuse]),  # prlimit64: one's own, downwards
        ((16, 29), [_argument(1), *ioctls, refuse, allow]),  # ioctl
        # socketpair: local streams; a datagram socket could be sent from to any address
        ((53, 199), [_argument(0), (_EQUAL, 0, 3, 1), _argument(1), (_ANY_BIT, 1, 0, 0xE), allow, refuse]),
    ]


def _argument(index: int) -> _Instruction:
    return (_LOAD, 0, 0, 16 + 8 * index)  # the low half, which is all that these calls look at
