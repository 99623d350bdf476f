"""The system calls an answer may make: reading, computing, waiting, threads. All others fail with EPERM.

A list of what is allowed rather than of what is not, so that a call that a later kernel adds is refused.
No call on it starts a process, reaches another one or leaves the machine, and none changes what another
process could read: hence `fcntl` without locks, owners and leases, `futex` without what is keyed by a file,
clocks of one's own only, no inode numbers of sockets, which are counted for the whole machine
(`guest.isolation`). Files are another layer's: mounts and Landlock.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Iterable, Sequence
from typing import Any

from .isolation import END, HIDDEN, PR_SET_SECCOMP, Step, prepared

_Instruction = tuple[int, int, int, int]  # code, jump if true, jump if false, operand
_Numbers = tuple[int | None, int | None]  # of a call, on x86_64 and on aarch64
_Program = list[_Instruction]

_ALLOWED = """
    read 0 63, readv 19 65, pread64 17 67, lseek 8 62, close 3 57, write 1 64, writev 20 66, pwrite64 18 68
    close_range 436 436, stat 4 -, lstat 6 -, access 21 -, faccessat 269 48, faccessat2 439 439
    readlink 89 -, readlinkat 267 78, getcwd 79 17, getdents64 217 61, poll 7 -, ppoll 271 73, select 23 -
    pselect6 270 72, eventfd2 290 19, epoll_create1 291 20, epoll_ctl 233 21, epoll_wait 232 -, epoll_pwait 281 22
    shutdown 48 210, getsockname 51 204
    munmap 11 215, mremap 25 216, mprotect 10 226, brk 12 214, set_robust_list 273 99, rseq 334 293
    sched_yield 24 124, rt_sigaction 13 134, rt_sigprocmask 14 135, rt_sigreturn 15 139, rt_sigpending 127 136
    rt_sigsuspend 130 133, rt_sigtimedwait 128 137, sigaltstack 131 132, restart_syscall 219 128, pause 34 -
    alarm 37 -, setitimer 38 103, getitimer 36 102, nanosleep 35 101, gettimeofday 96 169, time 201 -, times 100 153
    getpid 39 172, getppid 110 173, gettid 186 178, getpgrp 111 -
    getuid 102 174, geteuid 107 175, getgid 104 176, getegid 108 177
    getrusage 98 165, getrlimit 97 163, uname 63 160, getrandom 318 278, exit 60 93, exit_group 231 94
"""
"""`shutdown` and `getsockname` are for the sockets that a child has; it can make none."""

_FILES = """
    mkdir 83 -, mkdirat 258 34, rmdir 84 -, unlink 87 -, unlinkat 263 35
    rename 82 -, renameat 264 38, renameat2 316 276, truncate 76 45, ftruncate 77 46, utimensat 280 88
    chmod 90 -, fchmod 91 52, fchmodat 268 53, chdir 80 49, fchdir 81 50, umask 95 166
"""
"""Allowed where a child has a folder of its own, and can write nowhere else."""

_WORKERS_OWN = "wait4 61 260, kill 62 129, sendmsg 46 211, socketpair 53 199, prctl 157 167, capset 126 91"

_MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
"""Column of the table, and what the kernel calls the architecture."""

_X32 = 0x40000000
"""Numbers from here on are the calls of x86's other ABI, by which a filter could be walked around."""

_CLONE = (56, 220)
_CLONE_THREAD, _CLONE_FOR_THREADS = 0x00010000, 0x007D0F00
"""What libc asks for. A CLONE_PIDFD, for one, has an inode number that is counted for the whole machine."""

_ALL = 0xFFFFFFFF
_HARMLESS_MESSAGES = 0x4140
"""Flags of what goes through a socket: not to wait, to wait for all, no signal. Never out of band, or a peek."""

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_UNSEEN = 0x400000
"""O_TMPFILE: a file without a name leaves no trace in its folder by which the worker could know of it."""
_ODD_FLAGS = os.O_ASYNC | os.O_DIRECT | getattr(os, "O_PATH", 0)
"""Signals for what happens to a file, reads that never come from memory, places that Landlock does not ask for."""

_HARMLESS_IOCTLS = (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)
"""Terminal attributes (isatty), window size, bytes to read, blocking or not, closed on exec or not."""

_DUPFD, _GETFD, _SETFD, _GETFL, _SETFL, _DUPFD_CLOEXEC = 0, 1, 2, 3, 4, 1030
_SETLK, _SETLKW, _OFD_SETLK, _OFD_SETLKW = 6, 7, 37, 38
_HARMLESS_ADVICE = (0, 1, 2, 3, 4, 8, 14, 15, 16, 17)
"""How memory is read, that it is not needed, huge pages or not, not in a dump: none lets pages be shared."""
_FUTEX_PRIVATE, _FUTEX_WAIT, _FUTEX_WAIT_BITSET, _FUTEX_REALTIME = 128, 0, 9, 256
_MAP_HUGETLB = 0x40000
_CLOCKS = 16  # numbers from here on (negative ones, for the kernel) are the clocks of other processes

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCHITECTURE = 0, 4
_KILL, _ALLOW, _FAIL = 0x80000000, 0x7FFF0000, 0x00050000

_READ_BY_THE_KERNEL: list[Any] = []
"""Filters, which must stay where they are for as long as they may be loaded."""

_YES: _Instruction = (_RETURN, 0, 0, _ALLOW)


def _answer(number: int) -> _Instruction:
    """The call is not made and fails with this error; 0: it seems to have been made."""
    return (_RETURN, 0, 0, _FAIL | number)


_NO: _Instruction = (_RETURN, 0, 0, _FAIL | errno.EPERM)


def filters(*, numbered: bool, writable: bool) -> tuple[Step, Step]:
    """Two filters for this machine, each put over the calling process, for good, by calling it; or OSError.

    The long one holds for the worker and is inherited by every child; what only the worker needs (to fork, to
    wait, to kill, to hand over channels) is taken from a child by the short one. Loading a filter costs the
    kernel time in proportion to its length, and a child lives for a millisecond.

    Args:
        numbered: every child has the same process number. Else it gets none.
        writable: a child has a folder of its own, and mounts keep it from all others. Else it writes nothing.
    """
    machine = os.uname().machine
    if os.uname().sysname != "Linux" or machine not in _MACHINES:
        raise OSError(f"seccomp: no list of system calls for {os.uname().sysname} on {machine}")
    column, architecture = _MACHINES[machine]

    all_may, files, workers_own = map(_table, (_ALLOWED, _FILES, _WORKERS_OWN))
    allowed = [*all_may.values(), *workers_own.values(), *(files.values() if writable else ())]
    long = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUAL, 1, 0, architecture),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
        (_AT_LEAST, 0, 1, _X32),
        (_RETURN, 0, 0, _KILL),
        *_switch(column, [*_checked_calls(writable), *((numbers, [_YES]) for numbers in allowed)]),
        _NO,
    ]
    threads = [(_ANY_BIT, 1, 0, _ALL ^ _CLONE_FOR_THREADS), (_ANY_BIT, 1, 0, _CLONE_THREAD), _NO, _YES]
    taken: list[tuple[_Numbers, _Program]] = [
        *((numbers, [_NO]) for numbers in workers_own.values()),
        (_CLONE, [_argument(0), *threads]),
    ]
    if not numbered:
        taken += [(all_may[name], [_answer(0)]) for name in ("getpid", "getppid", "gettid", "getpgrp")]
    if not writable:
        refused = [(_ANY_BIT, 0, 1, _WRITING), _answer(errno.EACCES), _YES]
        taken += [((2, None), [_argument(1), *refused]), ((257, 56), [_argument(2), *refused])]
        taken += [(all_may[name], [_answer(errno.EACCES)]) for name in ("readlink", "readlinkat")]
    return _loader(long), _loader([(_LOAD, 0, 0, _NUMBER), *_switch(column, taken), _YES])


def _table(text: str) -> dict[str, _Numbers]:
    """A call's name and its numbers; a dash where a machine has no such call."""
    rows = (row.split() for row in text.replace("\n", ",").split(",") if row.strip())
    return {name: (int(number), None if other == "-" else int(other)) for name, number, other in rows}


def _switch(column: int, cases: Iterable[tuple[Sequence[int | None], _Program]]) -> _Program:
    """What is done where the loaded word is the number in this column; none where there is no such number."""
    known = ((number, check) for numbers, check in cases if (number := numbers[column]) is not None)
    return [one for number, check in known for one in [(_EQUAL, 0, len(check), number), *check]]


def _loader(program: _Program) -> Step:
    code = b"".join(struct.pack("=HBBI", *instruction) for instruction in program)
    buffer = ctypes.create_string_buffer(code, len(code))
    _READ_BY_THE_KERNEL.append(buffer)  # the header has its address, which keeps nothing alive
    header = struct.pack("@HP", len(program), ctypes.addressof(buffer))
    return prepared("prctl", PR_SET_SECCOMP, 2, ctypes.create_string_buffer(header, len(header)), 0, 0)


def _checked_calls(writable: bool) -> list[tuple[_Numbers, _Program]]:
    """What is allowed for some arguments only: the numbers of a call, and how its arguments are judged."""
    shown = [_argument(0), (_AT_LEAST, 0, 1, HIDDEN), _NO, _YES]
    shown_or_path = [_argument(0), (_AT_LEAST, 0, 2, HIDDEN), (_AT_LEAST, 1, 0, END), _NO, _YES]
    opened = [
        (_ANY_BIT, 0, 1, _UNSEEN), _answer(errno.EOPNOTSUPP), (_ANY_BIT, 0, 1, _ODD_FLAGS), _NO, _YES
    ]  # fmt: skip
    # Flags of a descriptor, copies of it: a shown one may be copied to anywhere, a hidden one to a hidden number. Locks,
    # owners, signals and leases are kept where others see them. A lock only seems to be got: a child's files are its own,
    # so no other can hold one.
    copy = [_argument(0), (_AT_LEAST, 1, 0, HIDDEN), _YES, _argument(2), (_AT_LEAST, 0, 1, HIDDEN), _YES, _NO]
    commands: dict[int, _Program] = {
        **dict.fromkeys((_DUPFD, _DUPFD_CLOEXEC), copy),
        _SETFL: [_argument(2), (_ANY_BIT, 0, 1, _ODD_FLAGS), _NO, _YES],
        **{command: [_YES] for command in (_GETFD, _SETFD, _GETFL)},
        **{command: [_answer(0)] for command in (_SETLK, _SETLKW, _OFD_SETLK, _OFD_SETLKW)},
    }
    fcntl = [_argument(1), *_switch(0, (((number,), check) for number, check in commands.items())), _NO]
    # Private ones. A shared one's key may be a page of a library's file, by which others could be woken. libc waits so for
    # the end of a thread; on EAGAIN it looks again until the thread is gone.
    waits = [one | more for more in (0, _FUTEX_REALTIME) for one in (_FUTEX_WAIT, _FUTEX_WAIT_BITSET)]
    again = _switch(0, (((number,), [_answer(errno.EAGAIN)]) for number in waits))
    futex = [_argument(1), (_ANY_BIT, 0, 1, _FUTEX_PRIVATE), _YES, *again, _NO]
    own_clock = [_argument(0), (_AT_LEAST, 0, 1, _CLOCKS), _answer(errno.EINVAL), _YES]
    checked: list[tuple[_Numbers, _Program]] = [
        ((202, 98), futex), ((72, 25), fcntl),
        # mmap: huge pages come from a pool of the machine
        ((9, 222), [_argument(3), (_ANY_BIT, 0, 1, _MAP_HUGETLB), _NO, _YES]),
        ((28, 233), [_argument(2), *_one_of(_HARMLESS_ADVICE)]),  # madvise
        ((262, 79), shown_or_path),  # newfstatat
        ((5, 80), shown),  # fstat
        ((32, 23), shown), ((33, None), shown), ((292, 24), shown),  # dup, dup2, dup3
        ((2, None), [_argument(1), *opened]),  # open
        ((257, 56), [_argument(2), *opened]),  # openat
        # clock_gettime, clock_getres, clock_nanosleep
        ((228, 113), own_clock), ((229, 114), own_clock), ((230, 115), own_clock),
        (_CLONE, [_YES]),  # a worker's forks; of a child, threads only
        # sendto, recvfrom
        *((numbers, [_argument(3), (_ANY_BIT, 0, 1, _ALL ^ _HARMLESS_MESSAGES), _NO, _YES]) for numbers in ((44, 206), (45, 207))),
        ((204, 123), [_argument(0), *_one_of([0])]),  # sched_getaffinity: not whether there is another process
        ((435, 435), [_answer(errno.ENOSYS)]),  # clone3: libc then uses clone, whose flags can be read
        ((302, 261), [_argument(0), *_one_of([0])]),  # prlimit64: one's own, downwards
        ((16, 29), [_argument(1), *_one_of(_HARMLESS_IOCTLS)]),  # ioctl
        # statx, which shows how many mounts there have been: callers use stat then
        ((332, 291), [_answer(errno.ENOSYS)]),
    ]  # fmt: skip
    if writable:
        # on the library's disk they would do something: nothing has to last
        checked += [((74, 82), [_answer(0)]), ((75, 83), [_answer(0)])]  # fsync, fdatasync
        # listxattr and its like, which shutil calls for every copy
        checked += [(numbers, [_answer(errno.EOPNOTSUPP)]) for numbers in ((194, 11), (195, 12), (196, 13))]
    return checked


def _one_of(values: Sequence[int]) -> _Program:
    """Allow the loaded argument if it is one of these."""
    equal = [(_EQUAL, len(values) - at, 0, value) for at, value in enumerate(values)]
    return [*equal, _NO, _YES]


def _argument(index: int) -> _Instruction:
    return (_LOAD, 0, 0, 16 + 8 * index)  # the low half, which is all that these calls look at
