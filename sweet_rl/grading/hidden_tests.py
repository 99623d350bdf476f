"""A task's hidden tests: what they mean, what runs beside an answer, what outside, whether they can grade at all.

A test may hold what it expects, as in `f(3) == 7`, and use names of the reference's, as in `close(f(LIMIT), 7)`.
Only `f(3)` may come near an answer; the rest is evaluated in the reference's namespace, on the literal that
`f(3)` has given, in a process where nothing of the answer's runs.
"""

from __future__ import annotations

import ast
import builtins
import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any, NamedTuple

from sweet_rl.grading.divider import LOOKED_UP, Ask, Divider, NotDivisible, Part, Way, read, root
from sweet_rl.grading.sandbox import Job, Outcome, Program, Sandbox, TestValue
from sweet_rl.grading.sandbox.guest.crossing import LIBRARIES
from sweet_rl.grading.sandbox.guest.values import MODULE
from sweet_rl.types import Task

# a parser would take a third of our own time
_DEFINITION = re.compile(r"^(?:async +)?def +(\w+)", re.MULTILINE)
_CALL = re.compile(r"\s*([^\W\d]\w*)\((.*)\)\s*", re.DOTALL)
_MORE_THAN_A_CALL = re.compile(r"==|!=|[<>\\]|\)\s*[-+*/%&|^@.\[(]")
_QUOTED = re.compile(r"'[^'\\]*'|\"[^\"\\]*\"")
_WORD = re.compile(r"(?<![\w.])[^\W\d]\w*\b(?!\s*=)")
_LITERALS = frozenset({"True", "False", "None"})
_TRUE, _FALSE, _NONE = b"i1", "False", b"N"

_JUNK = ("True", "None", "0", "''", "[]")
"""What an answer could return whatever it is asked. A task whose comparisons one of these passes grades nothing."""

_DESCRIBE = (
    f"MODULE = {MODULE!r}"
    + """
def _described_(names):
    import sys
    found = {}
    own = [name for name, value in globals().items() if isinstance(value, type) and value.__module__ == MODULE]
    for name in [*names, *own]:
        if name in sys.modules and "." in name:
            found[name] = f"import {name}"
        value = globals().get(name, sys)
        home, its_name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
        if value is sys and name not in globals():
            continue
        if type(value) is type(sys):
            found[name] = f"import {value.__name__} as {name}"
        elif home not in {None, MODULE} and getattr(sys.modules.get(home), str(its_name), None) is value:
            found[name] = f"from {home} import {its_name} as {name}"
        else:
            own = isinstance(value, type) or type(value).__module__ == MODULE
            found[name] = "class" if own else "function" if callable(value) else "data"
    return found
"""
)
"""Run in the reference's namespace: what a test's names mean there; of what is a library's, how it is imported."""


class Plan(NamedTuple):
    """How a task's tests are evaluated.

    Args:
        tests: each of them.
        classes: names of the reference's classes.
        problem: why no answer can be graded by them, whatever the reference gives.
        junk: what the tests make of answers that return the same for everything, by what they return.
    """

    tests: tuple[Part, ...]
    classes: frozenset[str] = frozenset()
    problem: str = ""
    junk: Mapping[str, tuple[bytes, ...]] = {}


class Reference(NamedTuple):
    """What a task's reference gives for its tests, and why no answer can be graded by that; empty where one can."""

    values: Sequence[TestValue]
    why_not_gradable: str = ""


def defined_names(source: str) -> list[str]:
    """Names of the functions that a piece of code defines at its top level."""
    return _DEFINITION.findall(source)


def entry_point(task: Task) -> str:
    """The name that an answer has to define: announced in the task, else the last one that the tests call."""
    names = defined_names(task.ground_truth)
    called = [name for name in names if any(name + "(" in test for test in task.test_cases.values())]
    announced = [name for name in called if _is_announced(name, task)]
    return (announced or called or names or ["answer"])[-1]


def is_plain_call(expression: str) -> bool:
    """Whether an expression is one call of a function with literals."""
    call = _CALL.fullmatch(expression)
    if not call or hasattr(builtins, call[1]):
        return False
    arguments = _QUOTED.sub("''", call[2])
    if not _MORE_THAN_A_CALL.search(arguments) and _LITERALS.issuperset(_WORD.findall(arguments)):
        return True
    tree = read(expression)  # which tells what stands in a text
    if tree is None or not isinstance(tree.body, ast.Call) or not isinstance(tree.body.func, ast.Name):
        return False
    return sum(isinstance(node, ast.Name | ast.Compare) for node in ast.walk(tree)) == 1


def plan_of(task: Task, sandbox: Sandbox) -> Plan:
    """How to evaluate the tests. Where they are more than calls, the reference is run to see what they mean."""
    expressions = list(task.test_cases.values())
    whole = tuple(Part(expression) for expression in expressions)
    if all(map(is_plain_call, expressions)):
        return Plan(whole)
    try:
        return _plan(task, sandbox.trusted)
    except RecursionError:
        return Plan(whole, problem="its tests are nested too deeply")


def _plan(task: Task, sandbox: Sandbox) -> Plan:
    """For each test the first way to divide it that changes nothing for the reference."""
    expressions, ask = list(task.test_cases.values()), partial(_asked, task, sandbox)
    trees = [*map(read, expressions)]
    nodes = itertools.chain.from_iterable(ast.walk(tree) for tree in trees if tree)
    names = sorted({ast.unparse(node) for node in nodes if isinstance(node, ast.Name | ast.Attribute)})
    (found,) = ask([f"_described_({names!r})"], imports=_DESCRIBE, packed={0: ()})
    kinds: dict[str, str] = ast.literal_eval(found.text) if found.text else {}
    under_test = _under_test(task, [tree for tree in trees if tree], kinds, ask)
    wanted, tests, why = ask(expressions), [Part(one) for one in expressions], dict[int, str]()
    left = {at: tree for at, tree in enumerate(trees) if tree}  # else evaluating it says what it is
    classes = frozenset(name for name, kind in kinds.items() if kind == "class")
    nothing, libraries = frozenset[str](), frozenset({LIBRARIES})
    ways: list[tuple[Way, frozenset[str]]] = [
        ("calls", nothing),
        ("reads", nothing),
        ("calls", classes - under_test | libraries),
        ("loops", nothing),
        ("loops", classes | libraries),
        ("smallest", libraries),
    ]
    for way, crossing in ways:
        tried: dict[int, Part] = {}
        for at in left:
            try:
                tree = ast.parse(expressions[at].strip(" \t"), mode="eval")
                tried[at] = Divider(tree, under_test, kinds, ask, way).divided(crossing)
            except NotDivisible as error:
                why.setdefault(at, str(error))
        if not tried:
            continue
        plan = Plan(tuple(tried.values()), classes)
        (results,) = sandbox.run([fixed_job([task], [plan], [task.ground_truth])])
        for at, value in zip(tried, finished([plan], results)[0], strict=True):
            if value.fingerprint == wanted[at].fingerprint or not has_value(wanted[at]):
                tests[at] = tried[at]._replace(returned=value.inside)
                del left[at]
            else:
                why.setdefault(at, "what it makes more of is no literal")
    plan = Plan(tuple(tests), classes)
    if left:
        first = min(left)
        problem = f"{[*task.test_cases][first]} would show the answer what is expected: {why[first]}"
        return plan._replace(problem=problem)
    if all(test.outside is None for test in tests) and any(kinds[name] == "class" for name in under_test):
        return plan._replace(junk={"True": (_TRUE,) * len(tests)})
    if not all(test.outside for test in tests):
        return plan
    every = plan._replace(tests=plan.tests * len(_JUNK))
    data = [f"({f'{what}, ' * test.parts})" for what in _JUNK for test in tests]
    job = _outside_job([task], [every], [TestValue(Outcome.VALUE, text=text) for text in data])
    (values,) = sandbox.run([job] if job else [])
    made, count = [value.fingerprint for value in values], len(tests)
    return plan._replace(
        junk={what: tuple(made[at * count : (at + 1) * count]) for at, what in enumerate(_JUNK)}
    )


def _asked(task: Task, sandbox: Sandbox, expressions: Sequence[str], **more: Any) -> list[TestValue]:
    """What expressions are in the reference's namespace; the text of what has no value is empty."""
    if not expressions:
        return []
    program = Program(task.ground_truth, expressions, own_names(task.ground_truth), **more)
    (values,) = sandbox.run([Job("fixed", [program])])
    return [value if value.outcome is Outcome.VALUE else replace(value, text="") for value in values]


def _under_test(
    task: Task, trees: Sequence[ast.Expression], kinds: Mapping[str, str], ask: Ask
) -> frozenset[str]:
    """Which of the reference's names that tests call an answer has to define; the others help the tests.

    Those that the task announces, else those that some test calls alone, else the last one defined; and never one
    that judges what another returns: it says the same in every test, and the other does not.
    """
    called: list[dict[str, str]] = []  # the calls in each test by name, the outermost first
    for tree in trees:
        calls: dict[str, str] = {}
        for node in ast.walk(tree):
            first = root(node)
            kind = kinds.get(first.id) if isinstance(first, ast.Name) else None
            if isinstance(first, ast.Name) and (
                kind == "function" or (kind == "class" and first is not node)
            ):
                calls.setdefault(first.id, ast.unparse(node))
        called.append(calls)
    names = [*dict.fromkeys(itertools.chain.from_iterable(called))]
    announced = [name for name in names if _is_announced(name, task)]
    names = [name for name in names if kinds[name] == "function"] or names
    left = announced or [name for name in names if any(calls.keys() == {name} for calls in called)]
    is_clear, left = bool(left), left or names
    for name in list(left):
        others = [other for other in left if other != name]
        if not others:
            break
        both = [calls for calls in called if name in calls]
        said = ask([calls[name] for calls in both])
        heard = [ask([calls[other] for calls in both if other in calls]) for other in others]
        *differ, same = [len({value.fingerprint for value in values}) for values in [*heard, said]]
        is_judge = same == 1 and any(number > 1 for number in differ) and all(one.fingerprint for one in said)
        if said[0].text in {"True", "0", "0.0"} if len(said) == 1 else is_judge:
            left.remove(name)
    order = defined_names(task.ground_truth)
    last = max(left, key=lambda name: order.index(name) if name in order else -1, default="")
    return frozenset(left if is_clear else {last} - {""})


def _is_announced(name: str, task: Task) -> bool:
    announcement = rf"\b(?:class|def)\s+{re.escape(name)}\b|(?<![\w.]){re.escape(name)}\s?\("
    return re.search(announcement, task.problem_description) is not None


def fixed_job(tasks: Sequence[Task], plans: Sequence[Plan], sources: Sequence[str]) -> Job:
    """Definitions (an answer, or references), and what of their tests is evaluated beside them.

    What a test makes of these values is evaluated afterwards, in another process; so the results are for `finished`.
    """
    programs = [
        Program(
            source,
            [test.inside for test in plan.tests],
            own_names(task.ground_truth),
            imports="\n".join(dict.fromkeys(test.imports for test in plan.tests if test.imports)),
            packed={at: test.crossing for at, test in enumerate(plan.tests) if test.outside is not None},
        )
        for task, plan, source in zip(tasks, plans, sources, strict=True)
    ]
    is_divided = any(program.packed for program in programs)
    return Job("fixed", programs, then=partial(_outside_job, tasks, plans) if is_divided else None)


def _outside_job(tasks: Sequence[Task], plans: Sequence[Plan], values: Sequence[TestValue]) -> Job | None:
    left, programs = iter(values), []
    for task, plan in zip(tasks, plans, strict=True):
        found = [
            (test.outside, value.text, test.returned)
            for test, value in zip(plan.tests, itertools.islice(left, len(plan.tests)), strict=True)
            if test.outside is not None and value.outcome is Outcome.VALUE
        ]
        if found:
            outside, data, returned = zip(*found, strict=True)
            program = Program(task.ground_truth, outside, data=data, returned=returned, imports=LOOKED_UP)
            programs.append(program._replace(classes=plan.classes))
    return Job("fixed", programs) if programs else None


def finished(plans: Sequence[Plan], results: Sequence[TestValue]) -> list[list[TestValue]]:
    """Values of all tests of each task, given the results of their `fixed_job`."""
    inside = iter(results)
    outside = itertools.islice(results, sum(len(plan.tests) for plan in plans), None)
    return [
        [
            replace(next(outside), inside=value.text)
            if test.outside is not None and value.outcome is Outcome.VALUE
            else value
            for test, value in zip(plan.tests, inside, strict=False)
        ]
        for plan in plans
    ]


def why_not_gradable(task: Task, plan: Plan, reference: Sequence[TestValue]) -> str:
    """Why no answer to this task can be graded, given what the reference gives; empty where one can."""
    tests = list(zip(task.test_cases.items(), plan.tests, reference, strict=True))
    for (name, expression), _, value in tests:
        if value.text.startswith("SyntaxError") and read(expression) is None:
            return f"{name} is no expression, as f(1) or f(1) == 2 is (without assert): {expression[:100]!r}"
    if plan.problem:
        return plan.problem
    if tests and not any(map(has_value, reference)):
        (name, _), _, value = tests[0]
        return f"its reference has no value in any test ({name}: {value.text or value.outcome})"
    failed = [
        f"{name}: {expression}"
        for (name, expression), test, value in tests
        if test.outside is not None and value.outcome is Outcome.VALUE and value.text == _FALSE
    ]
    if failed:
        count = f"{len(failed)} of {len(tests)} comparisons"
        return f"its reference fails {count} that its tests make, as any junk does ({failed[0]})"
    for what, found in plan.junk.items():
        if {*found, *(value.fingerprint for value in reference)} == {_TRUE}:
            return f"an answer that returns {what} whatever it is asked passes all of its tests"
    return ""


def has_value(value: TestValue) -> bool:
    """Whether a reference's value can be met by an answer; None is never credited."""
    return value.outcome is Outcome.VALUE and value.fingerprint != _NONE


@cache
def own_names(reference: str) -> tuple[str, ...]:
    """Builtins that an answer may replace, since the reference does."""
    return tuple(name for name in defined_names(reference) if hasattr(builtins, name))
