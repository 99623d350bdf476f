"""The Linux calls that Python does not offer. What fails raises OSError and names the call."""

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
_SYS_CLONE3, _NEW_PROCESS_NAMESPACE, _SIGCHLD = 435, 0x20000000, 17
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


def keep_capabilities(kept: Iterable[int] = ()) -> Callable[[], None]:
    """What gives up every other capability for good, when it is called; the lower 32 may be kept."""
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    few = sum(1 << capability for capability in kept)
    return prepared("capset", header, (ctypes.c_uint32 * 6)(few, few))


def prepared_fork(*, inner: int, outer: int) -> Callable[[], int]:
    """A fork whose child is process `inner` of a new process namespace, and known as `outer` in our own one.

    So neither side ever learns a number that depends on who else has started a process or a thread. Python is
    told nothing of this fork: it has to be called in a process with one thread and nothing to do after forks.
    Needs CAP_SYS_ADMIN, and Linux 5.5; failing, it returns -1.
    """
    numbers = (ctypes.c_int * 2)(inner, outer)
    words = (_NEW_PROCESS_NAMESPACE, 0, 0, 0, _SIGCHLD, 0, 0, 0, ctypes.addressof(numbers), len(numbers), 0)
    arguments = (ctypes.c_uint64 * len(words))(*words)
    system_call = ctypes.PyDLL(None).syscall  # which keeps the interpreter's lock

    def fork(_: object = numbers) -> int:  # the numbers must stay where they are
        return int(system_call(_SYS_CLONE3, arguments, ctypes.sizeof(arguments)))

    return fork


def prepared_wait() -> Callable[[], None]:
    """What waits until no child is left, and learns nothing of how they have ended."""
    wait = ctypes.PyDLL(None).waitpid

    def wait_for_all() -> None:
        while wait(-1, None, 0) > 0:
            pass

    return wait_for_all


def prepared_look(path: str) -> Callable[[], bytes]:
    """What the kernel knows of this file: other bytes once it, or what a folder lists, has been changed."""
    system_call, found = ctypes.PyDLL(None).syscall, ctypes.create_string_buffer(256)
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
