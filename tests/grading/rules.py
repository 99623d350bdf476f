"""How many tests of a task file each rule of dividing tests touches, and how many tasks it leaves without a grade.

Run: python -m tests.grading.rules FILE [--limit N]
"""

from __future__ import annotations

import argparse
import ast
from collections import Counter
from collections.abc import Sequence

from sweet_rl.grading.code import CodeGrader
from sweet_rl.grading.expressions import _INTERPRETERS, Halves, _Scope, name_of_call, read
from sweet_rl.grading.hidden_tests import plan_of
from sweet_rl.grading.sandbox import Sandbox
from sweet_rl.types import Task
from sweet_rl.worlds import load_tasks

RULES = (
    "one call with literals",
    "an argument from a library that the reference imports",
    "an argument that only the reference has, as data",
    "compared outside, in the reference's namespace",
    "a call that takes what is returned for a name, a format or a program, inside",
    "a function handed on, or called in a loop",
    "would show what is expected",
)


def rules_of(expression: str, test: Halves) -> list[str]:
    """Those that one test meets."""
    if name_of_call(expression):
        return [RULES[0]]
    tree = read(test.inside)
    nodes = list(ast.walk(tree)) if tree else []
    called = {
        node.func.id for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    met = {
        RULES[1]: bool(test.imports),
        RULES[2]: bool(test.given),
        RULES[3]: test.outside is not None,
        RULES[4]: not _INTERPRETERS.isdisjoint(called),
        RULES[5]: any(isinstance(node, _Scope) for node in nodes)
        or bool(called & {"map", "filter", "sorted"}),
        RULES[6]: bool(test.why_whole),
    }
    return [rule for rule, is_met in met.items() if is_met]


def table(tasks: Sequence[Task]) -> str:
    """Lines with the number of tests and tasks for each rule, then the tasks that cannot be graded, and why."""
    tests: Counter[str] = Counter()
    touched: Counter[str] = Counter()
    with Sandbox() as sandbox:
        for task in tasks:
            plan = plan_of(task, sandbox)
            tests_of = zip(task.test_cases.values(), plan.parts, strict=True)
            met = [rules_of(expression, part.test) for expression, part in tests_of]
            tests.update(rule for some in met for rule in some)
            touched.update({rule for some in met for rule in some})
        found = CodeGrader(sandbox).reference_outputs(tasks)
    lines = [f"{'':<80}{'tests':>7}{'tasks':>7}"]
    lines += [f"{rule:<80}{tests[rule]:>7}{touched[rule]:>7}" for rule in RULES]
    lines += ["", "Tasks that cannot be graded:"]
    lines += [f"{task.task_id}: {why}" for task in tasks if (why := found[task.task_id].why_not_gradable)]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file")
    parser.add_argument("--limit", type=int)
    arguments = parser.parse_args()
    print(table(list(load_tasks(arguments.file))[: arguments.limit]), end="")


if __name__ == "__main__":
    main()
