"""The Linux calls that Python does not offer. What fails raises OSError and names the call."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from typing import Any

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 0x20, 0x1000, 0x4000, 0x40000
MNT_DETACH = 2

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS = 1, 4, 22, 38

_SYS_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
_CAPABILITY_VERSION_3 = 0x20080522

_libc = ctypes.CDLL(None, use_errno=True)


def call(name: str, *arguments: Any) -> int:
    """Call a function of libc that returns -1 on failure.

    Raises:
        OSError: it failed, or this system has no such function.
    """
    function = getattr(_libc, name, None)
    if function is None:
        raise OSError(f"{name}: not offered by this system")
    return _checked(name, function(*arguments))


def prepared(name: str, *arguments: Any) -> Callable[[], None]:
    """The same call for later, which then takes few steps; numbers are passed as machine words."""
    function, words = getattr(_libc, name), tuple(map(_word, arguments))

    def make() -> None:
        if function(*words) == -1:
            _checked(name, -1)

    return make


def syscall(name: str, number: int, *arguments: Any) -> int:
    """Make a system call that libc has no function for.

    Raises:
        OSError: it failed.
    """
    return _checked(name, _libc.syscall(ctypes.c_long(number), *arguments))


def prctl(option: int, value: Any = 0, extra: Any = 0) -> None:
    """Set something about this process."""
    call("prctl", option, _word(value), _word(extra), _word(0), _word(0))


def mount(source: str, target: str, kind: str | None, flags: int, options: str | None = None) -> None:
    """Mount, remount or bind, as the flags say."""
    call(
        "mount",
        os.fsencode(source),
        os.fsencode(target),
        kind and kind.encode(),
        ctypes.c_ulong(flags),
        options and options.encode(),
    )


def pivot_root_here() -> None:
    """Make the current directory, a mount, the root, and let go of the old one."""
    syscall("pivot_root", _SYS_PIVOT_ROOT[os.uname().machine], b".", b".")
    call("umount2", b".", MNT_DETACH)
    os.chdir("/")


def drop_capabilities() -> None:
    """Give up every capability for good."""
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    call("capset", header, (ctypes.c_uint32 * 6)())


def _word(value: Any) -> Any:
    return ctypes.c_ulong(value) if isinstance(value, int) else value


def _checked(name: str, result: int) -> int:
    if result == -1:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
    return result
