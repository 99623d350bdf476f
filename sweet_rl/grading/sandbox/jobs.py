"""Requests to the sandbox and its replies, and their bytes on the wire."""

from __future__ import annotations

import itertools
import marshal
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from types import CodeType
from typing import Literal

from sweet_rl.grading.sandbox.guest.wire import MAX_TEXT
from sweet_rl.grading.sandbox.guest.zygote import LENGTH, RESULT

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
        """Take in more bytes.

        Raises:
            ValueError: they are not what our own code in the child would send.
        """
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
