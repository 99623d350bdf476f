"""Requests to the sandbox, its replies, their bytes on the wire; what is left of each job, and results in order."""

from __future__ import annotations

import itertools
import marshal
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from types import CodeType
from typing import Literal

from sweet_rl.grading.sandbox.guest.run import LENGTH, RESULT
from sweet_rl.grading.sandbox.guest.wire import MAX_TEXT
from sweet_rl.grading.sandbox.worker import TestClock

MAX_VALUE_BYTES = 64
MAX_TEXT_BYTES = MAX_TEXT


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


@dataclass(frozen=True, slots=True)
class Program:
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
        data: such texts, one for each expression, which finds what is in them (`guest.programs.VALUES`).
        is_outside: the definition is a reference, and the data is what an answer has returned.
        returned: what the reference has returned there, as such texts.
    """

    source: str
    expressions: Sequence[str]
    own_names: Sequence[str] = ()
    reference: str = ""
    imports: str = ""
    packed: Mapping[int, Collection[str]] = field(default_factory=dict)
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
class Job:
    """What one child process does. Only programs that may know of each other belong in one job.

    `then` makes another job of the results, if there is more to be found out, for another process.
    """

    kind: Literal["fixed", "published"]
    programs: Sequence[Program]
    then: Callable[[Sequence[TestValue]], Job | None] | None = None

    def message(self, *, first: int, timeout_s: float) -> bytes:
        """The bytes that a child reads: the tests from number `first` on."""
        body = marshal.dumps(
            {
                "kind": self.kind,
                "first": first,
                "timeout_s": timeout_s,
                "programs": [
                    {
                        "source": program.source,
                        "reference": program.reference,
                        "expressions": [_compiled(expression) for expression in program.expressions],
                        "own_names": set(program.own_names),
                        "imports": program.imports,
                        "packed": {number: set(names) for number, names in program.packed.items()},
                        "classes": set(program.classes),
                        "data": list(program.data),
                        "is_outside": program.is_outside,
                        "returned": list(program.returned),
                    }
                    for program in self.programs
                ],
            }
        )
        return LENGTH.pack(len(body)) + body

    @property
    def size(self) -> int:
        """Number of tests, all programs together."""
        return sum(len(program.expressions) for program in self.programs)

    def program_of(self, test: int) -> range:
        """The numbers of the tests that belong to the same program as this one."""
        ends = itertools.accumulate(len(program.expressions) for program in self.programs)
        start = 0
        for end in ends:
            if test < end:
                return range(start, end)
            start = end
        raise IndexError(f"test {test} of {start}")


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


@dataclass(slots=True)
class Reply:
    """What a child has sent so far. It is not to be trusted with more than its own results."""

    first: int
    size: int
    kind: Literal["fixed", "published"] = "fixed"
    values: list[TestValue] = field(default_factory=list)
    _rest: bytes = b""

    def feed(self, data: bytes) -> None:
        """Take in more bytes."""
        self._rest += data
        end = 0
        for value, end in self._read(self._rest):  # noqa: B007 - the last end is used below
            self.values.append(value)
        self._rest = self._rest[end:]
        if len(self._rest) > RESULT.size + MAX_VALUE_BYTES + MAX_TEXT_BYTES:
            raise ValueError("more than one result can hold")

    def _read(self, data: bytes) -> Iterator[tuple[TestValue, int]]:
        position, expected = 0, self.first + len(self.values)
        while position + RESULT.size <= len(data):
            number, outcome, value_size, text_size = RESULT.unpack_from(data, position)
            if (
                number != expected
                or number >= self.size
                or outcome >= len(_SENT)
                or _SENT[outcome] not in _SENT_BY[self.kind]
                or value_size > MAX_VALUE_BYTES
                or text_size > MAX_TEXT_BYTES
            ):
                raise ValueError("not a result")
            start, middle = position + RESULT.size, position + RESULT.size + value_size
            end = middle + text_size
            if end > len(data):
                return
            text = data[middle:end].decode("utf-8", "replace")
            yield TestValue(_SENT[outcome], data[start:middle], text), end
            position, expected = end, expected + 1


_LOOKAHEAD = 2048  # jobs begun before the oldest unfinished one, which may hang for seconds


@dataclass(slots=True)
class Assignment:
    """A job on its way through one or more children.

    Args:
        number: its place among all jobs.
        done: results of earlier children.
        before: results of the job of which this one has been made (`Job.then`).
        reply: what the present child has sent.
        hurried_until: tests before this number get less time: one of their program has used up its own.
        watched: whether each result is looked at when it comes, and no longer all of them at the end.
        deaths: workers that have died while they had it, and children that have not taken it.
        clock: what the present test has used.
    """

    number: int
    job: Job
    done: list[TestValue] = field(default_factory=list)
    before: list[TestValue] = field(default_factory=list)
    reply: Reply = field(default_factory=lambda: Reply(0, 0))
    hurried_until: int = 0
    watched: bool = False
    deaths: int = 0
    clock: TestClock = field(default_factory=TestClock)

    @property
    def next_test(self) -> int:
        """Number of the test that the child is at."""
        return len(self.done) + len(self.reply.values)

    def is_hurried(self) -> bool:
        """Whether the present test gets less time."""
        return self.next_test < self.hurried_until

    def fail(self, value: TestValue) -> None:
        """Set the present test's result, for which the child is to blame.

        Or a program that ran in the child before: one that was not the first there is run again, alone.
        """
        program = self.job.program_of(self.next_test)
        if program.start > self.reply.first:
            del self.reply.values[program.start - self.reply.first :]
            return
        if value.outcome is Outcome.TIMEOUT:
            self.hurried_until = program.stop
        self.reply.values.append(value)

    def blame(self, value: TestValue) -> None:
        """Set the results of all remaining tests of the present program, by which workers have died."""
        program = self.job.program_of(self.next_test)
        self.deaths = 0
        self.fail(value)
        if program.start <= self.reply.first:  # else it was not alone, and is run again
            self.reply.values.extend([value] * (program.stop - self.next_test))

    def withdraw_crowded(self) -> bool:
        """Take back what ran out of memory behind other programs in the same child: it is run again."""
        if len(self.job.programs) == 1:
            return False
        for number, value in enumerate(self.reply.values, start=self.reply.first):
            if value.outcome is Outcome.MEMORY:
                program = self.job.program_of(number)
                if program.start > self.reply.first:
                    del self.reply.values[program.start - self.reply.first :]
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
