"""How far the three gradings agree: answers of every kind, made from references, and what each grading gives them.

Run: python -m tests.grading.agreement [--tasks FILE] [--limit N] [--every N]
"""

from __future__ import annotations

import argparse
import ast
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from sweet_rl.grading.code import WAYS, CodeGrader, Grades
from sweet_rl.grading.hidden_tests import entry_point
from sweet_rl.grading.sandbox import Sandbox
from sweet_rl.types import Task, Trajectory
from sweet_rl.worlds import load_tasks
from tests.grading.mutations import GROUPS, KINDS, answers

SLOW = "slow"
SLOW_TASKS, SLOW_TESTS = 1, 3
TIMEOUT_S, SHORT_TIMEOUT_S = 10.0, 0.5
HEADER = f"{'%':<38}{'answers':>8}" + "".join(f"{way:>12}{'success':>9}" for way in WAYS) + f"{'agree':>9}"


def is_stable(task: Task) -> bool:
    """Whether a reference gives the same values twice and can be changed: no chance, no clock, no syntax error."""
    try:
        ast.parse(task.ground_truth)
    except SyntaxError:
        return False
    return not any(word in task.ground_truth for word in ("random", "now(", "today(", "time.time"))


def made(tasks: Sequence[Task], every: int) -> list[tuple[str, Trajectory]]:
    """Answers with their kinds: of each task every so many kinds; of the slow kinds only the first tasks'."""
    order = {kind: number for number, kind in enumerate(KINDS)}
    found = [
        (kind, Trajectory(_short(task) if kind.startswith(SLOW) else task, (), text))
        for place, task in enumerate(tasks)
        for kind, text in answers(task.ground_truth, entry_point(task), task.task_id).items()
        if (place < SLOW_TASKS if kind.startswith(SLOW) else (order[kind] + place) % every == 0)
    ]
    return sorted(found, key=lambda one: order[one[0]])


def _short(task: Task) -> Task:
    return replace(task, test_cases=dict(list(task.test_cases.items())[:SLOW_TESTS]))


def grade(kinds: Sequence[str], trajectories: Sequence[Trajectory]) -> list[Grades]:
    """All grades of all answers; only those that are meant to need it meet a short time limit."""
    slow = next((number for number, kind in enumerate(kinds) if kind.startswith(SLOW)), len(kinds))
    found: list[Grades] = []
    for part, timeout_s in ((trajectories[:slow], TIMEOUT_S), (trajectories[slow:], SHORT_TIMEOUT_S)):
        with Sandbox(timeout_s=timeout_s) as sandbox:
            found += CodeGrader(sandbox).grade_all(part)
    return found


def table(kinds: Sequence[str], grades: Sequence[Grades]) -> list[str]:
    """A line for each kind: means and successes in percent, and how many answers have three equal grades."""
    lines = [HEADER]
    for kind in dict.fromkeys(kinds):
        lines.append(_line(kind, [one for other, one in zip(kinds, grades, strict=True) if other == kind]))
    order, starts = list(KINDS), [list(KINDS).index(first) for first in GROUPS.values()]
    numbers = [order.index(kind) for kind in kinds]
    for group, start, end in zip(GROUPS, starts, [*starts[1:], len(order)], strict=True):
        members = [one for number, one in zip(numbers, grades, strict=True) if start <= number < end]
        lines.append(_line(group, members))
    return [*lines, _line("all", grades)]


def _line(label: str, grades: Sequence[Grades]) -> str:
    values = [[getattr(one, way).value for way in WAYS] for one in grades]
    line = f"{label:<38}{len(values):>8}"
    for column in zip(*values, strict=True):
        known = [value for value in column if value is not None]
        mean, success = sum(known) / max(len(known), 1), known.count(1) / max(len(known), 1)
        line += f"{100 * mean:>12.1f}{100 * success:>9.1f}" if known else f"{'-':>12}{'-':>9}"
    return line + f"{sum(len(set(row)) == 1 for row in values):>9}"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", default="mini:families:test")
    parser.add_argument("--limit", type=int, default=100, help="so many tasks, at most")
    parser.add_argument("--every", type=int, default=1, help="of each task only every so many kinds")
    arguments = parser.parse_args()
    tasks = [one for one in load_tasks(arguments.tasks, num_tasks=arguments.limit) if is_stable(one)]
    kinds, trajectories = zip(*made(tasks, arguments.every), strict=True)
    print(
        f"{len(tasks)} tasks of {Path(arguments.tasks).name}",
        *table(kinds, grade(kinds, trajectories)),
        sep="\n",
    )


if __name__ == "__main__":
    main()
