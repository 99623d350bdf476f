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
from sweet_rl.grading.sandbox.guest.values import MAX_TEXT

MAX_VALUE_BYTES, MAX_TEXT_BYTES = 64, MAX_TEXT
_LATE_S = 0.05  # that we may be late for the next look, by our own doing
_LOOKAHEAD = 2048  # jobs begun before the oldest unfinished one, which may hang for seconds


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

    `inside` is what the calls in a test have given (a literal), where the test makes something else of it.
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

    def program_of(self, test: int) -> range:
        """The numbers of the tests that belong to the same program as this one."""
        ends = [0, *itertools.accumulate(len(program.expressions) for program in self.programs)]
        return next(range(start, end) for start, end in itertools.pairwise(ends) if test < end)


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


@dataclass(slots=True)
class TestClock:
    """One test's time: `start` it, in waking seconds, and `look` now and then."""

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
    before: list[TestValue] = field(
        default_factory=list
    )  # of the job of which this one was made (`Job.then`)
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

    def fail(self, value: TestValue, *, whole_program: bool = False) -> None:
        """Set the result of the present test, or of all that remain of its program: the child is to blame.

        Or a program that ran in the child before: one that was not the first there is run again, alone.
        """
        program = self.job.program_of(self.next_test)
        if program.start > len(self.done):
            del self.values[program.start - len(self.done) :]
            return
        if value.outcome is Outcome.TIMEOUT:
            self.hurried_until = program.stop
        self.values += [value] * (program.stop - self.next_test if whole_program else 1)

    def withdraw_crowded(self) -> bool:
        """Take back what ran out of memory behind other programs in the same child: it is run again."""
        for number, value in enumerate(self.values, start=len(self.done)):
            if value.outcome is Outcome.MEMORY:
                start = self.job.program_of(number).start - len(self.done)
                if start > 0:
                    del self.values[start:]
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
