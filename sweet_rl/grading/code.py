"""Answers to grades: the share of hidden tests whose value equals the reference's.

Three ways. `fixed`: answer and reference each run on their own, in one namespace, and plain data is compared in our
process. `lenient`: the same for what a person would take for the code, which shows how much of a score is a matter of
format; never less than `fixed`. `published`: as the original does it, defects included. All in the sandbox only.

Published behaviour: docs/published/sweet_rl.md#grading-code, #in-grading.
"""

from __future__ import annotations

import ast
import itertools
import re
import textwrap
from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Literal, NamedTuple

from sweet_rl.grading.hidden_tests import (
    Plan,
    Reference,
    entry_point,
    finished,
    fixed_job,
    has_value,
    own_names,
    plan_of,
    why_not_gradable,
)
from sweet_rl.grading.sandbox import Job, Outcome, Program, Sandbox, TestValue
from sweet_rl.grading.sandbox.guest.values import CUT
from sweet_rl.types import ANSWER_MARKER, Json, Score, Task, TestResult, Trajectory, is_answer

_Key = tuple[str, str, tuple[str, ...]]

_WINDOW = 256  # answers before which their references are run
_BATCH = 16  # references that share a child: they come from the task file, and what they say fits its socket
_SHOWN = 300  # characters of a value in a row

FORBIDDEN = tuple("import os,from os,import sys,from sys,sudo,transformers,exit(,quit(,argparse".split(","))
"""Plain substrings that set an answer to 0, in prose and comments too; the published list."""

_FENCED_BLOCK = re.compile(r"^[ \t]*(```|~~~)[^\n`]*\n(.*?)(?:^[ \t]*\1|\Z)", re.DOTALL | re.MULTILINE)
_FENCE_LINE = re.compile(r"^[ \t]*(?:```|~~~).*$", re.MULTILINE)
_CODE_LINE = re.compile(
    r"\s|$|[@#\])}\"']|(?:async +)?def |(?:class|import|from|assert|del|raise|global) "
    r"|(?:if|for|while|with|else|try|finally|except|elif)\b(?:.*:\s*$|.*?:\s*#)"
    r"|[\w.\[\]'\"]++(?:, *[\w.\[\]'\"]++)*+ *(?::[^=]++|[-+*/|&%]*+)=|[\w.]++\("
)
"""How a line of code looks; prose seldom does."""

_LOOKED_AT = 200_000
"""Characters of an answer that are read leniently; a longer one is read by the published rules alone."""

Way = Literal["fixed", "published", "lenient"]
WAYS: tuple[Way, ...] = ("fixed", "published", "lenient")


class Grades(NamedTuple):
    """The grades of one trajectory in each way of grading."""

    fixed: Score
    published: Score
    lenient: Score


ROUNDS: tuple[frozenset[Way], frozenset[Way]] = (frozenset({"fixed", "lenient"}), frozenset({"published"}))
"""All grades of the first round are known before the second one begins.

In the second one an answer runs beside its reference: so no answer can read it there and tell itself, by
whatever may be left in a machine, in a way of grading in which it has to find the values by itself.
"""


def row_fields(grades: Grades, grading: str, graded_with: Mapping[str, Json]) -> dict[str, Json]:
    """The fields that grading adds to a row: `grading` names the reward, `graded_with` what made the grades."""
    values = {str(way): getattr(grades, way).value for way in WAYS}
    tests = [
        {name: value for name, value in asdict(test).items() if value not in {None, ""}}
        for test in grades.fixed.tests
    ]
    notes = {"fixed_note": grades.fixed.note, "published_note": grades.published.note}
    details = dict(grades.fixed.details) | {name: note for name, note in notes.items() if note}
    return {
        "reward": reward_of(values, grading),
        "grades": values,
        "test_results": tests,
        "graded_with": dict(graded_with),
        **({"grading_details": details} if details else {}),
    }


def reward_of(grades: Mapping[str, float | None], grading: str) -> float | None:
    """None where the task allows no grade; 0 where the answer would have ended the published evaluation."""
    return 0.0 if grading == "published" and grades[grading] is None else grades[grading]


class CodeGrader:
    """Grades Backend trajectories; a `Grader` that gives the grade it was made for.

    Args:
        sandbox: where everything runs; reference values are kept with it, by task.
        grading: which grade `grade` yields.
    """

    def __init__(self, sandbox: Sandbox, *, grading: Way = "fixed") -> None:
        self._sandbox = sandbox
        self._grading: Way = grading
        self._plans: dict[_Key, Plan] = {}
        self._references: dict[_Key, Reference] = {}

    @property
    def protection(self) -> str:
        """How answers are isolated, in words for a report."""
        return self._sandbox.protection

    def grade(self, trajectories: Iterable[Trajectory]) -> Iterator[Score]:
        """One score for each trajectory, in order."""
        for grades in self.grade_in({self._grading}, trajectories):
            yield grades[self._grading]

    def grade_all(self, trajectories: Iterable[Trajectory]) -> Iterator[Grades]:
        """All scores for each trajectory, in order, in two rounds (`ROUNDS`)."""
        trajectories = list(trajectories)
        alone, beside = ROUNDS
        known = list(self.grade_in(alone, trajectories))
        for grades, others in zip(known, self.grade_in(beside, trajectories), strict=True):
            yield Grades(**grades, **others)

    def reference_outputs(self, tasks: Iterable[Task]) -> dict[str, Reference]:
        """What the reference functions give for their tests, by `task_id`; each function run once."""
        tasks = list(tasks)
        deque(self.grade_in({"fixed"}, [Trajectory(task, (), None) for task in tasks]), maxlen=0)
        return {task.task_id: self._references[_key(task)] for task in tasks}

    def grade_in(
        self, ways: Collection[str], trajectories: Iterable[Trajectory]
    ) -> Iterator[dict[str, Score]]:
        """Grades by way, in order, while later answers are running; one stream of jobs for all workers."""
        begun: deque[_Begun] = deque()  # in the order of their jobs
        for values in self._sandbox.run(self._jobs(trajectories, ways, begun)):
            next(one for one in begun if len(one.results) < len(one.jobs)).results.append(values)
            yield from self._finished(begun, ways)
        yield from self._finished(begun, ways)

    def _jobs(
        self, trajectories: Iterable[Trajectory], ways: Collection[str], begun: deque[_Begun]
    ) -> Iterator[Job]:
        """What is to be run, references first, some in one child; says in `begun` whose the results will be."""
        asked = set(self._references)
        left, needs_plan = iter(trajectories), ways != {"published"}
        while window := list(itertools.islice(left, _WINDOW)):
            new = {key: one.task for one in window if needs_plan and (key := _key(one.task)) not in asked}
            asked.update(new)
            missing = iter(new.values())
            while batch := list(itertools.islice(missing, _BATCH)):
                for task in batch:
                    if (key := _key(task)) not in self._plans:
                        self._plans[key] = plan_of(task, self._sandbox)
                plans = [self._plans[_key(task)] for task in batch]
                job = fixed_job(batch, plans, [task.ground_truth for task in batch])
                begun.append(_Begun(batch, {"reference": job}))
                yield job
            for trajectory in window:
                plan = self._plans[_key(trajectory.task)] if needs_plan else Plan(())
                begun.append(_Begun(trajectory, _jobs_of(trajectory, plan, ways)))
                yield from begun[-1].jobs.values()

    def _finished(self, begun: deque[_Begun], ways: Collection[str]) -> Iterator[dict[str, Score]]:
        """Take from the front what has all of its results; yield the scores of answers."""
        while begun and len(begun[0].results) == len(begun[0].jobs):
            first = begun.popleft()
            if not isinstance(first.what, Trajectory):
                plans = [self._plans[_key(task)] for task in first.what]
                outputs = finished(plans, first.results[0])
                for task, plan, values in zip(first.what, plans, outputs, strict=True):
                    self._references[_key(task)] = Reference(values, why_not_gradable(task, plan, values))
                continue
            found = dict(zip(first.jobs, first.results, strict=True))
            scores: dict[str, Score] = {}
            if ways != {"published"}:
                fixed = lenient = self._fixed_score(first.what, found.get("fixed"))
                if "lenient" in found:
                    lenient = self._fixed_score(first.what, found["lenient"])
                better = (lenient.value or 0) > (fixed.value or 0)
                scores = {"fixed": fixed, "lenient": lenient if better else fixed}
            if "published" in ways:
                scores["published"] = _published_score(first.what, found.get("published"))
            yield scores

    def _fixed_score(self, trajectory: Trajectory, values: Sequence[TestValue] | None) -> Score:
        task, reference = trajectory.task, self._references[_key(trajectory.task)]
        if values is not None:
            (values,) = finished([self._plans[_key(task)]], values)
        tests = _tests(task, reference.values, values)
        if reference.why_not_gradable:
            return Score(None, tests, f"cannot be graded: {reference.why_not_gradable}")
        word = forbidden_word(trajectory.answer or "")
        passed, note = sum(test.outcome == "passed" for test in tests), _why_not_run(trajectory)
        if values and passed < len(tests) and all(map(_is_none, values)):
            note = "returned None in every test: it may print its result, or lack a return"
        return Score(
            passed / len(tests) if tests else 0.0, tests, note, {"filtered_by": word} if word else {}
        )


@dataclass(frozen=True, slots=True)
class _Begun:
    """An answer, or tasks whose references share a child: jobs by purpose, and their results in the same order."""

    what: Trajectory | list[Task]
    jobs: Mapping[str, Job]
    results: list[list[TestValue]] = field(default_factory=list)


def _jobs_of(trajectory: Trajectory, plan: Plan, ways: Collection[str]) -> dict[str, Job]:
    """What has to be run for an answer; nothing for one that the published rules give no chance."""
    task, answer, jobs = trajectory.task, trajectory.answer, dict[str, Job]()
    code = None if answer is None or forbidden_word(answer) is not None else published_code(answer)
    if ways != {"published"} and not plan.problem:
        if code is not None:
            jobs["fixed"] = fixed_job([task], [plan], [code])
        # what the word filter or a fence rule spoils is read again, leniently
        read = lenient_code(trajectory, entry_point(task)) if "lenient" in ways else None
        if read is not None and read.rstrip() != (code or "").strip("\n").rstrip():
            jobs["lenient"] = fixed_job([task], [plan], [read])
    if "published" in ways and code is not None and task.test_cases:
        tests = list(task.test_cases.values())
        jobs["published"] = Job(
            "published", [Program(code, tests, own_names(task.ground_truth), task.ground_truth)]
        )
    return jobs


def forbidden_word(answer: str) -> str | None:
    """The first word of the published filter that the raw answer contains."""
    return next((word for word in FORBIDDEN if word in answer), None)


def published_code(answer: str) -> str:
    """What the published rules take for the code: the first python fence, else the first fence, else all."""
    if "```python" in answer:
        answer = answer.split("```python")[1].split("```", 1)[0]
    if "```" in answer:
        answer = answer.split("```")[1]
    return answer


def lenient_code(trajectory: Trajectory, name: str) -> str | None:
    """What a person would take for the code that defines `name`; None where there is none to be seen.

    The last fenced block with any tag that defines it, else the lines of the text that look like code around
    such a definition; in the answer, else in what its last turn says before the answer is announced.
    """
    answer, turn = trajectory.answer, trajectory.last_turn
    if not is_answer(answer):
        return None
    texts = [answer] if turn is None else [answer, turn.content.split(ANSWER_MARKER)[0]]
    texts = [text.replace("\r\n", "\n").replace("\u00a0", " ").lstrip("\ufeff") for text in texts]
    definition = re.compile(
        rf"^[ \t]*(?:(?:async +)?def|class) +{re.escape(name)}\b|^[ \t]*{re.escape(name)} *=", re.MULTILINE
    )
    for text in texts:
        if len(text) > _LOOKED_AT:
            continue
        blocks = [block for _, block in _FENCED_BLOCK.findall(text) if definition.search(block)]
        if blocks:
            return _aligned(blocks[-1])
        if definition.search(text):
            lines = _aligned(_FENCE_LINE.sub("", text)).split("\n")
            return "\n".join(filter(_CODE_LINE.match, lines))  # without the prose around them
    return None


def _aligned(code: str) -> str:
    """Code at the left margin; also where only the first line, beside the marker, is shifted."""
    code = textwrap.dedent(code.strip("\n"))
    return code.lstrip(" \t") if code[:1] in {" ", "\t"} else code


def _key(task: Task) -> _Key:
    """What a task's reference values depend on; two files may use one `task_id` for different functions."""
    return task.problem_description, task.ground_truth, tuple(task.test_cases.values())


def constant_answer(task: Task, reference: Reference) -> str:
    """The answer that passes most tests without looking at its arguments.

    It returns the most frequent output of the reference (of equally frequent ones the first), or None where
    no output can be written as an expression.
    """
    text = "None"
    for key, _ in _to_return(reference.values).most_common():
        value = next(one for one in reference.values if (one.inside.encode() or one.fingerprint) == key)
        candidate = value.text
        with suppress(SyntaxError, ValueError, RecursionError, MemoryError):
            if value.inside:  # what a test compares itself, where that is one call
                pieces = getattr(ast.parse(value.inside, mode="eval").body, "elts", [])
                candidate = ast.unparse(pieces[0]) if len(pieces) == 1 else CUT
            ast.parse(candidate, mode="eval")
            if not candidate.endswith(CUT):
                text = candidate
                break
    return f"def {entry_point(task)}(*args, **kwargs):\n    return {text}\n"


def constant_floor(reference: Reference) -> float:
    """The share of tests that the best constant answer passes."""
    outputs = reference.values
    return max(_to_return(outputs).values(), default=0) / len(outputs) if outputs else 0.0


def _to_return(values: Sequence[TestValue]) -> Counter[bytes]:
    """How often an answer has to give each of what it has to give for these."""
    return Counter(value.inside.encode() or value.fingerprint for value in values if has_value(value))


def _tests(
    task: Task, reference: Sequence[TestValue], values: Sequence[TestValue] | None
) -> tuple[TestResult, ...]:
    """Compare test by test. A reference that has no value, or None, counts for no answer."""
    tests = []
    found = values if values is not None else [None] * len(reference)
    for (name, expression), wanted, got in zip(task.test_cases.items(), reference, found, strict=True):
        shown, detail = None, ""
        if got is None:
            outcome, detail = "failed", "not run"
        elif not has_value(wanted):
            outcome, shown = "reference_none", _shorten(got.text) if got.outcome is Outcome.VALUE else None
        elif got.outcome is not Outcome.VALUE:
            outcome, detail = got.outcome.value, _shorten(got.text)
        else:
            outcome = "passed" if got.fingerprint == wanted.fingerprint else "failed"
            shown = _shorten(got.text)
        tests.append(TestResult(name, expression, outcome, _shorten(wanted.text), shown, detail))
    return tuple(tests)


def _published_score(trajectory: Trajectory, values: Sequence[TestValue] | None) -> Score:
    if not trajectory.task.test_cases:
        return Score(None, note="no tests: the published code divides by zero")
    if values is None:
        ends = trajectory.answer is None
        note = "no answer: the published code raises TypeError" if ends else _why_not_run(trajectory)
        return Score(None if ends else 0.0, note=note)
    ended = next((value for value in values if value.outcome in {Outcome.ENDED, Outcome.CRASH}), None)
    if ended is not None:
        return Score(None, note=f"would have ended the published run ({ended.text or 'crash'})")
    return Score(sum(value.outcome is Outcome.PASSED for value in values) / len(values))


def _is_none(value: TestValue) -> bool:
    """Whether all calls of a test returned None."""
    return not re.sub(r"None|[(), ]", "", value.inside) if value.inside else value.text == "None"


def _why_not_run(trajectory: Trajectory) -> str:
    if trajectory.answer is None:
        return "no answer"
    if word := forbidden_word(trajectory.answer):
        return f"set to zero by the word filter: {word!r}"
    return "" if trajectory.task.test_cases else "no tests"


def _shorten(text: str) -> str:
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + CUT
