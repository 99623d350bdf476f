"""Cutting a process off from the machine, with what the kernel offers and the user may use.

Each layer is tried on its own; what must be there is decided outside (`sweet_rl.grading.sandbox.worker`).
Namespaces take away the file system, the network and other processes; Landlock takes away files where mount
namespaces are missing; resource limits and seccomp bound what is left.
"""

from __future__ import annotations

import os
import resource
import struct
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from . import libc

_NEWNS, _NEWCGROUP, _NEWUTS, _NEWIPC = 0x00020000, 0x02000000, 0x04000000, 0x08000000
_NEWUSER, _NEWPID, _NEWNET = 0x10000000, 0x20000000, 0x40000000
_SYS_MOUNT_SETATTR, _AT_FDCWD, _AT_RECURSIVE = 442, -100, 0x8000
_SYS_LANDLOCK_CREATE, _SYS_LANDLOCK_ADD, _SYS_LANDLOCK_RESTRICT = 444, 445, 446
_PR_CAPBSET_DROP: Final = 24
_LAST_CAPABILITY: Final = 63
_NOBODY: Final = 65534
_FIRST_UNUSED_USER: Final = (
    1_900_000_000  # in the range that systemd's table of user numbers leaves to nobody
)


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


def hide_file_system(readable: list[str], hidden: list[str]) -> bool:
    """Swap the root for a read-only one that holds nothing but the readable folders, without the hidden ones.

    Needs a mount namespace. Returns False where the kernel refuses; Landlock works all the same then.
    """
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
        os.chdir(root)
        libc.pivot_root_here()
        _make_read_only([path for path in readable if not os.path.islink(path)])
    except (OSError, KeyError, StopIteration):
        return False
    return True


def _make_read_only(mounts: list[str]) -> None:
    """The whole tree with one call where the kernel has it (5.12), else one mount after the other."""
    flags = libc.MS_RDONLY | libc.MS_NOSUID | libc.MS_NODEV
    attributes = struct.pack("QQQQ", flags, 0, 0, 0)
    with suppress(OSError):
        libc.syscall(
            "mount_setattr", _SYS_MOUNT_SETATTR, _AT_FDCWD, b"/", _AT_RECURSIVE, attributes, len(attributes)
        )
        return
    for path in ["/", *mounts]:
        locked = os.statvfs(path).f_flag & (os.ST_NOEXEC | os.ST_NOATIME | os.ST_NODIRATIME)
        libc.mount("none", path, None, libc.MS_REMOUNT | libc.MS_BIND | flags | locked)


def unused_user() -> int:
    """A user number that no one else has, so that limits which count by user are this worker's own.

    To be called before a process namespace is entered, where process numbers are no longer the machine's.
    """
    return _FIRST_UNUSED_USER + os.getpid()


def drop_privileges(user: int, folders: Iterable[str] = ()) -> None:
    """Give up every capability, for good, and become `user` where we were root.

    Root of a container may not have other users to become, and stays without capabilities; so does root whose
    `folders` would then be out of reach.
    """
    for capability in range(_LAST_CAPABILITY + 1):
        with suppress(OSError):
            libc.prctl(_PR_CAPBSET_DROP, capability)
    if os.geteuid() == 0 and all(map(_open_to_all, folders)):
        with suppress(OSError):
            os.setgroups([])
            os.setresgid(user, user, user)
            os.setresuid(user, user, user)
    libc.drop_capabilities()
    libc.prctl(libc.PR_SET_NO_NEW_PRIVS, 1)


def _open_to_all(folder: str) -> bool:
    """Whether every user can get there."""
    parts = os.path.realpath(folder).split("/")
    return all(os.stat("/".join(parts[:end]) or "/").st_mode & 0o001 for end in range(1, len(parts) + 1))


def die_with_parent() -> None:
    """Be killed when the process that started this one ends."""
    libc.prctl(libc.PR_SET_PDEATHSIG, 9)


def hide_memory() -> None:
    """Not to be traced or dumped by others of the same user."""
    libc.prctl(libc.PR_SET_DUMPABLE, 0)


def restrict_files(readable: list[str]) -> bool:
    """Landlock: from now on only reading, and only below the readable folders. False where there is none."""
    try:
        version = libc.syscall("landlock", _SYS_LANDLOCK_CREATE, None, 0, 1)
        everything = (1 << (13 + min(version - 1, 2))) - 1  # later versions know two rights more
        ruleset = libc.syscall("landlock", _SYS_LANDLOCK_CREATE, struct.pack("Q", everything), 8, 0)
        for path in readable:
            folder = os.open(path, os.O_PATH)
            read_and_list = 1 << 2 | 1 << 3
            rule = struct.pack("=Qi", read_and_list, folder)
            libc.syscall("landlock", _SYS_LANDLOCK_ADD, ruleset, 1, rule, 0)
            os.close(folder)
        libc.syscall("landlock", _SYS_LANDLOCK_RESTRICT, ruleset, 0)
        os.close(ruleset)
    except OSError:
        return False
    return True


Limit = tuple[int, tuple[int, int]]
"""What `setrlimit` takes."""


def limit_resources(limits: Iterable[Limit]) -> None:
    """Set bounds on the process that calls this, which it cannot raise again."""
    for what, bounds in limits:
        resource.setrlimit(what, bounds)


def inherited_limits(memory_bytes: int) -> list[Limit]:
    """Bounds that a worker can live with itself, and that its children have from it."""
    return [
        _limit(resource.RLIMIT_AS, memory_bytes),
        _limit(resource.RLIMIT_CORE, 0),
        _limit(resource.RLIMIT_NOFILE, 64),
        _limit(resource.RLIMIT_MEMLOCK, 0),
    ]


def limits_of_a_child(cpu_s: int) -> list[Limit]:
    """Bounds for a child only: a worker computes for longer, complains into a file, and forks."""
    return [
        _limit(resource.RLIMIT_CPU, cpu_s),
        _limit(resource.RLIMIT_FSIZE, 0),
        _limit(resource.RLIMIT_NPROC, 64),
    ]


def _limit(what: int, most: int) -> Limit:
    _, hard = resource.getrlimit(what)
    bound = most if hard == resource.RLIM_INFINITY else min(most, hard)
    return what, (bound, bound)
