"""Sandboxed grading against the published unprotected loop, on ColBench tasks answered by their references.

The published evaluation runs everything in its own process: for each test it executes reference
and answer, evaluates the test's expression, and cuts an answer off with a one-second alarm. It is written
afresh here, with an alarm that counts computing time: a busy machine cuts off no honest answer. Both sides
grade the same answers: the references; the same with endless loops among them; and heavy tasks of
ten tests, each about 0.1 s of pure Python, as public tests of programming contests have.

Run: python benchmarks/grading.py [--tasks backend_tasks.jsonl] [--num_tasks 500] [--loops 0.02] [--heavy 8]
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import random
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from _measure import heading

from sweet_rl.grading import forbidden_word, published_code
from sweet_rl.grading.code import CodeGrader
from sweet_rl.grading.sandbox import Sandbox
from sweet_rl.types import Task, Trajectory
from sweet_rl.worlds import load_tasks

ROOT = Path(__file__).resolve().parent.parent
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
    used, started = cpu_seconds(), time.perf_counter()
    grades = [grade for grade in side(trajectories) if grade is not None]
    return Timing(time.perf_counter() - started, cpu_seconds() - used, sum(grades) / len(grades))


def cpu_seconds() -> float:
    return sum(os.times()[:4])


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


def default_tasks() -> str:
    shared = Path(os.environ.get("SWEET_RL_SHARED", ROOT.parent / "shared"))
    path = shared / "data/colbench/backend_tasks_500.jsonl"
    if path.exists():
        return str(path)
    print("No ColBench file at hand (--tasks, or SWEET_RL_SHARED): measuring on mini:test instead.")
    return "mini:test"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tasks", default=None)
    parser.add_argument("--num_tasks", type=int, default=500)
    parser.add_argument("--loops", type=float, default=0.02)
    parser.add_argument("--heavy", type=int, default=8, help="heavy tasks; 0: none")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    tasks = load_tasks(arguments.tasks or default_tasks(), num_tasks=arguments.num_tasks)
    plain = [Trajectory(task, (), task.ground_truth) for task in tasks]
    print(f"{heading()}\nload {os.getloadavg()[0]:.1f}")
    print(
        f"{len(tasks)} answers, {sum(len(t.test_cases) for t in tasks)} tests; {arguments.heavy} heavy ones\n"
    )
    columns = f"{'answers/s':>11}{'per CPU s':>11}{'mean grade':>12}{'ratio':>8}{'of CPU':>8}"
    print(f"{'':<26}{'side':<22}{'seconds':>9}{'CPU s':>8}{columns}")
    looping = with_loops(plain, arguments.loops)
    for label, answers, rounds in (
        ("references", plain, arguments.rounds),
        (f"{arguments.loops:.0%} loop for ever", looping, 1),
        ("heavy references", heavy(arguments.heavy), arguments.rounds if arguments.heavy else 0),
    ):
        if rounds == 0:
            continue
        pairs = [(timed(published_loop, answers), timed(ours, answers)) for _ in range(rounds)]
        pairs.sort(key=lambda pair: pair[0].seconds / pair[1].seconds)
        published, own = pairs[len(pairs) // 2]
        for side, took in (("published, unprotected", published), ("sweet_rl, sandboxed", own)):
            ratios = published.seconds / own.seconds, published.cpu_s / own.cpu_s
            ratio = f"{ratios[0]:>8.2f}{ratios[1]:>8.2f}" if took is own else ""
            rates = f"{len(answers) / took.seconds:>11.2f}{len(answers) / max(took.cpu_s, 0.01):>11.2f}"
            row = f"{took.seconds:>9.2f}{took.cpu_s:>8.2f}{rates}{took.grade:>12.3f}{ratio}"
            print(f"{label:<26}{side:<22}{row}")


if __name__ == "__main__":
    main()
