"""One warm worker process, the jobs that it is given, and the clock over each of their tests.

A worker is started bare, isolates itself, and forks and kills on request. It gets `guest` as compiled code in one
message: what reading files leaves behind in memory would lie between the objects that every fork has to copy.
"""

from __future__ import annotations

import importlib
import itertools
import marshal
import os
import socket
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache, lru_cache
from importlib.abc import InspectLoader
from pathlib import Path
from types import CodeType
from typing import Literal, NamedTuple

from sweet_rl.errors import SandboxError
from sweet_rl.grading.sandbox.guest.isolation import MOST_THREADS
from sweet_rl.grading.sandbox.guest.run import LENGTH, NEXT, READY, RESULT, RETIRED
from sweet_rl.grading.sandbox.guest.values import MAX_TEXT

MODULES = ("", ".values", ".crossing", ".isolation", ".seccomp", ".run")
"""All of the guest, each after those that it imports."""

PATIENCE_S = 60.0
"""For a worker to come up or to have its next child ready, and for a child to take its job."""

ENDS_S = 5.0
"""For a process that has been told to end."""

_MAX_VALUE_BYTES = 64

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


class Outcome(StrEnum):
    """The result of one test. The first eight are sent from inside, in this order; we see the rest."""

    PASSED = "passed"
    FAILED = "failed"
    VALUE = "value"
    ERROR = "error"
    MEMORY = "memory"
    NOT_PLAIN = "not_plain_data"
    TIMEOUT = "timeout"
    ENDED = "ended"
    CRASH = "crash"


_SENT = tuple(Outcome)
_SENT_BY = {
    "fixed": {Outcome.VALUE, Outcome.ERROR, Outcome.MEMORY, Outcome.NOT_PLAIN},
    "published": {Outcome.PASSED, Outcome.FAILED, Outcome.TIMEOUT, Outcome.ENDED},
}
"""What a child may say. That its test has passed is not for an answer to say, except in the published way."""


class Program(NamedTuple):
    """A definition and the expressions to evaluate after it, one for each test.

    Args:
        own_names: builtins that the definition may replace, since the reference does.
        reference: for the published way, the code whose values are compared with.
        imports: statements that give the expressions names, also where the definition has such names.
        packed: numbers of the tests whose values come back in full, as literals, each with the names of classes whose
            objects may be in it.
        data: of expressions that are evaluated outside, what an answer has returned (`guest.run.VALUES`).
        returned: what the reference has returned there.
        classes: names of the classes whose objects may be in these.
    """

    source: str
    expressions: Sequence[str]
    own_names: Sequence[str] = ()
    reference: str = ""
    imports: str = ""
    packed: Mapping[int, Collection[str]] = {}
    data: Sequence[str] = ()
    returned: Sequence[str] = ()
    classes: Collection[str] = ()


@lru_cache(maxsize=100_000)
def _compiled(expression: str) -> CodeType | str:
    """A test's code, compiled once for its reference and all answers; the text where that is not possible."""
    expression = expression.lstrip(" \t")
    try:
        return compile(expression, "<test>", "eval", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return expression


@dataclass(frozen=True, slots=True)
class TestValue:
    """One test's result: `fingerprint` for `Outcome.VALUE`, and text (a literal, or what went wrong).

    `inside` is the tuple of what the calls in a test returned (a literal), where the test makes something else of it; the other
    fields are then of what it makes.
    """

    __test__ = False  # not a pytest class

    outcome: Outcome
    fingerprint: bytes = b""
    text: str = ""
    inside: str = ""


@dataclass(frozen=True, slots=True)
class Job:
    """What one child process does. Only programs that may know of each other belong in one job.

    `then` makes another job of the results, if there is more to be found out, for another process.
    """

    kind: Literal["fixed", "published"]
    programs: Sequence[Program]
    then: Callable[[Sequence[TestValue]], Job | None] | None = None

    @property
    def size(self) -> int:
        """Number of tests, all programs together."""
        return sum(len(program.expressions) for program in self.programs)


@dataclass(slots=True)
class TestClock:
    """One test's time: `start` it, in waking seconds, and `look` now and then.

    Its time is processor time, and wall time in which it could have run. Waiting for a core, or for the disk, is the
    machine's doing and not the test's; nor is it one's own while somebody has stopped us or the child. All is seen from
    outside, in what the kernel says of the child's threads; nothing of it is the child's own word.
    """

    __test__ = False  # not a pytest class

    started: float = 0.0
    computed_s: float = 0.0  # processor time of all of the child's threads
    waited_s: float = 0.0  # by the clock, without that in which it was ready and the machine was not
    runs: bool = False  # at the last look, or about to
    threads: int = 0
    _looked: float = 0.0
    _computed_before: float = 0.0
    _delays: dict[str, float] = field(default_factory=dict)

    def start(self, now: float, process: int | None = None) -> None:
        """Start the clock of a test; with the child's number where it has been computing before."""
        self.started = self._looked = now
        self.computed_s = self.waited_s = 0.0
        self._computed_before, _, seen = _looked_at(process)
        self._delays = {thread: delay for thread, (delay, _) in seen.items()}

    def look(self, now: float, process: int | None) -> None:
        """See what has been used until now."""
        computed_s, self.threads, seen = _looked_at(process)
        passed, states = now - self._looked, {state for _, state in seen.values()}
        delayed = max((delay - self._delays.get(at, 0.0) for at, (delay, _) in seen.items()), default=0.0)
        if states & {"D", "T", "t"}:  # held by the disk, by whoever has stopped it
            delayed = passed
        self.runs = "R" in states
        self.waited_s += max(0.0, passed - delayed)
        self.computed_s = computed_s - self._computed_before if process is not None else 0.0
        self._delays |= {thread: delay for thread, (delay, _) in seen.items()}
        self._looked = now


def _looked_at(process: int | None) -> tuple[float, int, dict[str, tuple[float, str]]]:
    """Its processor time and number of threads; of each the seconds that it has waited for a core, and its state."""
    computed_s, threads, seen = 0.0, list[str](), dict[str, tuple[float, str]]()
    if process is None:
        return 0.0, 0, seen
    with suppress(OSError):  # a clock's number is made from its process's own (clock_getcpuclockid)
        computed_s = time.clock_gettime((~process << 3) | 2)
    with suppress(OSError):
        threads = os.listdir(f"/proc/{process}/task")
    for thread in threads[:MOST_THREADS]:
        place, delay = Path(f"/proc/{process}/task/{thread}"), 0.0
        with suppress(OSError, IndexError):  # it has ended meanwhile
            state = (place / "stat").read_text().rpartition(")")[2].split()[0]
            with suppress(OSError):  # not counted
                delay = int((place / "schedstat").read_text().split()[1]) * 1e-9
            seen[thread] = delay, state
    return computed_s, len(threads), seen


@dataclass(slots=True)
class Assignment:
    """A job on its way through one or more children, none to be trusted with more than its own results."""

    number: int
    job: Job
    done: list[TestValue] = field(default_factory=list)  # results of earlier children
    before: list[TestValue] = field(default_factory=list)  # of the job whose `Job.then` has made this one
    values: list[TestValue] = field(default_factory=list)  # of the present child
    hurried_until: int = 0  # tests before get less time: one of their program has used up its own
    watched: bool = False  # each result is looked at when it comes, no longer all of them at the end
    deaths: int = 0  # of workers while they had it, and of children that have not taken it
    clock: TestClock = field(default_factory=TestClock)
    _rest: bytes = b""

    @property
    def next_test(self) -> int:
        """Number of the test that the child is at."""
        return len(self.done) + len(self.values)

    @property
    def is_hurried(self) -> bool:
        """Whether the present test gets less time."""
        return self.next_test < self.hurried_until

    def begin(self, timeout_s: float) -> bytes:
        """What a fresh child is to read: all that is not done."""
        self.values, self._rest, self.watched = [], b"", False
        programs = [
            one._asdict() | {"expressions": [*map(_compiled, one.expressions)]} for one in self.job.programs
        ]
        first = {"first": len(self.done), "timeout_s": timeout_s, "programs": programs}
        body = marshal.dumps({"kind": self.job.kind} | first)
        return LENGTH.pack(len(body)) + body

    def feed(self, data: bytes) -> None:
        """Take in more bytes of the child's; ValueError where they are not what it may say."""
        data, position, size = self._rest + data, 0, self.job.size
        while position + RESULT.size <= len(data):
            number, outcome, value_size, text_size = RESULT.unpack_from(data, position)
            is_next = number == self.next_test and number < size
            may_be_said = outcome < len(_SENT) and _SENT[outcome] in _SENT_BY[self.job.kind]
            if not is_next or not may_be_said or value_size > _MAX_VALUE_BYTES or text_size > MAX_TEXT:
                raise ValueError("not a result")
            start, middle = position + RESULT.size, position + RESULT.size + value_size
            if middle + text_size > len(data):
                break
            position = middle + text_size
            text = data[middle:position].decode("utf-8", "replace")
            self.values.append(TestValue(_SENT[outcome], data[start:middle], text))
        self._rest = data[position:]
        if len(self._rest) > RESULT.size + _MAX_VALUE_BYTES + MAX_TEXT:
            raise ValueError("more than one result can hold")

    def fail(self, value: TestValue, *, whole_program: bool = False) -> None:
        """Set the result of the present test, or of all that remain of its program: the child is to blame.

        Or a program that ran in the child before: one that was not the first there is run again, alone.
        """
        program = self._program_of(self.next_test)
        if program.start > len(self.done):
            del self.values[program.start - len(self.done) :]
            return
        if value.outcome is Outcome.TIMEOUT:
            self.hurried_until = program.stop
        self.values += [value] * (program.stop - self.next_test if whole_program else 1)

    def withdraw_crowded(self) -> bool:
        """Take back what ran out of memory behind other programs in the same child: it is run again."""
        for number, value in enumerate(self.values, start=len(self.done)):
            start = self._program_of(number).start - len(self.done)
            if value.outcome is Outcome.MEMORY and start > 0:
                del self.values[start:]
                return True
        return False

    def _program_of(self, test: int) -> range:
        """The numbers of the tests that belong to the same program as this one."""
        ends = itertools.accumulate((len(one.expressions) for one in self.job.programs), initial=0)
        return next(range(start, end) for start, end in itertools.pairwise(ends) if test < end)


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


class Worker:
    """The process, seen from outside, and what it is doing.

    At `deadline`, in waking seconds, its test is looked at; or it has to be up, to have a new child, or to have given
    the child its job, or it is replaced.

    Args:
        memory_bytes: address space of each child.
        cpu_s: computing time after which the kernel ends a child, whatever happens here.
    """

    def __init__(self, memory_bytes: int, cpu_s: int) -> None:
        self._limits = {"memory_bytes": memory_bytes, "cpu_s": cpu_s}
        self.deadline, self.is_trusted = 0.0, True
        self.channel: socket.socket | None = None
        self.work: Assignment | None = None
        self.unsent = memoryview(b"")  # of the job
        self.start()

    def start(self) -> None:
        """Start the process, or another one in the place of one that was closed: it has seen nothing."""
        self.is_up = self.has_seen_references = self.retired = self._inner = False
        self.control, inner = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the worker
        hidden = [
            str(Path(__file__).resolve().parents[2])
        ]  # its mini benchmark generates tasks with their answers
        settings = {"readable": readable_folders(), "hidden": hidden, "path": import_path(), **self._limits}
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
