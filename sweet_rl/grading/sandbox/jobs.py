"""Requests to the sandbox, its replies, their bytes on the wire; a clock for each test; results in the order of the jobs.

A test's time is processor time, and wall time in which it could have run. Waiting for a core, or for the disk, is the
machine's doing and not the test's; nor is it one's own while somebody has stopped us or the child. All is seen from
outside, in what the kernel says of the child's threads; nothing of it is the child's own word.
"""

from __future__ import annotations

import itertools
import marshal
import os
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from types import CodeType
from typing import Literal, NamedTuple

from sweet_rl.grading.sandbox.guest.isolation import MOST_THREADS
from sweet_rl.grading.sandbox.guest.run import LENGTH, RESULT
from sweet_rl.grading.sandbox.guest.wire import MAX_TEXT

MAX_VALUE_BYTES, MAX_TEXT_BYTES = 64, MAX_TEXT


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
    "fixed": frozenset({Outcome.VALUE, Outcome.ERROR, Outcome.MEMORY, Outcome.NOT_PLAIN}),
    "published": frozenset({Outcome.PASSED, Outcome.FAILED, Outcome.TIMEOUT, Outcome.ENDED}),
}
"""What a child may say. That its test has passed is not for an answer to say, except in the published way."""


class Program(NamedTuple):
    """A definition and the expressions to evaluate after it.

    Args:
        source: Python code.
        expressions: one for each test.
        own_names: builtins that the definition may replace, since the reference does.
        reference: for the published way, the code whose values are compared with.
        imports: statements that give the expressions names, also where the definition has such names.
        packed: numbers of the tests whose values are to come back as data, in the text, each with the names of
            classes whose objects may be in it.
        classes: names of classes whose objects may be in `data`.
        data: such texts, one for each expression, which finds what is in them (`guest.run.VALUES`).
        is_outside: the definition is a reference, and the data is what an answer has returned.
        returned: what the reference has returned there, as such texts.
    """

    source: str
    expressions: Sequence[str]
    own_names: Sequence[str] = ()
    reference: str = ""
    imports: str = ""
    packed: Mapping[int, Collection[str]] = {}
    classes: Collection[str] = ()
    data: Sequence[str] = ()
    is_outside: bool = False
    returned: Sequence[str] = ()


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

    `inside` is what the calls in a test have given (`guest.wire`), where the test makes something else of it.
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

    def message(self, *, first: int, timeout_s: float) -> bytes:
        """The bytes that a child reads: the tests from number `first` on."""
        programs = [
            one._asdict() | {"expressions": [*map(_compiled, one.expressions)]} for one in self.programs
        ]
        job = {"kind": self.kind, "first": first, "timeout_s": timeout_s, "programs": programs}
        body = marshal.dumps(job)
        return LENGTH.pack(len(body)) + body

    @property
    def size(self) -> int:
        """Number of tests, all programs together."""
        return sum(len(program.expressions) for program in self.programs)

    def program_of(self, test: int) -> range:
        """The numbers of the tests that belong to the same program as this one."""
        start = 0
        for end in itertools.accumulate(len(program.expressions) for program in self.programs):
            if test < end:
                return range(start, end)
            start = end
        raise IndexError(f"test {test} of {start}")


class WakingTime:
    """Seconds in which this process could look after others.

    A stop of it (Ctrl-Z, a frozen container, a closed lid), or a caller who is slow to ask for the
    next result, is no time: nothing that has come meanwhile could be seen.
    """

    def __init__(self) -> None:
        self._seconds, self._seen = 0.0, time.monotonic()

    def now(self, slept_s: float = 0.0) -> float:
        """The time; since the last look we have meant to sleep for so long."""
        seen = time.monotonic()
        self._seconds += min(seen - self._seen, slept_s + _LATE_S)
        self._seen = seen
        return self._seconds


_HELD, _RUNS = frozenset("DTt"), "R"  # by the disk, by whoever has stopped it
_LATE_S = 0.05  # that we may be late for the next look, by our own doing


@dataclass(slots=True)
class TestClock:
    """One test's time. `start` it, `look` now and then.

    Args:
        started: when the test was begun, in waking seconds.
        computed_s: processor time of all of the child's threads since then, at the last look.
        waited_s: time by the clock since then, without that in which it was ready and the machine was not.
        runs: whether it was running, or about to, at the last look.
        threads: how many it had then.
    """

    __test__ = False  # not a pytest class

    started: float = 0.0
    computed_s: float = 0.0
    waited_s: float = 0.0
    runs: bool = False
    threads: int = 0
    _looked: float = 0.0
    _computed_before: float = 0.0
    _delays: dict[str, float] = field(default_factory=dict)

    def start(self, now: float, process: int | None = None) -> None:
        """Start the clock of a test; with the child's number where it has been computing before."""
        self.started = self._looked = now
        self.computed_s = self.waited_s = 0.0
        self._computed_before = _computed(process)
        self._delays = {thread: delay for thread, delay, _ in _seen(_threads(process))}

    def look(self, now: float, process: int | None) -> None:
        """See what has been used until now."""
        names = _threads(process)
        threads = _seen(names)
        passed = now - self._looked
        delays = {thread: delay for thread, delay, _ in threads}
        delayed = max(
            (delay - self._delays.get(thread, 0.0) for thread, delay in delays.items()), default=0.0
        )
        if any(state in _HELD for _, _, state in threads):
            delayed = passed
        self.threads = len(names)
        self.runs = any(state == _RUNS for _, _, state in threads)
        self.waited_s += max(0.0, passed - delayed)
        self.computed_s = _computed(process) - self._computed_before if process is not None else 0.0
        self._delays |= delays
        self._looked = now


def _computed(process: int | None) -> float:
    """Processor time of a process: its clock's number is made from its own (clock_getcpuclockid)."""
    try:
        return time.clock_gettime((~process << 3) | 2) if process is not None else 0.0
    except OSError:
        return 0.0


def _threads(process: int | None) -> list[str]:
    """Where the kernel tells of each thread."""
    folder = f"/proc/{process}/task"
    try:
        return [f"{folder}/{thread}" for thread in os.listdir(folder)] if process is not None else []
    except OSError:
        return []


def _seen(threads: list[str]) -> list[tuple[str, float, str]]:
    """Of each thread its place, the seconds that it has waited for a core (0 if not counted), and its state."""
    found = []
    for thread in threads[:MOST_THREADS]:
        with suppress(OSError, IndexError):  # it has ended meanwhile
            state = Path(f"{thread}/stat").read_text().rpartition(")")[2].split()[0]
            delay = 0.0
            with suppress(OSError):
                delay = int(Path(f"{thread}/schedstat").read_text().split()[1]) * 1e-9
            found.append((thread, delay, state))
    return found


_LOOKAHEAD = 2048  # jobs begun before the oldest unfinished one, which may hang for seconds


@dataclass(slots=True)
class Assignment:
    """A job on its way through one or more children, none to be trusted with more than its own results.

    Args:
        number: its place among all jobs.
        done: results of earlier children.
        before: results of the job of which this one has been made (`Job.then`).
        values: results of the present child.
        hurried_until: tests before this number get less time: one of their program has used up its own.
        watched: whether each result is looked at when it comes, and no longer all of them at the end.
        deaths: workers that have died while they had it, and children that have not taken it.
        clock: what the present test has used.
    """

    number: int
    job: Job
    done: list[TestValue] = field(default_factory=list)
    before: list[TestValue] = field(default_factory=list)
    values: list[TestValue] = field(default_factory=list)
    hurried_until: int = 0
    watched: bool = False
    deaths: int = 0
    clock: TestClock = field(default_factory=TestClock)
    _rest: bytes = b""

    @property
    def next_test(self) -> int:
        """Number of the test that the child is at."""
        return len(self.done) + len(self.values)

    def begin(self, timeout_s: float) -> bytes:
        """What a fresh child is to read: all that is not done."""
        self.values, self._rest, self.watched = [], b"", False
        return self.job.message(first=len(self.done), timeout_s=timeout_s)

    def feed(self, data: bytes) -> None:
        """Take in more bytes of the child's; ValueError where they are not what it may say."""
        data, position, size = self._rest + data, 0, self.job.size
        while position + RESULT.size <= len(data):
            number, outcome, value_size, text_size = RESULT.unpack_from(data, position)
            if (
                number != self.next_test
                or number >= size
                or outcome >= len(_SENT)
                or _SENT[outcome] not in _SENT_BY[self.job.kind]
                or value_size > MAX_VALUE_BYTES
                or text_size > MAX_TEXT_BYTES
            ):
                raise ValueError("not a result")
            start, middle = position + RESULT.size, position + RESULT.size + value_size
            if middle + text_size > len(data):
                break
            position = middle + text_size
            text = data[middle:position].decode("utf-8", "replace")
            self.values.append(TestValue(_SENT[outcome], data[start:middle], text))
        self._rest = data[position:]
        if len(self._rest) > RESULT.size + MAX_VALUE_BYTES + MAX_TEXT_BYTES:
            raise ValueError("more than one result can hold")

    def is_hurried(self) -> bool:
        """Whether the present test gets less time."""
        return self.next_test < self.hurried_until

    def fail(self, value: TestValue) -> None:
        """Set the present test's result, for which the child is to blame.

        Or a program that ran in the child before: one that was not the first there is run again, alone.
        """
        program = self.job.program_of(self.next_test)
        if program.start > len(self.done):
            del self.values[program.start - len(self.done) :]
            return
        if value.outcome is Outcome.TIMEOUT:
            self.hurried_until = program.stop
        self.values.append(value)

    def blame(self, value: TestValue) -> None:
        """Set the results of all remaining tests of the present program, by which workers have died."""
        program = self.job.program_of(self.next_test)
        self.deaths = 0
        self.fail(value)
        if program.start <= len(self.done):  # else it was not alone, and is run again
            self.values.extend([value] * (program.stop - self.next_test))

    def withdraw_crowded(self) -> bool:
        """Take back what ran out of memory behind other programs in the same child: it is run again."""
        if len(self.job.programs) == 1:
            return False
        for number, value in enumerate(self.values, start=len(self.done)):
            if value.outcome is Outcome.MEMORY:
                program = self.job.program_of(number)
                if program.start > len(self.done):
                    del self.values[program.start - len(self.done) :]
                    return True
        return False


class JobQueue:
    """Hands out jobs to workers that are free, and their results in the order of the jobs."""

    def __init__(self, jobs: Iterable[Job]) -> None:
        self._jobs = enumerate(jobs)
        self._waiting: deque[Assignment] = deque()
        self._finished: dict[int, list[TestValue]] = {}
        self._begun = self._yielded = 0
        self._exhausted = False

    def peek(self) -> Assignment | None:
        """What a free worker should do: first what another child has left undone."""
        if not self._waiting and not self._exhausted and self._begun - self._yielded < _LOOKAHEAD:
            number, job = next(self._jobs, (-1, None))
            if job is None:
                self._exhausted = True
            else:
                self._begun += 1
                self._waiting.append(Assignment(number, job))
        return self._waiting[0] if self._waiting else None

    def take(self) -> Assignment:
        """Take what `peek` has shown."""
        return self._waiting.popleft()

    def take_back(self, work: Assignment) -> None:
        """A child is through with this one: with all of its tests, or not."""
        if len(work.done) < work.job.size:
            self._waiting.appendleft(work)
        elif work.job.then is not None and (job := work.job.then(work.done)) is not None:
            self._waiting.appendleft(Assignment(work.number, job, before=work.done))
        else:
            self._finished[work.number] = work.before + work.done

    def results(self) -> Iterator[list[TestValue]]:
        """The results that are next in order and known."""
        while self._yielded in self._finished:
            self._yielded += 1
            yield self._finished.pop(self._yielded - 1)

    def is_done(self) -> bool:
        """Whether every job was started and its results were taken."""
        return self._exhausted and self._yielded == self._begun
