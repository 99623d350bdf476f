"""Sandboxed grading against the published unprotected loop, on ColBench tasks answered by their references.

The published evaluation runs everything in its own process: for each test it executes reference
and answer, evaluates the test's expression, and cuts an answer off with a one-second alarm. It is written
afresh here, with an alarm that counts computing time: a busy machine cuts off no honest answer. Both sides
grade the same answers: the references; the same with endless loops among them; and heavy tasks of
ten tests, each about 0.1 s of pure Python, as public tests of programming contests have.

Run: python benchmarks/grading.py [--tasks backend_tasks.jsonl] [--num_tasks 500] [--loops 0.02] [--heavy 8]
"""

from __future__ import annotations

import contextlib
import io
import os
import random
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from _measure import flags, heading, shared_tasks, show

from sweet_rl.grading.code import CodeGrader, forbidden_word, published_code
from sweet_rl.grading.sandbox import Sandbox
from sweet_rl.types import Task, Trajectory
from sweet_rl.worlds import load_tasks

LOOP = "def {name}(*args, **kwargs):\n    while True:\n        pass\n"
HEAVY = """def heavy_{number}(x):
    for _ in range(1_000_000):
        x = (x * 1103515245 + {number}) % 2147483648
    return x
"""
"""A test of about 0.1 s: a million steps of a generator of random numbers."""


def published_value(code: str, expression: str) -> Any:
    own: dict[str, Any] = {}
    try:
        exec(code, globals(), own)  # noqa: S102 - what the published grader does, to compare with
        return eval(expression, globals(), own)  # noqa: S307
    except Exception:
        return None


def ring(*_: object) -> None:
    raise TimeoutError


def published_correctness(task: Task, answer: str) -> float:
    if forbidden_word(answer) is not None:
        return 0.0
    code = published_code(answer)
    passed = 0
    for expression in task.test_cases.values():
        wanted = published_value(task.ground_truth, expression)
        signal.signal(signal.SIGVTALRM, ring)
        signal.setitimer(signal.ITIMER_VIRTUAL, 1)
        got = published_value(code, expression)
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        with contextlib.suppress(ValueError):
            passed += wanted is not None and bool(wanted == got)
    return passed / len(task.test_cases)


def published_loop(trajectories: Sequence[Trajectory]) -> list[float]:
    with contextlib.redirect_stdout(io.StringIO()):
        return [published_correctness(t.task, t.answer or "") for t in trajectories]


def ours(trajectories: Sequence[Trajectory]) -> list[float | None]:
    with Sandbox() as sandbox:
        return [score.value for score in CodeGrader(sandbox).grade(trajectories)]


class Timing(NamedTuple):
    """What one side took; the mean grade, of what is graded, tells whether both graded much the same."""

    seconds: float
    cpu_s: float
    grade: float


def timed(
    side: Callable[[Sequence[Trajectory]], Sequence[float | None]], trajectories: Sequence[Trajectory]
) -> Timing:
    used, started = sum(os.times()[:4]), time.perf_counter()
    grades = [grade for grade in side(trajectories) if grade is not None]
    return Timing(time.perf_counter() - started, sum(os.times()[:4]) - used, sum(grades) / len(grades))


def with_loops(trajectories: Sequence[Trajectory], share: float) -> list[Trajectory]:
    chosen = set(random.Random(0).sample(range(len(trajectories)), round(share * len(trajectories))))
    return [
        Trajectory(t.task, (), LOOP.format(name=next(iter(t.task.test_cases.values())).split("(")[0]))
        if index in chosen
        else t
        for index, t in enumerate(trajectories)
    ]


def heavy(count: int) -> list[Trajectory]:
    found = []
    for number in range(count):
        code = HEAVY.format(number=number)
        tests = {f"test{test}": f"heavy_{number}({test})" for test in range(10)}
        found.append(Trajectory(Task(f"heavy-{number}", "", code, code, tests, {}), (), code))
    return found


def main() -> None:
    given = flags(__doc__, tasks=None, num_tasks=500, loops=0.02, heavy=8, rounds=5)
    source = given.tasks or shared_tasks("backend_tasks_500.jsonl", "mini:test")
    tasks = load_tasks(source, num_tasks=given.num_tasks)
    plain = [Trajectory(task, (), task.ground_truth) for task in tasks]
    print(f"{heading()}\nload {os.getloadavg()[0]:.1f}")
    print(f"{len(tasks)} answers, {sum(len(t.test_cases) for t in tasks)} tests; {given.heavy} heavy ones\n")
    kinds = [("references", plain, given.rounds)]
    kinds += [(f"{given.loops:.0%} loop for ever", with_loops(plain, given.loops), 1)]
    kinds += [("heavy references", heavy(given.heavy), given.rounds)] if given.heavy else []

    def rows() -> Iterator[list[str]]:
        """Of both sides in turn the round with the median ratio."""
        for label, answers, rounds in kinds:
            pairs = [(timed(published_loop, answers), timed(ours, answers)) for _ in range(rounds)]
            pairs.sort(key=lambda pair: pair[0].seconds / pair[1].seconds)
            published, own = pairs[len(pairs) // 2]
            for side, took in (("published, unprotected", published), ("sweet_rl, sandboxed", own)):
                rates = f"{len(answers) / took.seconds:.2f}", f"{len(answers) / max(took.cpu_s, 0.01):.2f}"
                ratios = (
                    f"{published.seconds / took.seconds:.2f}",
                    f"{published.cpu_s / max(took.cpu_s, 0.01):.2f}",
                )
                seconds = f"{took.seconds:.2f}", f"{took.cpu_s:.2f}"
                yield [label, side, *seconds, *rates, f"{took.grade:.3f}", *ratios]

    heads = ("answers", "side", "seconds", "CPU s", "answers/s", "per CPU s", "mean grade", "ratio", "of CPU")
    show(heads, rows())


if __name__ == "__main__":
    main()
