"""One warm worker process: started bare, isolated by itself, it forks and kills on request.

The interpreter gets `guest` as compiled code in one message, under its own short name. Read from its files there, it
would be compiled anew wherever there is no up-to-date bytecode beside them; the litter of that, and of the search for
files, lies between the objects that every fork has to copy by the page.
"""

from __future__ import annotations

import importlib
import marshal
import os
import socket
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Collection
from contextlib import suppress
from functools import cache
from importlib.abc import InspectLoader
from pathlib import Path
from types import CodeType

from sweet_rl.errors import SandboxError
from sweet_rl.grading.sandbox.guest.run import NEXT, READY, RETIRED

MODULES = ("", ".values", ".crossing", ".isolation", ".seccomp", ".run")
"""All of the guest, each after those that it imports."""

_START = """
import _socket, marshal, sys, types
control = _socket.socket(fileno={descriptor})
modules, settings = marshal.loads(control.recv(1 << 20))
for name, code in modules:
    module = sys.modules[name] = types.ModuleType(name)
    module.__package__ = "guest"
    module.__path__ = []
    setattr(sys.modules["guest"], name.rpartition(".")[2], module)
    exec(code, vars(module))
del modules, code, module
sys.modules["guest.run"].main(control, settings)
"""


def start_code(descriptor: int) -> str:
    """What the interpreter is to run that has inherited the control socket under this number."""
    return _START.format(descriptor=descriptor)


@cache
def _guest() -> list[tuple[str, CodeType]]:
    """Names and code of the modules that this code reads from the control socket, before the settings."""
    found = []
    for module in MODULES:
        name = f"sweet_rl.grading.sandbox.guest{module}"
        spec = importlib.import_module(name).__spec__
        loader = spec.loader if spec is not None else None
        code = loader.get_code(name) if isinstance(loader, InspectLoader) else None
        if code is None:
            raise ImportError(
                f"The sandbox needs the code of {name}, and {loader} has none to give.", name=name
            )
        found.append((f"guest{module}", code))
    return found


def children_of(process: int) -> list[int]:
    """The processes that this one has started."""
    with suppress(OSError):
        return [int(child) for child in Path(f"/proc/{process}/task/{process}/children").read_text().split()]
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):  # a kernel without that file: ask everybody
        with suppress(OSError, IndexError):
            if int(stat.read_text().rpartition(")")[2].split()[1]) == process:
                found.append(int(stat.parent.name))
    return found


PATIENCE_S = 60.0
"""For a worker to come up or to have its next child ready, and for a child to take its job."""

ENDS_S = 5.0
"""For a process that has been told to end."""


def default_workers() -> int:
    """One for each core that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def check_protection(layers: Collection[str], *, unsafe: bool) -> None:
    """Refuse to run hostile code with too little around it."""
    ways = {
        "files": {"mount", "Landlock"},
        "the network": {"network", "seccomp"},
        "other processes": {"process", "seccomp"},
    }
    missing = [what for what, some in ways.items() if some.isdisjoint(layers)]
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
        with suppress(OSError):  # it has ended already: `layers` reports its output
            self.control.send(marshal.dumps((_guest(), settings)))

    def layers(self) -> list[str]:
        """The protection that is active inside; waits until the worker is up."""
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
        with suppress(OSError):
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
        with suppress(OSError, ValueError):
            self._stderr.seek(0)
            return self._stderr.read().decode("utf-8", "replace").strip()[-500:]
        return ""

    def close(self, patience_s: float = ENDS_S) -> None:
        """End the worker and everything that it has forked; what not even SIGKILL ends is left to the kernel."""
        self.control.close()
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
    kept: list[str] = []
    for folder in filter(os.path.isdir, folders):
        place = os.path.realpath(folder)
        if not any(f"{place}/".startswith(f"{other}/") and not os.path.islink(other) for other in kept):
            kept.append(folder)
    return kept
