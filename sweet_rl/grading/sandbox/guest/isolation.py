"""Isolates a process from the machine with what the kernel offers and the user may use; Linux calls that Python lacks.

Each layer is tried on its own; what must be there is decided outside. Namespaces take away the file system, the network
and other processes. Landlock needs neither privileges nor namespaces, and keeps files out of reach in an ordinary
container. Resource limits and seccomp bound what is left.

A child has no sockets to make: their inode numbers come from a counter of the whole machine, which would tell others of
it. Its own have numbers from `HIDDEN` on, which cannot be asked for their inode, nor copied to a number below; asyncio,
which wakes itself up through a pair of sockets, is handed copies of a pair that the child was born with.
"""

from __future__ import annotations

import _socket  # its sockets ask the kernel nothing when they are made
import ctypes
import errno
import os
import resource
import struct
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any, Final

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_NOATIME = 1, 2, 4, 8, 1024
MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 0x20, 0x1000, 0x4000, 0x40000
_MNT_DETACH, _AT_FDCWD, _AT_RECURSIVE, _SYS_MOUNT_SETATTR = 2, -100, 0x8000, 442
_SYS_PIVOT_ROOT, _SYS_NEWFSTATAT = {"x86_64": 155, "aarch64": 41}, {"x86_64": 262, "aarch64": 79}
_NEWNS, _NEWCGROUP, _NEWUTS, _NEWIPC = 0x00020000, 0x02000000, 0x04000000, 0x08000000
_NEWUSER, _NEWPID, _NEWNET = 0x10000000, 0x20000000, 0x40000000
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS = 1, 4, 22, 38
_PR_SET_KEEPCAPS, _PR_CAPBSET_DROP, _CAPABILITY_VERSION_3 = 8, 24, 0x20080522
_CHECKPOINT_RESTORE, _LAST_CAPABILITY, _SIGKILL, _DUPFD_CLOEXEC = 40, 63, 9, 1030
_NOBODY: Final = 65534
_FIRST_UNUSED_USER: Final = 1_900_000_000  # systemd's table of user numbers leaves these to nobody
NULL: Final = "/dev/null"

MOST_THREADS = 64
"""That a child may have."""

SCRATCH_BYTES = 32 * 2**20
"""What a child may write, in files of its own that live as long as it does."""

HIDDEN, END = 48, 64
"""The descriptors of which nothing can be asked, and their end, which is that of all."""

CHANNEL, _WAKE_ONE, _WAKE_OTHER = HIDDEN, HIDDEN + 1, HIDDEN + 2

Step = tuple[Callable[..., Any], tuple[Any, ...]]
"""A call that is made again and again, with all that it needs, in as few pages of memory as possible."""

_libc, _unlocked = ctypes.CDLL(None, use_errno=True), ctypes.PyDLL(None)
_pair = _socket.socketpair


def call(name: str, *arguments: Any) -> int:
    """Call a function of libc that returns -1 on failure; OSError says that it failed, or is not there."""
    function = getattr(_libc, name, None)
    if function is None:
        raise OSError(f"{name}: not offered by this system")
    result: int = function(*arguments)
    if result == -1:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
    return result


def _syscall(number: int, *arguments: Any) -> int:
    """Make a system call that libc has no function for."""
    return call("syscall", ctypes.c_long(number), *arguments)


def prctl(option: int, value: Any = 0, extra: Any = 0) -> None:
    """Set something about this process."""
    words = (ctypes.c_ulong(one) if isinstance(one, int) else one for one in (value, extra, 0, 0))
    call("prctl", option, *words)


def mount(source: str, target: str, kind: str | None, flags: int, options: str | None = None) -> None:
    """Mount, remount or bind, as the flags say."""
    places = os.fsencode(source), os.fsencode(target), kind and kind.encode()
    call("mount", *places, ctypes.c_ulong(flags), options and options.encode())


def prepared(name: str, *arguments: Any) -> Step:
    """A call of libc for `take`. Of a `ctypes` number, what it is by then is passed."""
    return getattr(_unlocked, name), arguments


def take(steps: Iterable[Step]) -> None:
    """Make these calls one after the other; OSError where one fails. They keep the interpreter's lock."""
    for function, arguments in steps:
        if function(*arguments) == -1:
            raise OSError(f"{getattr(function, '__name__', function)}: refused")


def fork() -> int:
    """Like `os.fork`, but Python does not know of it: for one thread, and nothing to be done after forks."""
    child: int = _unlocked.fork()
    return child


def end(child: int) -> None:
    """Kill it (-1: all that may be killed), and wait until no child is left; how they have ended is not learned."""
    _unlocked.kill(child, _SIGKILL)
    while _unlocked.waitpid(-1, None, 0) > 0:
        pass


def prepared_look(path: str) -> Callable[[], bytes]:
    """What the kernel knows of this file: other bytes once it, or what a folder lists, has been changed."""
    system_call, found = _unlocked.syscall, ctypes.create_string_buffer(256)
    number, folder = _SYS_NEWFSTATAT[os.uname().machine], ctypes.c_long(_AT_FDCWD)
    words = (ctypes.c_long(number), folder, ctypes.c_char_p(os.fsencode(path)), found, ctypes.c_long(0))

    def look() -> bytes:
        system_call(*words)
        return found.raw

    return look


def enter_namespaces() -> list[str]:
    """Leave the machine's namespaces; the next child is process 1 of a new process namespace.

    Root does it directly, an ordinary user inside a new user namespace. Returns what was left behind.
    """
    wanted = _NEWNS | _NEWPID | _NEWNET | _NEWIPC | _NEWUTS | _NEWCGROUP
    names = ["mount", "process", "network", "ipc", "host name", "cgroup"]
    user, group = os.geteuid(), os.getegid()
    if user == 0:
        with suppress(OSError):
            call("unshare", wanted)
            return names
    try:
        call("unshare", wanted | _NEWUSER)
        maps = {"setgroups": "deny", "uid_map": f"{_NOBODY} {user} 1", "gid_map": f"{_NOBODY} {group} 1"}
        for name, content in maps.items():
            with open(f"/proc/self/{name}", "w") as file:
                file.write(content)
    except OSError:
        return []
    return ["user", *names]


def count_from(number: int, process_numbers: int | None) -> Step | None:
    """What lets the next process or thread of this namespace have that number, if it is free.

    So no child learns how many processes and threads there have been before it. `process_numbers` is the kernel's
    open file for that. None where that cannot be; it takes Linux 5.9.
    """
    if process_numbers is None:
        return None
    last = b"%d" % (number - 1)
    count = prepared("pwrite", process_numbers, last, len(last), 0)
    try:
        take([count])
    except OSError:
        return None
    return count


def hide_file_system(readable: list[str], hidden: list[str]) -> str | None:
    """Swap the root for a read-only one that holds the readable folders, without the hidden ones.

    Needs a mount namespace. Returns the one folder where a child may write, which is empty and small; None
    where the kernel refuses. Landlock works all the same then.
    """
    places = ("/tmp", "/scratch", "/own")
    scratch = next(one for one in places if not any(f"{path}/".startswith(f"{one}/") for path in readable))
    try:
        mount("none", "/", None, MS_REC | MS_PRIVATE)
        root = next(path for path in ("/sys", "/proc", "/mnt") if os.path.isdir(path))
        mount("sandbox", root, "tmpfs", MS_NOSUID | MS_NODEV, "size=1m,mode=755")
        for path in readable:
            if os.path.islink(path):
                os.symlink(os.readlink(path), root + path)
                continue
            os.makedirs(root + path, exist_ok=True)
            mount(path, root + path, None, MS_BIND | MS_REC)
        for path in hidden:
            if os.path.isdir(root + path):
                mount("sandbox", root + path, "tmpfs", MS_NOSUID | MS_NODEV, "size=4k,mode=555")
        os.makedirs(root + scratch)
        os.makedirs(root + os.path.dirname(NULL), exist_ok=True)
        with open(root + NULL, "x"):
            pass
        mounts = [root, *(root + path for path in readable if not os.path.islink(path))]
        _set_flags(mounts, MS_RDONLY | MS_NOSUID | MS_NODEV)
        # a child opens it anew for its output, instead of sharing what a worker has open
        with suppress(OSError):
            mount(NULL, root + NULL, None, MS_BIND)
            _set_flags([root + NULL], MS_RDONLY | MS_NOSUID | MS_NOEXEC)
        options = f"size={SCRATCH_BYTES},nr_inodes=1000,mode=777"
        mount("scratch", root + scratch, "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_NOATIME, options)
        os.utime(root + scratch, (0, 0))  # so that every change to it shows, in whatever moment it comes
        os.chdir(root)
        _syscall(_SYS_PIVOT_ROOT[os.uname().machine], b".", b".")
        call("umount2", b".", _MNT_DETACH)
        os.chdir("/")
    except (OSError, KeyError, StopIteration):
        return None
    return scratch


def _set_flags(mounts: list[str], flags: int) -> None:
    """Of a tree, the first one, with one call where the kernel has it (5.12); else of one mount after the other."""
    wanted = struct.pack("QQQQ", flags, 0, 0, 0)
    with suppress(OSError):
        name = os.fsencode(mounts[0])
        _syscall(_SYS_MOUNT_SETATTR, _AT_FDCWD, name, _AT_RECURSIVE, wanted, len(wanted))
        return
    for path in mounts:
        locked = os.statvfs(path).f_flag & (os.ST_NOEXEC | os.ST_NOATIME | os.ST_NODIRATIME)
        mount("none", path, None, MS_REMOUNT | MS_BIND | flags | locked)


def keep_capabilities(kept: Iterable[int] = ()) -> Step:
    """What gives up every other capability for good, when it is called."""
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    low, high = (
        sum(1 << capability - at for capability in kept if 0 <= capability - at < 32) for at in (0, 32)
    )
    return prepared("capset", header, (ctypes.c_uint32 * 6)(low, low, 0, high, high, 0))


def drop_privileges(folders: Iterable[str] = (), *, keep_numbering: bool = False) -> bool:
    """Give up every capability, for good, and become a user without other processes where we were root.

    Root of a container may not have other users to become, and stays without capabilities; so does root whose
    `folders`, which have to stay readable, would then be out of reach. With `keep_numbering`, what `count_from`
    needs is kept for now. Returns whether this is now a user without other processes.
    """
    kept = {_CHECKPOINT_RESTORE} if keep_numbering else set()
    for capability in range(_LAST_CAPABILITY + 1):
        if capability not in kept:
            with suppress(OSError):
                prctl(_PR_CAPBSET_DROP, capability)
    is_own_user = False
    if os.geteuid() == 0 and all(map(_open_to_all, folders)):
        # one that no one else has: limits which count by user are this worker's own. Drawn by lot, as answers see it,
        # and a process number would show how many there have been
        user = _FIRST_UNUSED_USER + int.from_bytes(os.urandom(3), "little")
        prctl(_PR_SET_KEEPCAPS, 1)
        with suppress(OSError):
            os.setgroups([])
            os.setresgid(user, user, user)
            os.setresuid(user, user, user)
            is_own_user = True
    take([keep_capabilities(kept)])
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    return is_own_user


def _open_to_all(folder: str) -> bool:
    """Whether every user can get there."""
    parts = os.path.realpath(folder).split("/")
    return all(os.stat("/".join(parts[:end]) or "/").st_mode & 0o001 for end in range(1, len(parts) + 1))


def die_with_parent() -> Step:
    """What lets a process be killed when the one ends that has started it."""
    return prepared("prctl", PR_SET_PDEATHSIG, *map(ctypes.c_ulong, (_SIGKILL, 0, 0, 0)))


def inherited_limits(memory_bytes: int) -> list[Step]:
    """Bounds that a worker can live with itself, and that its children have from it."""
    return [
        _limit(resource.RLIMIT_AS, memory_bytes),
        _limit(resource.RLIMIT_CORE, 0),
        _limit(resource.RLIMIT_NOFILE, END),
        _limit(resource.RLIMIT_MEMLOCK, 0),
    ]


def limits_of_a_child(cpu_s: int, *, writable: bool, own_user: bool, own_namespace: bool) -> list[Step]:
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


def _limit(what: int, most: int) -> Step:
    """What sets a bound that cannot be raised again."""
    _, hard = resource.getrlimit(what)
    bound = most if hard == resource.RLIM_INFINITY else min(most, hard)
    return prepared("setrlimit", what, (ctypes.c_uint64 * 2)(bound, bound))


_CREATE, _ADD, _RESTRICT = 444, 445, 446
_WRITE, _READ, _LIST = 1 << 1, 1 << 2, 1 << 3
_REMOVE_FOLDER, _REMOVE_FILE, _MAKE_FOLDER, _MAKE_FILE = 1 << 4, 1 << 5, 1 << 7, 1 << 8
_RENAME, _TRUNCATE = 1 << 13, 1 << 14  # from versions 2 and 3 on
_FIRST_VERSIONS_RIGHTS = 13
_NETWORK, _SCOPES = 0b11, 0b11  # from versions 4 (connect, bind) and 6 (abstract sockets, signals) on
_NETWORK_VERSION, _SCOPE_VERSION = 4, 6


def restrict(readable: Iterable[str], hidden: Iterable[str], writable: str | None, null: str) -> list[str]:
    """Landlock: from now on only this, for the calling process and all that it forks.

    That is: readable folders, but of those below them that are hidden only the names; the folder where files can be
    made; the file that can be written to. Returns the layers that are active: none, or "Landlock", and the name of its
    scope where signals have one.
    """
    try:
        version = _syscall(_CREATE, None, 0, 1)
        # later versions know two rights more, and more words of the kernel's structure
        rights = (1 << (_FIRST_VERSIONS_RIGHTS + min(version - 1, 2))) - 1
        known = 1 + (version >= _NETWORK_VERSION) + (version >= _SCOPE_VERSION)
        attributes = struct.pack(f"{known}Q", *(rights, _NETWORK, _SCOPES)[:known])
        ruleset = _syscall(_CREATE, attributes, len(attributes), 0)
        for path, wanted in _rules(readable, list(hidden)):
            _allow(ruleset, path, wanted & rights)
        if writable is not None:
            files = _WRITE | _REMOVE_FOLDER | _REMOVE_FILE | _MAKE_FOLDER | _MAKE_FILE | _RENAME | _TRUNCATE
            _allow(ruleset, writable, (_READ | _LIST | files) & rights)
        with suppress(OSError):
            _allow(ruleset, null, (_READ | _WRITE | _TRUNCATE) & rights)
        _syscall(_RESTRICT, ruleset, 0)
        os.close(ruleset)
    except OSError:
        return []
    return ["Landlock", *(["signal scope"] if version >= _SCOPE_VERSION else [])]


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
        _syscall(_ADD, ruleset, 1, struct.pack("=Qi", rights, folder), 0)
    finally:
        os.close(folder)


class Pairs:
    """Two pairs of connected local streams, new ones for each child: to the process outside; asyncio's."""

    def __init__(self) -> None:
        size = ctypes.sizeof(ctypes.c_int)
        numbers = (ctypes.c_int * 4)()
        outer, *ends = (ctypes.c_int.from_buffer(numbers, at * size) for at in range(4))
        kind = (_socket.AF_UNIX, _socket.SOCK_STREAM, 0)
        places = zip(ends, (CHANNEL, _WAKE_ONE, _WAKE_OTHER), strict=True)
        self.outer = memoryview(outer).cast("B")
        self.make = [prepared("socketpair", *kind, ctypes.byref(numbers, at * size)) for at in (0, 2)]
        self.close_ends = [prepared("close", end) for end in ends]
        self.close_outer = [prepared("close", outer)]
        self._arrange = [prepared("dup2", *pair) for pair in places]

    def arrangement(self) -> list[Step]:
        """What gives up all descriptors of a child but its ends, which get their places."""
        try:
            os.close(os.open(NULL, os.O_RDWR))
        except OSError:  # the worker's own complaints go to a file, an answer's go nowhere
            return [*self._arrange, prepared("dup2", 1, 2), (os.closerange, (3, HIDDEN))]
        null = [prepared("open", NULL.encode(), os.O_RDWR), prepared("dup2", 0, 1), prepared("dup2", 0, 2)]
        return [*self._arrange, (os.closerange, (0, HIDDEN)), *null]  # it needs no others


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

    def wake_pair(*_: Any) -> tuple[_socket.socket, _socket.socket]:
        if not sys._getframe(2).f_globals.get("__name__", "").startswith("asyncio."):
            raise PermissionError(errno.EPERM, "no sockets in the sandbox")
        import fcntl  # not in every worker's memory

        kind = (_socket.AF_UNIX, _socket.SOCK_STREAM, 0)
        one, other = (fcntl.fcntl(end, _DUPFD_CLOEXEC, HIDDEN) for end in (_WAKE_ONE, _WAKE_OTHER))
        return _socket.socket(*kind, one), _socket.socket(*kind, other)

    _socket.socketpair = wake_pair
