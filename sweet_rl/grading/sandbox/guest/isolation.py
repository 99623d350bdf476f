"""Isolates a process from the machine with what the kernel offers and the user may use.

Each layer is tried on its own; what must be there is decided outside (`sweet_rl.grading.sandbox.worker`).
Namespaces take away the file system, the network and other processes. Landlock needs neither privileges nor
namespaces: in an ordinary container, where those are refused, it is what keeps files out of reach. Resource limits and
seccomp bound what is left.

The open files of a child: none shared with the next child, and no sockets. A socket's inode number comes from a counter
of the whole machine: who makes many tells it to all who make one later. So a child can make none (`guest.seccomp`), its
own have numbers from `HIDDEN` on, and a descriptor from there on cannot be asked for its inode, or be copied to a number
below. asyncio, which wakes itself up through a pair of sockets, is handed copies of a pair that the child was born with.
"""

from __future__ import annotations

import _socket  # its sockets ask the kernel nothing when they are made
import ctypes
import errno
import os
import resource
import struct
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any, Final

from . import libc

_NEWNS, _NEWCGROUP, _NEWUTS, _NEWIPC = 0x00020000, 0x02000000, 0x04000000, 0x08000000
_NEWUSER, _NEWPID, _NEWNET = 0x10000000, 0x20000000, 0x40000000
_SYS_MOUNT_SETATTR, _AT_FDCWD, _AT_RECURSIVE = 442, -100, 0x8000
_PR_CAPBSET_DROP, _PR_SET_KEEPCAPS = 24, 8
_CHECKPOINT_RESTORE: Final = 40
_LAST_CAPABILITY: Final = 63
_NOBODY: Final = 65534
_FIRST_UNUSED_USER: Final = (
    1_900_000_000  # in the range that systemd's table of user numbers leaves to nobody
)
NULL: Final = "/dev/null"

MOST_THREADS = 64
"""That a child may have."""

SCRATCH_BYTES = 32 * 2**20
"""What a child may write, in files of its own that live as long as it does."""


def enter_namespaces() -> list[str]:
    """Leave the machine's namespaces; the next child is process 1 of a new process namespace.

    Root does it directly, an ordinary user inside a new user namespace. Returns what was left behind.
    """
    wanted = _NEWNS | _NEWPID | _NEWNET | _NEWIPC | _NEWUTS | _NEWCGROUP
    names = ["mount", "process", "network", "ipc", "host name", "cgroup"]
    user, group = os.geteuid(), os.getegid()
    if user == 0:
        with suppress(OSError):
            libc.call("unshare", wanted)
            return names
    try:
        libc.call("unshare", wanted | _NEWUSER)
        for name, content in (
            ("setgroups", "deny"),
            ("uid_map", f"{_NOBODY} {user} 1"),
            ("gid_map", f"{_NOBODY} {group} 1"),
        ):
            with open(f"/proc/self/{name}", "w") as file:
                file.write(content)
    except OSError:
        return []
    return ["user", *names]


def open_process_numbers() -> int | None:
    """The file that sets where a process namespace continues counting; None where that is not allowed.

    To be opened while it can be seen.
    """
    with suppress(OSError):
        return os.open("/proc/sys/kernel/ns_last_pid", os.O_WRONLY | os.O_CLOEXEC)
    return None


def count_from(number: int, process_numbers: int | None) -> libc.Step | None:
    """What lets the next process or thread of this namespace have that number, if it is free.

    So no child learns how many processes and threads there have been before it. None where that cannot be;
    it takes Linux 5.9.
    """
    if process_numbers is None:
        return None
    last = b"%d" % (number - 1)
    count = libc.prepared("pwrite", process_numbers, last, len(last), 0)
    try:
        libc.take([count])
    except OSError:
        return None
    return count


def hide_file_system(readable: list[str], hidden: list[str]) -> str | None:
    """Swap the root for a read-only one that holds the readable folders, without the hidden ones.

    Needs a mount namespace. Returns the one folder where a child may write, which is empty and small; None
    where the kernel refuses. Landlock works all the same then.
    """
    scratch = next(path for path in ("/tmp", "/scratch", "/own") if _is_apart(path, readable))
    try:
        libc.mount("none", "/", None, libc.MS_REC | libc.MS_PRIVATE)
        root = next(path for path in ("/sys", "/proc", "/mnt") if os.path.isdir(path))
        libc.mount("sandbox", root, "tmpfs", libc.MS_NOSUID | libc.MS_NODEV, "size=1m,mode=755")
        for path in readable:
            if os.path.islink(path):
                os.symlink(os.readlink(path), root + path)
                continue
            os.makedirs(root + path, exist_ok=True)
            libc.mount(path, root + path, None, libc.MS_BIND | libc.MS_REC)
        for path in hidden:
            if os.path.isdir(root + path):
                libc.mount(
                    "sandbox", root + path, "tmpfs", libc.MS_NOSUID | libc.MS_NODEV, "size=4k,mode=555"
                )
        os.makedirs(root + scratch)
        os.makedirs(root + os.path.dirname(NULL), exist_ok=True)
        with open(root + NULL, "x"):
            pass
        _make_read_only(root, [path for path in readable if not os.path.islink(path)])
        with suppress(OSError):
            _add_null(root + NULL)
        flags = libc.MS_NOSUID | libc.MS_NODEV | libc.MS_NOEXEC | libc.MS_NOATIME
        options = f"size={SCRATCH_BYTES},nr_inodes=1000,mode=777"
        libc.mount("scratch", root + scratch, "tmpfs", flags, options)
        os.utime(root + scratch, (0, 0))  # so that every change to it shows, in whatever moment it comes
        os.chdir(root)
        libc.pivot_root_here()
    except (OSError, KeyError, StopIteration):
        return None
    return scratch


def _is_apart(path: str, folders: Iterable[str]) -> bool:
    return not any(f"{folder}/".startswith(f"{path}/") for folder in folders)


def _make_read_only(root: str, mounts: list[str]) -> None:
    """The whole tree with one call where the kernel has it (5.12), else one mount after the other."""
    flags = libc.MS_RDONLY | libc.MS_NOSUID | libc.MS_NODEV
    with suppress(OSError):
        _set_attributes(root, flags, _AT_RECURSIVE)
        return
    for path in [root, *(root + path for path in mounts)]:
        locked = os.statvfs(path).f_flag & (os.ST_NOEXEC | os.ST_NOATIME | os.ST_NODIRATIME)
        libc.mount("none", path, None, libc.MS_REMOUNT | libc.MS_BIND | flags | locked)


def _set_attributes(path: str, attributes: int, flags: int = 0) -> None:
    wanted = struct.pack("QQQQ", attributes, 0, 0, 0)
    name = os.fsencode(path)
    libc.syscall("mount_setattr", _SYS_MOUNT_SETATTR, _AT_FDCWD, name, flags, wanted, len(wanted))


def _add_null(place: str) -> None:
    """The file that output goes to: a child opens it anew, instead of sharing what a worker has open."""
    libc.mount(NULL, place, None, libc.MS_BIND)
    flags = libc.MS_RDONLY | libc.MS_NOSUID | libc.MS_NOEXEC
    try:
        _set_attributes(place, flags)
    except OSError:
        libc.mount("none", place, None, libc.MS_REMOUNT | libc.MS_BIND | flags)


def drop_privileges(folders: Iterable[str] = (), *, keep_numbering: bool = False) -> bool:
    """Give up every capability, for good, and become a user without other processes where we were root.

    Root of a container may not have other users to become, and stays without capabilities; so does root whose
    `folders` would then be out of reach.

    Args:
        folders: what has to stay readable.
        keep_numbering: for now, keep what `count_from` needs.

    Returns:
        Whether this is now a user without other processes.
    """
    kept = {_CHECKPOINT_RESTORE} if keep_numbering else set()
    for capability in range(_LAST_CAPABILITY + 1):
        if capability not in kept:
            with suppress(OSError):
                libc.prctl(_PR_CAPBSET_DROP, capability)
    is_own_user = False
    if os.geteuid() == 0 and all(map(_open_to_all, folders)):
        # one that no one else has: limits which count by user are this worker's own. Drawn by lot, as answers see it,
        # and a process number would show how many there have been
        user = _FIRST_UNUSED_USER + int.from_bytes(os.urandom(3), "little")
        libc.prctl(_PR_SET_KEEPCAPS, 1)
        with suppress(OSError):
            os.setgroups([])
            os.setresgid(user, user, user)
            os.setresuid(user, user, user)
            is_own_user = True
    libc.take([libc.keep_capabilities(kept)])
    libc.prctl(libc.PR_SET_NO_NEW_PRIVS, 1)
    return is_own_user


def _open_to_all(folder: str) -> bool:
    """Whether every user can get there."""
    parts = os.path.realpath(folder).split("/")
    return all(os.stat("/".join(parts[:end]) or "/").st_mode & 0o001 for end in range(1, len(parts) + 1))


def die_with_parent() -> libc.Step:
    """What lets a process be killed when the one ends that has started it."""
    return libc.prepared("prctl", libc.PR_SET_PDEATHSIG, *map(ctypes.c_ulong, (9, 0, 0, 0)))


def inherited_limits(memory_bytes: int) -> list[libc.Step]:
    """Bounds that a worker can live with itself, and that its children have from it."""
    return [
        _limit(resource.RLIMIT_AS, memory_bytes),
        _limit(resource.RLIMIT_CORE, 0),
        _limit(resource.RLIMIT_NOFILE, END),
        _limit(resource.RLIMIT_MEMLOCK, 0),
    ]


def limits_of_a_child(cpu_s: int, *, writable: bool, own_user: bool, own_namespace: bool) -> list[libc.Step]:
    """Bounds for a child only: a worker computes for longer, complains into a file, and forks.

    The kernel counts the threads of a user, for all of the user's processes; since 5.14 in each user namespace
    by themselves. Where they are not a worker's alone, a low bound would fail honest threads beside a busy
    desktop: half of what the user may have is left, and the process outside counts (`sandbox.worker`).
    """
    version = os.uname().release.split(".")
    by_namespace = (int(version[0]), int(version[1].partition("-")[0])) >= (5, 14)
    alone = own_user or (own_namespace and by_namespace)
    most = MOST_THREADS if alone else resource.getrlimit(resource.RLIMIT_NPROC)[1] // 2
    return [
        _limit(resource.RLIMIT_CPU, cpu_s),
        _limit(resource.RLIMIT_FSIZE, SCRATCH_BYTES if writable else 0),
        *([] if most < 0 else [_limit(resource.RLIMIT_NPROC, most)]),
    ]


def _limit(what: int, most: int) -> libc.Step:
    """What sets a bound that cannot be raised again."""
    _, hard = resource.getrlimit(what)
    bound = most if hard == resource.RLIM_INFINITY else min(most, hard)
    return libc.prepared("setrlimit", what, (ctypes.c_uint64 * 2)(bound, bound))


_CREATE, _ADD, _RESTRICT = 444, 445, 446
_WRITE, _READ, _LIST = 1 << 1, 1 << 2, 1 << 3
_REMOVE_FOLDER, _REMOVE_FILE, _MAKE_FOLDER, _MAKE_FILE = 1 << 4, 1 << 5, 1 << 7, 1 << 8
_RENAME, _TRUNCATE = 1 << 13, 1 << 14  # from versions 2 and 3 on
_FIRST_VERSIONS_RIGHTS = 13
_NETWORK, _SCOPES = 0b11, 0b11  # from versions 4 (connect, bind) and 6 (abstract sockets, signals) on
_NETWORK_VERSION, _SCOPE_VERSION = 4, 6


def restrict(readable: Iterable[str], hidden: Iterable[str], writable: str | None, null: str) -> list[str]:
    """From now on only this, for the calling process and all that it forks.

    Args:
        readable: folders.
        hidden: folders below them, of which only the names can be read.
        writable: a folder where files can be made.
        null: a file that can be written to.

    Returns:
        The layers that are active: none, "Landlock", and the name of its scope where signals have one.
    """
    try:
        version = libc.syscall("landlock", _CREATE, None, 0, 1)
        rights = (
            1 << (_FIRST_VERSIONS_RIGHTS + min(version - 1, 2))
        ) - 1  # later versions know two rights more
        ruleset = libc.syscall("landlock", _CREATE, *_attributes(version, rights), 0)
        for path, wanted in _rules(readable, list(hidden)):
            _allow(ruleset, path, wanted & rights)
        if writable is not None:
            files = _WRITE | _REMOVE_FOLDER | _REMOVE_FILE | _MAKE_FOLDER | _MAKE_FILE | _RENAME | _TRUNCATE
            _allow(ruleset, writable, (_READ | _LIST | files) & rights)
        with suppress(OSError):
            _allow(ruleset, null, (_READ | _WRITE | _TRUNCATE) & rights)
        libc.syscall("landlock", _RESTRICT, ruleset, 0)
        os.close(ruleset)
    except OSError:
        return []
    return ["Landlock", *(["signal scope"] if version >= _SCOPE_VERSION else [])]


def _attributes(version: int, rights: int) -> tuple[bytes, int]:
    """What the ruleset is about, as long as this version of the kernel's structure."""
    attributes = struct.pack("Q", rights)
    if version >= _NETWORK_VERSION:
        attributes += struct.pack("Q", _NETWORK)
    if version >= _SCOPE_VERSION:
        attributes += struct.pack("Q", _SCOPES)
    return attributes, len(attributes)


def _rules(readable: Iterable[str], hidden: list[str]) -> Iterator[tuple[str, int]]:
    """Paths and rights. A rule holds for all below it: beside what is hidden, each one gets its own."""
    for path in readable:
        below = [folder for folder in hidden if f"{folder}/".startswith(f"{path}/")]
        if not below:
            yield path, _READ | _LIST if os.path.isdir(path) else _READ
        elif path not in hidden:
            yield path, _LIST
            neighbours = [entry.path for entry in os.scandir(path) if not entry.is_symlink()]
            yield from _rules(neighbours, below)


def _allow(ruleset: int, path: str, rights: int) -> None:
    folder = os.open(path, os.O_PATH)
    try:
        rule = struct.pack("=Qi", rights, folder)
        libc.syscall("landlock", _ADD, ruleset, 1, rule, 0)
    finally:
        os.close(folder)


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
