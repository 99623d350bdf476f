"""Cutting a process off from the machine, with what the kernel offers and the user may use.

Each layer is tried on its own and reported; what must be there is decided outside (`sweet_rl.grading.sandbox`).
Namespaces take away the file system, the network and other processes; Landlock takes away files where mount
namespaces are missing; seccomp and resource limits bound what is left.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import struct
from typing import Final

_NEWNS, _NEWCGROUP, _NEWUTS, _NEWIPC = 0x00020000, 0x02000000, 0x04000000, 0x08000000
_NEWUSER, _NEWPID, _NEWNET = 0x10000000, 0x20000000, 0x40000000
_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_REMOUNT, _MS_BIND = 1, 2, 4, 32, 4096
_MS_REC, _MS_PRIVATE, _MNT_DETACH = 16384, 1 << 18, 2
_SYS_PIVOT_ROOT: Final = {"x86_64": 155, "aarch64": 41}
_SYS_MOUNT_SETATTR, _AT_RECURSIVE = 442, 0x8000
_SYS_LANDLOCK_CREATE, _SYS_LANDLOCK_ADD, _SYS_LANDLOCK_RESTRICT = 444, 445, 446
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS = 1, 4, 24, 38
_NOBODY: Final = 65534

_libc = ctypes.CDLL(None, use_errno=True)


def enter_namespaces() -> list[str]:
    """Leave the machine's namespaces; the next child is process 1 of a new process namespace.

    Root does it directly, an ordinary user inside a new user namespace. Returns what was left behind.
    """
    wanted = _NEWNS | _NEWPID | _NEWNET | _NEWIPC | _NEWUTS | _NEWCGROUP
    names = ["mount", "process", "network", "ipc", "host name", "cgroup"]
    if os.geteuid() == 0 and _libc.unshare(wanted) == 0:
        return names
    user, group = os.geteuid(), os.getegid()
    if _libc.unshare(wanted | _NEWUSER) != 0:
        return []
    for name, content in (
        ("setgroups", "deny"),
        ("uid_map", f"{_NOBODY} {user} 1"),
        ("gid_map", f"{_NOBODY} {group} 1"),
    ):
        with open(f"/proc/self/{name}", "w") as file:  # noqa: PTH123
            file.write(content)
    return ["user", *names]


def hide_file_system(readable: list[str]) -> bool:
    """Swap the root for an empty read-only one that holds nothing but the readable folders.

    Needs a mount namespace. Returns False where the kernel refuses; nothing has changed then that matters to
    Landlock.
    """
    try:
        _mount("none", "/", None, _MS_REC | _MS_PRIVATE)
        root = next(path for path in ("/sys", "/proc", "/mnt") if os.path.isdir(path))  # noqa: PTH112
        _mount("sandbox", root, "tmpfs", _MS_NOSUID | _MS_NODEV, "size=1m,mode=755")
        for path in readable:
            target = root + path
            if os.path.islink(path):  # noqa: PTH114
                os.symlink(os.readlink(path), target)  # noqa: PTH115, PTH211
                continue
            os.makedirs(target, exist_ok=True)  # noqa: PTH103
            _mount(path, target, None, _MS_BIND | _MS_REC)
        os.chdir(root)
        _check(_libc.syscall(_SYS_PIVOT_ROOT[os.uname().machine], b".", b"."), "pivot_root")
        _check(_libc.umount2(b".", _MNT_DETACH), "umount2")
        os.chdir("/")
        _make_read_only(readable)
    except (OSError, KeyError, StopIteration):
        return False
    return True


def _make_read_only(readable: list[str]) -> None:
    attributes = struct.pack("QQQQ", _MS_RDONLY | _MS_NOSUID | _MS_NODEV, 0, 0, 0)
    at_fdcwd = -100
    done = _libc.syscall(_SYS_MOUNT_SETATTR, at_fdcwd, b"/", _AT_RECURSIVE, attributes, len(attributes))
    if done == 0:
        return
    for path in ["/", *(path for path in readable if not os.path.islink(path))]:  # noqa: PTH114
        flags = _MS_REMOUNT | _MS_BIND | _MS_RDONLY | _MS_NOSUID | _MS_NODEV
        flags |= os.statvfs(path).f_flag & (8 | 1024 | 2048)  # noexec, noatime, nodiratime are locked
        _mount("none", path, None, flags)


def drop_privileges() -> None:
    """Become nobody where we were root, and give up every capability, for good."""
    for capability in range(64):
        _libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
    if os.geteuid() == 0:
        with contextlib.suppress(OSError):
            os.setgroups([])
        os.setresgid(_NOBODY, _NOBODY, _NOBODY)
        os.setresuid(_NOBODY, _NOBODY, _NOBODY)
    header = struct.pack("II", 0x20080522, 0)
    _libc.capset(header, struct.pack("IIIIII", 0, 0, 0, 0, 0, 0))
    _check(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")


def die_with_parent() -> None:
    """Be killed when the process that started this one ends."""
    _libc.prctl(_PR_SET_PDEATHSIG, 9, 0, 0, 0)


def restrict_files(readable: list[str]) -> bool:
    """Landlock: from now on only reading, and only below the readable folders. False where there is none."""
    version = _libc.syscall(_SYS_LANDLOCK_CREATE, None, 0, 1)
    if version < 1:
        return False
    everything = (1 << 13) - 1 | (1 << 13 if version >= 2 else 0) | (1 << 14 if version >= 3 else 0)
    ruleset = _libc.syscall(_SYS_LANDLOCK_CREATE, struct.pack("Q", everything), 8, 0)
    if ruleset < 0:
        return False
    read = 1 << 2 | 1 << 3  # read files, list folders
    for path in readable:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
        rule = struct.pack("=Qi", read, descriptor)
        _libc.syscall(_SYS_LANDLOCK_ADD, ruleset, 1, rule, 0)
        os.close(descriptor)
    done: int = _libc.syscall(_SYS_LANDLOCK_RESTRICT, ruleset, 0)
    os.close(ruleset)
    return done == 0


def limit_resources(memory_bytes: int, cpu_s: int) -> None:
    """Bounds that hold for the process that calls this, and that it cannot raise again."""
    for what, most in (
        (resource.RLIMIT_AS, memory_bytes),
        (resource.RLIMIT_CPU, cpu_s),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, 64),
        (resource.RLIMIT_NPROC, 64),
        (resource.RLIMIT_MEMLOCK, 0),
    ):
        _, hard = resource.getrlimit(what)
        bound = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(what, (bound, bound))


def hide_memory() -> None:
    """Not to be traced or dumped by others of the same user."""
    _libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def _mount(source: str, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    encoded = [text.encode() if text is not None else None for text in (source, target, kind, data)]
    result = _libc.mount(encoded[0], encoded[1], encoded[2], ctypes.c_ulong(flags), encoded[3])
    _check(result, f"mount {target}")


def _check(result: int, what: str) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), what)
