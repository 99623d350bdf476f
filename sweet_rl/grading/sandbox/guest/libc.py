"""Linux calls that Python does not offer. A failure raises OSError and names the call."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterable
from typing import Any

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_NOATIME = 1, 2, 4, 8, 1024
MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 0x20, 0x1000, 0x4000, 0x40000
MNT_DETACH = 2

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS = 1, 4, 22, 38

_SYS_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
_SYS_NEWFSTATAT, _AT_FDCWD = {"x86_64": 262, "aarch64": 79}, -100
_CAPABILITY_VERSION_3 = 0x20080522
_SIGKILL = 9

Step = tuple[Callable[..., Any], tuple[Any, ...]]
"""A call that is made again and again, with all that it needs, in as few pages of memory as possible."""

_libc, _unlocked = ctypes.CDLL(None, use_errno=True), ctypes.PyDLL(None)


def call(name: str, *arguments: Any) -> int:
    """Call a function of libc that returns -1 on failure.

    Raises:
        OSError: it failed, or this system has no such function.
    """
    function = getattr(_libc, name, None)
    if function is None:
        raise OSError(f"{name}: not offered by this system")
    return _checked(name, function(*arguments))


def prepared(name: str, *arguments: Any) -> Step:
    """The same call for `take`. Of a `ctypes` number, what it is by then is passed."""
    return getattr(_unlocked, name), arguments


def take(steps: Iterable[Step]) -> None:
    """Make these calls one after the other. They keep the interpreter's lock.

    Raises:
        OSError: one has failed.
    """
    for function, arguments in steps:
        if function(*arguments) == -1:
            raise OSError(f"{getattr(function, '__name__', function)}: refused")


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


def keep_capabilities(kept: Iterable[int] = ()) -> Step:
    """What gives up every other capability for good, when it is called."""
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    low, high = (
        sum(1 << capability - at for capability in kept if 0 <= capability - at < 32) for at in (0, 32)
    )
    return prepared("capset", header, (ctypes.c_uint32 * 6)(low, low, 0, high, high, 0))


def fork() -> int:
    """Like `os.fork`, but Python does not know of it: for one thread, and nothing to be done after forks."""
    child: int = _unlocked.fork()
    return child


def end(child: int) -> None:
    """Kill it (-1: everybody that may be killed), and wait until no child is left.

    Nothing is learned of how they have ended.
    """
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


def _word(value: Any) -> Any:
    return ctypes.c_ulong(value) if isinstance(value, int) else value


def _checked(name: str, result: int) -> int:
    if result == -1:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
    return result
