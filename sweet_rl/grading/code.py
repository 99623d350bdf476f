"""Answers to grades: the share of hidden tests whose value equals the reference's (spec §4.1, §11.2).

Two ways. `fixed`: answer and reference each run on their own, in one namespace, and plain data is compared in
our process. `published`: as the original does it, defects included, to compare with its numbers. Both run in
the sandbox only.
"""

from __future__ import annotations

import ast
import builtins
import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from sweet_rl.grading.extraction import forbidden_word, lenient_code, published_code
from sweet_rl.grading.sandbox import Job, Outcome, Program, Sandbox, TestValue
from sweet_rl.grading.sandbox.guest.literal import CUT
from sweet_rl.types import Json, Score, Task, TestResult, Trajectory

ReferenceValue = TestValue
"""What the reference function gives for one test."""

_Key = tuple[str, tuple[str, ...]]

_CHUNK = 1024  # trajectories whose jobs are in the pool together
_BATCH = 16  # reference programs that share a child: they come from the task file, not from a model
_SHOWN = 300  # characters of a value in a row
_NONE = b"N"
_DEFINITION = re.compile(
    r"^(?:async +)?def +(\w+)", re.MULTILINE
)  # a parser would take a third of our own time


@dataclass(frozen=True, slots=True)
class Grades:
    """Both grades of one trajectory."""

    fixed: Score
    published: Score


class CodeGrader:
    """Grades Backend trajectories; a `Grader` that gives the grade it was made for.

    Args:
        sandbox: where everything runs; reference values are kept with it, by task.
        grading: which grade `grade` yields.
    """

    def __init__(self, sandbox: Sandbox, *, grading: Literal["fixed", "published"] = "fixed") -> None:
        self._sandbox = sandbox
        self._grading = grading
        self._references: dict[_Key, list[ReferenceValue]] = {}

    def grade(self, trajectories: Iterable[Trajectory]) -> Iterator[Score]:
        """One score for each trajectory, in order."""
        for chunk in _chunks(trajectories):
            yield from self._fixed(chunk) if self._grading == "fixed" else self._published(chunk)

    def grade_both(self, trajectories: Iterable[Trajectory]) -> Iterator[Grades]:
        """Both scores for each trajectory, in order."""
        for chunk in _chunks(trajectories):
            for fixed, published in zip(self._fixed(chunk), self._published(chunk), strict=True):
                yield Grades(fixed, published)

    def reference_outputs(self, tasks: Iterable[Task]) -> dict[str, list[ReferenceValue]]:
        """What the reference functions give for their tests, by `task_id`; each function run once."""
        return {task.task_id: self._references[_key(task)] for task in self._know(tasks)}

    def _know(self, tasks: Iterable[Task]) -> list[Task]:
        """Run the references that have not been run yet, many to a child."""
        tasks = list(tasks)
        missing = list({_key(task): task for task in tasks if _key(task) not in self._references}.values())
        batches = [missing[start : start + _BATCH] for start in range(0, len(missing), _BATCH)]
        jobs = (Job("fixed", [_program(task, task.ground_truth) for task in batch]) for batch in batches)
        for batch, values in zip(batches, self._sandbox.run(jobs), strict=True):
            remaining = iter(values)
            for task in batch:
                self._references[_key(task)] = list(itertools.islice(remaining, len(task.test_cases)))
        return tasks

    def _fixed(self, trajectories: Sequence[Trajectory]) -> Iterator[Score]:
        tasks = self._know(trajectory.task for trajectory in trajectories)
        references = [self._references[_key(task)] for task in tasks]
        codes = [strict_code(trajectory.answer) for trajectory in trajectories]
        values = self._run_answers(trajectories, codes)
        strict = [
            _score(task, reference, value)
            for task, reference, value in zip(tasks, references, values, strict=True)
        ]
        # what the word filter or a fence rule has set to zero is read again, leniently, to be counted
        again = [
            lenient_code(trajectory.answer or "")
            if score.value == 0 and trajectory.answer and _reads_otherwise(trajectory.answer, code)
            else None
            for trajectory, code, score in zip(trajectories, codes, strict, strict=True)
        ]
        lenient = self._run_answers(trajectories, again)
        for index, (trajectory, score) in enumerate(zip(trajectories, strict, strict=True)):
            details: dict[str, Json] = {}
            if word := forbidden_word(trajectory.answer or ""):
                details["filtered_by"] = word
            if again[index] is not None:
                details["lenient"] = _score(trajectory.task, references[index], lenient[index]).value
            yield Score(score.value, score.tests, _why_nothing(trajectory), details)

    def _run_answers(
        self, trajectories: Sequence[Trajectory], codes: Sequence[str | None]
    ) -> list[list[TestValue] | None]:
        """Values of each answer's tests; None where there is no code to run."""
        jobs = (
            Job("fixed", [_program(trajectory.task, code)])
            for trajectory, code in zip(trajectories, codes, strict=True)
            if code is not None
        )
        results = self._sandbox.run(jobs)
        return [None if code is None else next(results) for code in codes]

    def _published(self, trajectories: Sequence[Trajectory]) -> Iterator[Score]:
        codes = [
            code if trajectory.task.test_cases else None
            for trajectory, code in (
                (trajectory, strict_code(trajectory.answer)) for trajectory in trajectories
            )
        ]
        jobs = (
            Job("published", [_program(trajectory.task, code, reference=trajectory.task.ground_truth)])
            for trajectory, code in zip(trajectories, codes, strict=True)
            if code is not None
        )
        results = self._sandbox.run(jobs)
        for trajectory, code in zip(trajectories, codes, strict=True):
            yield _published_score(trajectory, None if code is None else next(results))


def _key(task: Task) -> _Key:
    """What a task's reference values depend on; two files may use one `task_id` for different functions."""
    return task.ground_truth, tuple(task.test_cases.values())


def reference_outputs(tasks: Iterable[Task], sandbox: Sandbox) -> dict[str, list[ReferenceValue]]:
    """What the reference functions give for their tests, by `task_id`."""
    return CodeGrader(sandbox).reference_outputs(tasks)


def strict_code(answer: str | None) -> str | None:
    """The code by the published rules; None where they give the answer no chance."""
    if answer is None or forbidden_word(answer) is not None:
        return None
    return published_code(answer)


def constant_answer(task: Task, outputs: Sequence[ReferenceValue]) -> str:
    """The answer that passes most tests without looking at its arguments.

    It returns the most frequent output of the reference (of equally frequent ones the first), or None where
    no output can be written as an expression.
    """
    text = "None"
    for fingerprint, _ in _frequencies(outputs).most_common():
        candidate = next(value.text for value in outputs if value.fingerprint == fingerprint)
        if _is_expression(candidate):
            text = candidate
            break
    return f"def {entry_point(task)}(*args, **kwargs):\n    return {text}\n"


def constant_floor(outputs: Sequence[ReferenceValue]) -> float:
    """The share of tests that the best constant answer passes."""
    return max(_frequencies(outputs).values(), default=0) / len(outputs) if outputs else 0.0


def entry_point(task: Task) -> str:
    """The name that the tests call: the last function that the reference defines."""
    names = _names(task.ground_truth)
    called = [name for name in names if any(name + "(" in test for test in task.test_cases.values())]
    return (called or names or ["answer"])[-1]


def _frequencies(outputs: Sequence[ReferenceValue]) -> Counter[bytes]:
    return Counter(
        value.fingerprint
        for value in outputs
        if value.outcome is Outcome.VALUE and value.fingerprint != _NONE
    )


def _is_expression(text: str) -> bool:
    try:
        ast.parse(text, mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return not text.endswith(CUT)


def _program(task: Task, source: str, reference: str = "") -> Program:
    own = [name for name in _names(task.ground_truth) if hasattr(builtins, name)]
    return Program(source, list(task.test_cases.values()), own, reference)


def _names(source: str) -> list[str]:
    """Names of the functions that a piece of code defines at its top level."""
    return _DEFINITION.findall(source)


def _score(task: Task, reference: Sequence[ReferenceValue], values: Sequence[TestValue] | None) -> Score:
    """Compare test by test. A reference that has no value, or None, credits nobody."""
    tests = []
    for index, (name, expression) in enumerate(task.test_cases.items()):
        wanted = reference[index]
        got = values[index] if values is not None else None
        tests.append(_compare(name, expression, wanted, got))
    passed = sum(test.outcome == "passed" for test in tests)
    return Score(passed / len(tests) if tests else 0.0, tuple(tests))


def _compare(name: str, expression: str, wanted: ReferenceValue, got: TestValue | None) -> TestResult:
    expected = _shorten(wanted.text)
    if got is None:
        return TestResult(name, expression, "failed", expected, detail="not run")
    if wanted.outcome is not Outcome.VALUE or wanted.fingerprint == _NONE:
        shown = _shorten(got.text) if got.outcome is Outcome.VALUE else None
        return TestResult(name, expression, "reference_none", expected, shown)
    if got.outcome is not Outcome.VALUE:
        return TestResult(name, expression, got.outcome.value, expected, detail=_shorten(got.text))
    outcome = "passed" if got.fingerprint == wanted.fingerprint else "failed"
    return TestResult(name, expression, outcome, expected, _shorten(got.text))


def _published_score(trajectory: Trajectory, values: Sequence[TestValue] | None) -> Score:
    if not trajectory.task.test_cases:
        return Score(None, note="no tests: the published code divides by zero")
    if values is None:
        ends = trajectory.answer is None
        note = "no answer: the published code raises TypeError" if ends else _why_nothing(trajectory)
        return Score(None if ends else 0.0, note=note)
    ended = next((value for value in values if value.outcome in {Outcome.ENDED, Outcome.CRASH}), None)
    if ended is not None:
        return Score(None, note=f"would have ended the published run ({ended.text or 'crash'})")
    return Score(sum(value.outcome is Outcome.PASSED for value in values) / len(values))


def _reads_otherwise(answer: str, code: str | None) -> bool:
    """Whether the lenient reading gives other code than the published rules (None: the word filter)."""
    return code is None or lenient_code(answer) != code.strip("\n")


def _why_nothing(trajectory: Trajectory) -> str:
    if trajectory.answer is None:
        return "no answer"
    if word := forbidden_word(trajectory.answer):
        return f"set to zero by the word filter: {word!r}"
    return "" if trajectory.task.test_cases else "no tests"


def _shorten(text: str) -> str:
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + CUT


def _chunks(trajectories: Iterable[Trajectory]) -> Iterator[list[Trajectory]]:
    iterator = iter(trajectories)
    while chunk := list(itertools.islice(iterator, _CHUNK)):
        yield chunk
