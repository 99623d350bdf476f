"""One warm worker process: started bare, isolated by itself; it forks and kills on request."""

from __future__ import annotations

import contextlib
import marshal
import os
import socket
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Collection, Sequence
from functools import cache
from pathlib import Path

from sweet_rl.errors import SandboxError
from sweet_rl.grading.sandbox.bootstrap import first_message, start_code
from sweet_rl.grading.sandbox.clock import children_of
from sweet_rl.grading.sandbox.guest.zygote import NEXT, READY, RETIRED

PATIENCE_S = 60.0
"""For a worker to come up or to have its next child ready, and for a child to take its job."""

ENDS_S = 5.0
"""For a process that has been told to end."""


def default_workers() -> int:
    """One for each core that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def check_protection(layers: Collection[str], *, unsafe: bool) -> None:
    """Refuse to run hostile code with too little around it.

    Raises:
        SandboxError: files, network or other processes are not out of reach, and `unsafe` is not set.
    """
    missing = [
        what
        for what, ways in (
            ("files", {"mount", "Landlock"}),
            ("the network", {"network", "seccomp"}),
            ("other processes", {"process", "seccomp"}),
        )
        if ways.isdisjoint(layers)
    ]
    if missing and not unsafe:
        raise SandboxError(
            f"Answers cannot be kept away from {', '.join(missing)} here (active: {', '.join(layers)}). "
            "On Linux, allow user namespaces (sysctl kernel.unprivileged_userns_clone=1, or "
            "kernel.apparmor_restrict_unprivileged_userns=0), or use a kernel with Landlock (5.13 or newer). "
            "--unsafe_no_sandbox runs the answers all the same: only for code that you trust."
        )


class WorkerProcess:
    """The process, seen from outside.

    Args:
        memory_bytes: address space of each child.
        cpu_s: computing time after which the kernel ends a child, whatever happens here.
    """

    def __init__(self, memory_bytes: int, cpu_s: int) -> None:
        if not sys.platform.startswith("linux"):
            raise SandboxError(
                f"The sandbox needs Linux, this is {sys.platform}. Grade on Linux, or in a container."
            )
        self.retired = self._inner = False
        self.control, inner = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the worker
        settings = {
            "readable": readable_folders(),
            # its mini benchmark generates tasks with their answers
            "hidden": [str(Path(__file__).resolve().parents[2])],
            "path": import_path(),
            "memory_bytes": memory_bytes,
            "cpu_s": cpu_s,
        }
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-S", "-s", "-P", "-B", "-c", start_code(inner.fileno())],
                env={
                    "PYTHONHASHSEED": "0",
                    "LD_BIND_NOW": "1",
                    "MALLOC_ARENA_MAX": "1",  # others would take address space, 64 MiB for each thread
                    "OPENBLAS_NUM_THREADS": "1",
                    "OMP_NUM_THREADS": "1",
                },
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._stderr,
                pass_fds=[inner.fileno()],
            )
        finally:
            inner.close()
        with contextlib.suppress(OSError):  # it has ended already: `layers` reports its output
            self.control.send(first_message(settings))

    def layers(self) -> list[str]:
        """The protection that is active inside; waits until the worker is up.

        Raises:
            SandboxError: it does not start; carries its output.
        """
        self.control.settimeout(PATIENCE_S)
        try:
            message = self.control.recv(4096)
        except TimeoutError:
            message = b""
        self.control.setblocking(False)
        if not message:
            raise SandboxError(f"The sandbox does not start: {self.last_words() or 'it printed nothing'}")
        layers = [str(layer) for layer in marshal.loads(message)]  # noqa: S302 - sent before any answer ran
        self._inner = "process" in layers  # then it has forked once more
        return layers

    def next_child(self) -> socket.socket | None:
        """The channel of the child that is ready; None when there is none and will be none.

        The worker has died then, or it is `retired`: its last child has left files, which no other may see.
        """
        try:
            message, descriptors, _, _ = socket.recv_fds(self.control, len(READY), 1)
        except OSError:
            return None
        self.retired = message == RETIRED
        return socket.socket(fileno=descriptors[0]) if descriptors else None

    def child_number(self) -> int | None:
        """The present child's process number, as this process sees it; None where it cannot be found."""
        zygote = children_of(self._process.pid) if self._inner else [self._process.pid]
        found = children_of(zygote[0]) if zygote else []
        return found[0] if found else None

    def end_child(self) -> None:
        """End the present child, for the next one."""
        with contextlib.suppress(OSError):
            self.control.send(NEXT)

    def has_died(self) -> bool:
        """Whether nothing more can come from it."""
        try:
            return not self.control.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except OSError:
            return True

    def last_words(self) -> str:
        """The end of what the worker wrote to standard error."""
        with contextlib.suppress(OSError, ValueError):
            self._stderr.seek(0)
            return self._stderr.read().decode("utf-8", "replace").strip()[-500:]
        return ""

    def hang_up(self) -> None:
        """Let the worker end, without waiting for that."""
        self.control.close()

    def close(self, patience_s: float = ENDS_S) -> None:
        """End the worker and everything that it has forked; what not even SIGKILL ends is left to the kernel."""
        self.hang_up()
        for wait_s in (patience_s, ENDS_S):
            try:
                self._process.wait(timeout=wait_s)
                break
            except subprocess.TimeoutExpired:
                self._process.kill()
        self._stderr.close()


@cache
def import_path() -> list[str]:
    """Where graded code may import from: the standard library and installed packages."""
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    paths = [os.path.realpath(sysconfig.get_path(name)) for name in names]  # a root of its own has no links
    paths += [str(Path(path) / "lib-dynload") for path in paths[:2]]
    return list(dict.fromkeys(path for path in paths if Path(path).is_dir()))


@cache
def readable_folders() -> list[str]:
    """The interpreter, its packages and the system's shared libraries: all that graded code may read."""
    system = [path for path in ("/lib", "/lib64", "/usr/lib", "/usr/lib64") if Path(path).is_dir()]
    shared = [str(sysconfig.get_config_var("LIBDIR") or "")]
    folders = sorted({*system, *(os.path.realpath(path) for path in [*import_path(), *shared] if path)})
    return _outermost([folder for folder in folders if Path(folder).is_dir()])


def _outermost(folders: Sequence[str]) -> list[str]:
    kept: list[str] = []
    for folder in folders:
        if not any(_is_below(folder, other) and not Path(other).is_symlink() for other in kept):
            kept.append(folder)
    return kept


def _is_below(path: str, folder: str) -> bool:
    return os.path.realpath(path) == folder or os.path.realpath(path).startswith(folder + "/")
