"""A task's hidden tests: what they mean, what runs beside an answer, what outside, whether they can grade at all."""

from __future__ import annotations

import ast
import builtins
import itertools
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any, NamedTuple

from sweet_rl.grading.expressions import (
    Halves,
    Meaning,
    Place,
    around,
    bound,
    halves,
    name_of_call,
    read,
    root,
)
from sweet_rl.grading.sandbox import Job, Outcome, Program, Sandbox, TestValue
from sweet_rl.grading.sandbox.guest.values import MODULE
from sweet_rl.grading.sandbox.guest.wire import ARRAY, unpack
from sweet_rl.types import Task

# a parser would take a third of our own time
_DEFINITION = re.compile(r"^(?:async +)?def +(\w+)", re.MULTILINE)
_TRUE, _FALSE = b"i1", "False"
NONE = b"N"
"""The fingerprint of None, which is never credited."""

_DESCRIBE = (
    f"MODULE = {MODULE!r}"
    + """
def _described_(names):
    import sys
    found = []
    own = [name for name, value in globals().items() if isinstance(value, type) and value.__module__ == MODULE]
    for name in dict.fromkeys([*names, *own]):
        value = globals().get(name, sys)
        home, its_name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
        code = getattr(getattr(value, "__wrapped__", value), "__code__", None)
        kind, statement = "data", ""
        if type(value) is type(sys):
            kind, statement = "library", f"import {value.__name__} as {name}"
        elif home not in {None, MODULE} and getattr(sys.modules.get(home), str(its_name), None) is value:
            kind, statement = "library", f"from {home} import {its_name} as {name}"
        elif isinstance(value, type):
            kind = "class"
        elif type(value).__module__ == MODULE:
            kind = "object"
        elif callable(value):
            kind = "function"
        if value is not sys or name in globals():
            found.append([name, kind, statement, list(code.co_names) if code else []])
    return found, [name for name in sys.modules if "." in name]
"""
)
"""Run in the reference's namespace: of what kind the things are that a test's names mean there."""

_CONSTANTS: Mapping[str, str] = {"True": "true", "None": "null", "0": "0", "''": '""', "[]": '["list"]'}
"""What junk returns whatever it is asked, as source and as data. A task whose comparisons it passes grades nothing."""


class Part(NamedTuple):
    """How one test is evaluated.

    Args:
        test: its expression, divided.
        crossing: classes of the reference's whose objects may cross, and `ARRAY` where arrays do.
        given: what it has of the reference's for its arguments, as data; empty where that is none.
        returned: where it is divided, what its calls of the reference's have given, as data.
    """

    test: Halves
    crossing: frozenset[str] = frozenset()
    given: str = ""
    returned: str = ""


class Plan(NamedTuple):
    """How a task's tests are evaluated.

    Args:
        parts: each of them.
        classes: names of the reference's classes.
        problem: why no answer can be graded by them, whatever the reference gives.
        junk: what the tests make of answers that return the same for everything, by what they return.
    """

    parts: tuple[Part, ...]
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


def plan_of(task: Task, sandbox: Sandbox) -> Plan:
    """How to evaluate the tests. Where they are more than calls, the reference is run to see what they mean."""
    expressions = list(task.test_cases.values())
    whole = tuple(Part(Halves(expression)) for expression in expressions)
    if all(map(name_of_call, expressions)):
        return Plan(whole)
    try:
        return _plan(task, sandbox.trusted)
    except RecursionError:
        return Plan(whole, problem="its tests are nested too deeply")


def _plan(task: Task, sandbox: Sandbox) -> Plan:
    meaning = _meaning(task, partial(_asked, task, sandbox))
    classes = frozenset(name for name, kind in meaning.kinds.items() if kind == "class")
    parts = _parts(task, meaning, classes, sandbox)
    for name, part in zip(task.test_cases, parts, strict=True):
        if part.test.why_whole or not part.given:
            why = part.test.why_whole or "an argument is no data, and only the reference has it"
            return Plan(parts, classes, f"{name} would show the answer what is expected: {why}")
    plan = Plan(parts, classes)
    if all(_is_told(expression, meaning) for expression in task.test_cases.values()):
        return plan._replace(junk={"True": (_TRUE,) * len(parts)})
    return (
        plan._replace(junk=_junk(task, plan, sandbox)) if all(part.test.outside for part in parts) else plan
    )


def _parts(task: Task, meaning: Meaning, classes: frozenset[str], sandbox: Sandbox) -> tuple[Part, ...]:
    """For each test the first way to divide it that changes nothing for the reference.

    Where there is none, the first way of all; nothing given where that cannot be.
    """
    expressions, ask = list(task.test_cases.values()), partial(_asked, task, sandbox)
    wanted = ask(expressions)
    ways = [_ways(expression, meaning, classes) for expression in expressions]
    first: dict[int, Part] = {}
    found: dict[int, Part] = {}
    while tried := {at: way for at in range(len(ways)) if at not in found and (way := next(ways[at], None))}:
        given = [text for part in tried.values() for text in part.test.given]
        data = iter(ask(given, packed=dict.fromkeys(range(len(given)), classes)))
        parts = {}
        for at, part in tried.items():
            own = [value.text for value in itertools.islice(data, len(part.test.given))]
            parts[at] = part._replace(given=_tuple(own) if all(own) else "")
        first |= {at: part for at, part in parts.items() if at not in first}
        parts = {at: part for at, part in parts.items() if part.given and not part.test.why_whole}
        if not parts:
            continue
        plan = Plan(tuple(parts.values()), classes)
        (results,) = sandbox.run([fixed_job([task], [plan], [task.ground_truth])])
        for at, value in zip(parts, finished([plan], results)[0], strict=True):
            if value.outcome is Outcome.VALUE and value.fingerprint == wanted[at].fingerprint:
                found[at] = parts[at]._replace(returned=value.inside)
    for at, part in first.items():
        if has_value(wanted[at]) and part.given and not part.test.why_whole:
            test = part.test._replace(why_whole="what it makes more of is no data")
            first[at] = part._replace(test=test)
    return tuple(found.get(at) or first[at] for at in range(len(ways)))


def _ways(expression: str, meaning: Meaning, classes: frozenset[str]) -> Iterator[Part]:
    """Ways to divide a test, each with what may cross beside plain data.

    First the calls alone; then with what is read of their values; then so that objects and arrays cross; then with
    more and more of what is done with them.
    """
    base = halves(expression, meaning)
    crossing = classes - meaning.under_test | {ARRAY}
    yield Part(base)
    for only_read in (True, False):
        test, whole = base, frozenset[Place]()
        while more := around(expression, test.places, only_read=only_read) - whole:
            whole |= more
            test = halves(expression, meaning, whole)
            yield Part(test) if only_read else Part(test, crossing)
        if only_read:
            yield Part(base, crossing)


def _tuple(texts: Sequence[str]) -> str:
    """Several data as one."""
    return "[" + ",".join(['"tuple"', *texts]) + "]"


def _is_told(expression: str, meaning: Meaning) -> bool:
    """Whether a method of the answer's own is told something, as in `Account(5).holds(5)`."""
    tree = read(expression)
    call = tree and tree.body
    if not (
        isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and (call.args or call.keywords)
    ):
        return False
    first = root(call)
    name = first.id if isinstance(first, ast.Name) else ""
    return name in meaning.under_test and meaning.kinds.get(name) in {"class", "object"}


def _asked(task: Task, sandbox: Sandbox, expressions: Sequence[str], **more: Any) -> list[TestValue]:
    """What expressions are in the reference's namespace; the data of what has none is empty."""
    if not expressions:
        return []
    program = Program(task.ground_truth, expressions, own_names(task), **more)
    (values,) = sandbox.run([Job("fixed", [program])])
    return [value if value.outcome is Outcome.VALUE else replace(value, text="") for value in values]


_Ask = Callable[..., list[TestValue]]


def _junk(task: Task, plan: Plan, sandbox: Sandbox) -> dict[str, tuple[bytes, ...]]:
    """Fingerprints of what the tests make of each constant in place of all that an answer returns."""
    count, many = len(plan.parts), len(_CONSTANTS)
    every = plan._replace(parts=plan.parts * many)
    data = [_tuple([text] * part.test.parts) for text in _CONSTANTS.values() for part in plan.parts]
    job = _outside_job([task], [every], [TestValue(Outcome.VALUE, text=text) for text in data])
    (found,) = sandbox.run([job] if job else [])
    made = [value.fingerprint for value in found]
    return {what: tuple(made[at * count : (at + 1) * count]) for at, what in enumerate(_CONSTANTS)}


def _meaning(task: Task, ask: _Ask) -> Meaning:
    """What the names in the tests are, as the reference's namespace shows once it has been run."""
    trees = [tree for tree in map(read, task.test_cases.values()) if tree is not None]
    names = sorted({n.id for tree in trees for n in ast.walk(tree) if isinstance(n, ast.Name)})
    (found,) = ask([f"_described_({names!r})"], imports=_DESCRIBE, packed={0: ()})
    described, submodules = unpack(found.text) if found.text else ((), ())
    kinds = {name: kind for name, kind, _, _ in described}
    imports = {name: statement for name, _, statement, _ in described if statement}
    chains = {ast.unparse(n) for tree in trees for n in ast.walk(tree) if isinstance(n, ast.Attribute)}
    for chain in chains.intersection(submodules):  # concurrent.futures is not there for importing concurrent
        name = chain.partition(".")[0]
        if imports.get(name) == f"import {name} as {name}":
            imports[name] += f"\nimport {chain}"
    uses = {name: frozenset(used) for name, _, _, used in described}
    called = [_called(tree, kinds, {"function", "class", "object"}) for tree in trees]
    if not any(called):
        called = [_called(tree, kinds, {"library", None}) for tree in trees]
    under_test = _under_test(task, called, kinds, uses, ask)
    return Meaning(under_test, kinds, imports)


def _called(tree: ast.Expression, kinds: Mapping[str, str], wanted: Collection[str | None]) -> dict[str, str]:
    """The calls of names of these kinds, by name, the outermost first; None: nobody defines the name."""
    calls: dict[str, str] = {}
    names = bound(tree)
    for node in ast.walk(tree):
        name = root(node)
        if (
            isinstance(name, ast.Name)
            and name.id not in names
            and not (name is node and kinds.get(name.id) != "function")
        ):
            kind = kinds.get(name.id)
            if kind in wanted and not (kind is None and hasattr(builtins, name.id)):
                calls.setdefault(name.id, ast.unparse(node))
    return calls


def _under_test(
    task: Task,
    called: Sequence[Mapping[str, str]],
    kinds: Mapping[str, str],
    uses: Mapping[str, Collection[str]],
    ask: _Ask,
) -> frozenset[str]:
    """Which of the names that tests call an answer has to define; the others help the tests.

    Those that the task announces, else those that some test calls alone, else the last one defined of those that no
    other uses; and never one that judges what another returns.
    """
    names = [*dict.fromkeys(itertools.chain.from_iterable(called))]  # the outermost first
    announced = [name for name in names if _is_announced(name, task)]
    names = [name for name in names if kinds.get(name) == "function"] or names
    alone = [name for name in names if any(calls.keys() == {name} for calls in called)]
    left = announced or alone
    left = left or [
        name for name in names if not any(name in uses.get(other, ()) for other in {*names} - {name})
    ]
    for name in list(left):
        if len(left) > 1 and _judges(name, [one for one in left if one != name], called, ask):
            left.remove(name)
    order = defined_names(task.ground_truth)
    last = max(left, key=lambda name: order.index(name) if name in order else -1, default="")
    return frozenset(left if announced or alone else {last})


def _judges(name: str, others: Sequence[str], called: Sequence[Mapping[str, str]], ask: _Ask) -> bool:
    """Whether a function looks at what others return: it says the same in every test, and they do not."""
    said = ask([calls[name] for calls in called if name in calls])
    if len(said) == 1:
        return said[0].text in {"True", "0", "0.0"}
    heard = [ask([calls[other] for calls in called if name in calls and other in calls]) for other in others]
    *differ, same = [len({value.fingerprint for value in values}) for values in [*heard, said]]
    return same == 1 and any(number > 1 for number in differ) and all(value.fingerprint for value in said)


def _is_announced(name: str, task: Task) -> bool:
    announcement = rf"\b(?:class|def)\s+{re.escape(name)}\b|(?<![\w.]){re.escape(name)}\s?\("
    return re.search(announcement, task.problem_description) is not None


def fixed_job(tasks: Sequence[Task], plans: Sequence[Plan], sources: Sequence[str]) -> Job:
    """Definitions (an answer, or references), and what of their tests is evaluated beside them.

    What a test makes of these values is evaluated afterwards, in another process; so the results are for `finished`.
    """
    programs = []
    for task, plan, source in zip(tasks, plans, sources, strict=True):
        tests = [part.test for part in plan.parts]
        programs.append(
            Program(
                source,
                [test.inside for test in tests],
                own_names(task),
                imports="\n".join(dict.fromkeys(test.imports for test in tests if test.imports)),
                packed={at: one.crossing for at, one in enumerate(plan.parts) if one.test.outside},
                classes=plan.classes,
                data=[part.given for part in plan.parts] if any(test.given for test in tests) else (),
            )
        )
    is_divided = any(program.packed for program in programs)
    return Job("fixed", programs, then=partial(_outside_job, tasks, plans) if is_divided else None)


def _outside_job(tasks: Sequence[Task], plans: Sequence[Plan], values: Sequence[TestValue]) -> Job | None:
    left, programs = iter(values), []
    for task, plan in zip(tasks, plans, strict=True):
        found = [
            (part.test.outside, value.text, part.returned)
            for part, value in zip(plan.parts, itertools.islice(left, len(plan.parts)), strict=True)
            if part.test.outside is not None and value.outcome is Outcome.VALUE
        ]
        if found:
            tests, data, returned = zip(*found, strict=True)
            program = Program(task.ground_truth, tests, classes=plan.classes, data=data)
            programs.append(program._replace(is_outside=True, returned=returned))
    return Job("fixed", programs) if programs else None


def finished(plans: Sequence[Plan], results: Sequence[TestValue]) -> list[list[TestValue]]:
    """Values of all tests of each task, given the results of their `fixed_job`."""
    inside = iter(results)
    outside = itertools.islice(results, sum(len(plan.parts) for plan in plans), None)
    return [
        [
            replace(next(outside), inside=value.text)
            if part.test.outside is not None and value.outcome is Outcome.VALUE
            else value
            for part, value in zip(plan.parts, inside, strict=False)
        ]
        for plan in plans
    ]


def why_not_gradable(task: Task, plan: Plan, reference: Sequence[TestValue]) -> str:
    """Why no answer to this task can be graded, given what the reference gives; empty where one can."""
    tests = list(zip(task.test_cases.items(), plan.parts, reference, strict=True))
    for (name, expression), _, value in tests:
        if read(expression) is None and value.text.startswith("SyntaxError"):
            return f"{name} is no expression, as f(1) or f(1) == 2 is (without assert): {expression[:100]!r}"
    if plan.problem:
        return plan.problem
    if tests and all(not has_value(value) for _, _, value in tests):
        (name, _), _, value = tests[0]
        return f"its reference has no value in any test ({name}: {value.text or value.outcome})"
    failed = [
        f"{name}: {expression}"
        for (name, expression), part, value in tests
        if part.test.outside is not None and value.outcome is Outcome.VALUE and value.text == _FALSE
    ]
    if failed:
        count = f"{len(failed)} of {len(tests)} comparisons"
        return f"its reference fails {count} that its tests make, as any junk does ({failed[0]})"
    for what, found in plan.junk.items():
        if {*found, *(value.fingerprint for value in reference)} == {_TRUE}:
            return f"an answer that returns {what} whatever it is asked passes all of its tests"
    return ""


def has_value(value: TestValue) -> bool:
    """Whether a reference's value can be met by an answer."""
    return value.outcome is Outcome.VALUE and value.fingerprint != NONE


def own_names(task: Task) -> tuple[str, ...]:
    """Builtins that an answer may replace, since the reference does."""
    return _builtins_in(task.ground_truth)


@cache
def _builtins_in(source: str) -> tuple[str, ...]:
    return tuple(name for name in defined_names(source) if hasattr(builtins, name))
