"""A task's hidden tests: what runs beside an answer, what outside, whether they can grade at all."""

from __future__ import annotations

import ast
import builtins
import itertools
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache, partial

from sweet_rl.grading.expressions import Halves, halves, needed_imports
from sweet_rl.grading.sandbox import Job, Outcome, Program, TestValue
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


def fixed_job(tasks: Sequence[Task], sources: Sequence[str]) -> Job:
    """Definitions (an answer, or references), and what of their tests is evaluated beside them.

    What a test makes of its own of those values is evaluated afterwards, in another process; so the results
    are for `finished`.
    """
    programs = [_fixed_program(task, source) for task, source in zip(tasks, sources, strict=True)]
    is_divided = any(program.packed for program in programs)
    return Job("fixed", programs, then=partial(_outside_job, tasks) if is_divided else None)


def _fixed_program(task: Task, source: str) -> Program:
    divided = _divided(task)
    packed = [number for number, test in enumerate(divided) if test.outside is not None]
    inside = tuple(test.inside for test in divided)
    imports = needed_imports(inside, task.ground_truth)
    return Program(source, inside, _own_names(task), packed=packed, imports=imports)


def _outside_job(tasks: Sequence[Task], values: Sequence[TestValue]) -> Job | None:
    tests = [test for task in tasks for test in _divided(task)]
    programs = [
        Program(test.imports, [test.outside], data=[value.text])
        for test, value in zip(tests, values, strict=True)
        if test.outside is not None and value.outcome is Outcome.VALUE
    ]
    return Job("fixed", programs) if programs else None


def finished(tasks: Sequence[Task], results: Sequence[TestValue]) -> list[list[TestValue]]:
    """Values of all tests of each task, given the results of their `fixed_job`."""
    inside = iter(results)
    outside = itertools.islice(results, sum(len(task.test_cases) for task in tasks), None)
    return [
        [
            replace(next(outside), inside=value.text)
            if test.outside is not None and value.outcome is Outcome.VALUE
            else value
            for test, value in zip(_divided(task), inside, strict=False)
        ]
        for task in tasks
    ]


def published_program(task: Task, source: str) -> Program:
    """An answer beside the reference, with the tests as they are."""
    return Program(source, list(task.test_cases.values()), _own_names(task), task.ground_truth)


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
    for (name, expression), _, value in tests:
        if value.outcome is Outcome.ERROR and value.text.startswith("SyntaxError"):
            try:
                ast.parse(expression.strip(" \t"), mode="eval")
            except SyntaxError:
                return (
                    f"{name} is no expression, as f(1) or f(1) == 2 is (without assert): {expression[:100]!r}"
                )
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
