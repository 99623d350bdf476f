"""A task's hidden tests: what of them runs beside an answer, what outside, whether they can grade at all."""

from __future__ import annotations

import builtins
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from sweet_rl.grading.expressions import Halves, halves, needed_imports
from sweet_rl.grading.sandbox import Job, Outcome, Program, Sandbox, TestValue
from sweet_rl.types import Task

_DEFINITION = re.compile(
    r"^(?:async +)?def +(\w+)", re.MULTILINE
)  # a parser would take a third of our own time
_FALSE = "False"
NONE = b"N"
"""The fingerprint of None, which is never credited."""


def defined_names(source: str) -> list[str]:
    """Names of the functions that a piece of code defines at its top level."""
    return _DEFINITION.findall(source)


def entry_point(task: Task) -> str:
    """The name that the tests call: the last function that the reference defines."""
    names = defined_names(task.ground_truth)
    called = [name for name in names if any(name + "(" in test for test in task.test_cases.values())]
    return (called or names or ["answer"])[-1]


def fixed_program(task: Task, source: str) -> Program:
    """A definition (an answer, or the reference) and what of the tests is evaluated beside it."""
    divided = _divided(task)
    packed = [number for number, test in enumerate(divided) if test.outside is not None]
    inside = tuple(test.inside for test in divided)
    imports = needed_imports(inside, task.ground_truth)
    return Program(source, inside, _own_names(task), packed=packed, imports=imports)


def published_program(task: Task, source: str) -> Program:
    """An answer beside the reference, with the tests as they are."""
    return Program(source, list(task.test_cases.values()), _own_names(task), task.ground_truth)


def finished(task: Task, values: Sequence[TestValue], sandbox: Sandbox) -> list[TestValue]:
    """Values of all tests, given those from inside: what a test makes of its own is evaluated apart."""
    divided = _divided(task)
    begun = [
        number
        for number, (test, value) in enumerate(zip(divided, values, strict=True))
        if test.outside is not None and value.outcome is Outcome.VALUE
    ]
    results = list(values)
    if begun:
        programs = [
            Program(divided[number].imports, [divided[number].outside or ""], data=[values[number].text])
            for number in begun
        ]
        (outcomes,) = sandbox.apart.run([Job("fixed", programs)])
        for number, outcome in zip(begun, outcomes, strict=True):
            results[number] = replace(outcome, inside=values[number].text)
    return results


def shows_too_much(task: Task) -> str:
    """Why an answer may not see a test of this task, though it would have to; empty where it may."""
    for name, test in zip(task.test_cases, _divided(task), strict=True):
        if test.why_whole:
            return f"{name} would show the answer what is expected: {test.why_whole}"
    return ""


def why_not_gradable(task: Task, reference: Sequence[TestValue]) -> str:
    """Why no answer to this task can be graded, given what the reference gives; empty where one can."""
    if why := shows_too_much(task):
        return why
    tests = list(zip(task.test_cases.items(), _divided(task), reference, strict=True))
    if tests and all(not has_value(value) for _, _, value in tests):
        (name, _), _, value = tests[0]
        return f"its reference has no value in any test ({name}: {value.text or value.outcome})"
    failed = [
        (name, expression)
        for (name, expression), test, value in tests
        if test.outside is not None and value.outcome is Outcome.VALUE and value.text == _FALSE
    ]
    if failed:
        count = f"{len(failed)} of {len(tests)} comparisons"
        return f"its reference fails {count} that its tests make, as any junk does ({': '.join(failed[0])})"
    return ""


def has_value(value: TestValue) -> bool:
    """Whether a reference's value can be met by an answer."""
    return value.outcome is Outcome.VALUE and value.fingerprint != NONE


def _divided(task: Task) -> list[Halves]:
    return [halves(expression, task.ground_truth) for expression in task.test_cases.values()]


@lru_cache(maxsize=10_000)
def _builtin_names(source: str) -> tuple[str, ...]:
    return tuple(name for name in defined_names(source) if hasattr(builtins, name))


def _own_names(task: Task) -> tuple[str, ...]:
    """Builtins that an answer may replace, since the reference does."""
    return _builtin_names(task.ground_truth)
