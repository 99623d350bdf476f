"""Hidden tests: what of them an answer may see, what is made of its values outside, what no answer can be graded by."""

import ast
import textwrap
from functools import cache

import pytest

from sweet_rl.grading.code import CodeGrader, constant_answer, constant_floor
from sweet_rl.grading.divider import Divider, NotDivisible, looked_up
from sweet_rl.grading.hidden_tests import is_plain_call, plan_of
from sweet_rl.grading.sandbox import Job, Outcome, Program, Sandbox, TestValue
from sweet_rl.types import Task, Trajectory
from sweet_rl.worlds import load_tasks
from tests.grading.attacks import CASES, NAMES, Playground, loads_packages

DATA = {"LIMIT": "[7]", "LIMIT[0]": "7", "Node(1)": "<answer.Node object>"}
KINDS = {
    "f": "function", "g": "function", "Stack": "class", "len": "function", "Node": "class", "close": "function",
    "LIMIT": "data", "math": "import math as math", "day": "from datetime import date as day",
    "concurrent": "import concurrent as concurrent", "concurrent.futures": "import concurrent.futures",
}  # fmt: skip


def divided(expression, way="calls"):
    def ask(texts, **_):
        return [TestValue(Outcome.VALUE, text=DATA[text]) for text in texts]

    tree = ast.parse(expression.strip(), mode="eval")
    return Divider(tree, frozenset({"f", "g", "Stack", "len"}), KINDS, ask, way).divided()


DIVIDED = {
    "f(3)": ("f(3)", None),
    "f(g(1), 'a == b')": ("f(g(1), 'a == b')", None),
    "f(3 == 3)": ("f(3 == 3)", None),
    "f(1)(2)": ("f(1)(2)", None),
    "Stack().push(3).size()": ("Stack().push(3).size()", None),
    "f(3) == 7": ("(f(3), )", "_values_[0] == 7"),
    "abs(f(2) - 0.5) < 1e-6": ("(f(2), )", "abs(_values_[0] - 0.5) < 1e-06"),
    "f(1) == 1 and not g(2) == 3": ("(f(1), g(2), )", "_values_[0] == 1 and (not _values_[1] == 3)"),
    "f(g(2) == 2) == 4": ("(f(g(2) == 2), )", "_values_[0] == 4"),
    "f('a').upper().startswith('A')": ("(f('a'), )", "_values_[0].upper().startswith('A')"),
    "f({'a': 1})['a'] - (7)": ("(f({'a': 1}), )", "_values_[0]['a'] - 7"),
    "Stack().push(3).items[0] == 1": ("(Stack().push(3).items[0], )", "_values_[0] == 1"),
    "f(1).same(4)": ("(f(1), )", "_values_[0].same(4)"),
    "f(1).check()(4)": ("(f(1), )", "_values_[0].check()(4)"),
    "(lambda v: v == 4)(f(2))": ("(f(2), )", "(lambda v: v == 4)(_values_[0])"),
    "all(n > 0 for n in f([1]))": ("(f([1]), )", "all((n > 0 for n in _values_[0]))"),
    "list(filter(lambda n: f(3) == n, [1, 2]))": ("(f(3), )", "list(filter(lambda n: _values_[0] == n, [1, 2]))"),
    "(y := f(3)) == 3 and y > 2": ("(f(3), )", "(y := _values_[0]) == 3 and y > 2"),
    "close(f(LIMIT, LIMIT[0] + 1), 7)": ("(f([7], 7 + 1), )", "close(_values_[0], 7)"),
    "f(*LIMIT) == LIMIT[0]": ("(f(*[7]), )", "_values_[0] == LIMIT[0]"),
    "f(lambda n: n) == 1": ("(f(lambda n: n), )", "_values_[0] == 1"),
    "f(2) == day(2020, 1, 1)": ("(f(2), )", "_values_[0] == day(2020, 1, 1)"),
    "f'{f(3)}'": ("(f(3), )", "f'{_values_[0]}'"),
    "len(3) == 3": ("(len(3), )", "_values_[0] == 3"),
}  # fmt: skip

TOO_MUCH = {
    "all(f(n) == n for n in [3])": "it calls again for each 'n'",
    "(lambda d: (f(d), d))({}) == {1: 2}": "it calls again for each 'd'",
    "list(map(f, [1])) == [1]": "it needs 'f', to which an answer could give any meaning",
    "f(Node(1)) == 2": "an argument is no literal",
    "f(close(g(1))) == 2": "hands what an answer returns to a helper",
    "1 + 1 == 2": "calls no function",
}


@pytest.mark.parametrize("expression", DIVIDED)
def test_a_test_is_divided(expression):
    assert divided(expression)[:2] == DIVIDED[expression]


CLASSES = """
import operator
class V:
    def __init__(self, x): self.x = x
    def __add__(self, other): return V(self.x + other.x)
    def __len__(self): return self.x
    def __iter__(self): return iter([V(self.x)] * self.x)
    def same(self, x): return self.x == x
def level(n):
    while True: yield n
def odd(n): return lambda: V(n)
"""
SMALLEST = {
    "abs((V(1) + V(2)).x - 3) < 1": ("((V(1) + V(2)).x, )", "abs(_values_[0] - 3) < 1"),
    "len(V(2)) == 2 and max(V(3).x for n in [1]) == 3": (
        "(len(V(2)), V(3).x, )", "_values_[0] == 2 and max((_values_[1] for n in [1])) == 3"),
    "[v.x for v in V(2)] == [2, 2]": ("([v.x for v in V(2)], )", "_values_[0] == [2, 2]"),
    "str(len(V(2)))": ("(len(V(2)), )", "str(_values_[0])"),
    "next(level(3)) == 3": ("(next(level(3)), )", "_values_[0] == 3"),
    "odd(3)().x == 3": ("(odd(3)().x, )", "_values_[0] == 3"),
}  # fmt: skip
SAYS_TOO_MUCH = ["V(1) == V(1)", "[v.x - 2 for v in V(2)] == [0, 0]", "odd(3)().same(3)", "(lambda v: v().same(3))(odd(3))", "operator.contains(level(1), 1)", "all(a == b for a, b in zip(level(1), [1, 1]))", "(lambda v: abs(v().x - 3))(odd(3)) == 0", "[V(n).x == m for n, m in [(1, 1)]]", "[V(n).x * m for n, m in [(1, 1)]]"]  # fmt: skip


@pytest.mark.parametrize("expression", [*SMALLEST, *SAYS_TOO_MUCH])
def test_the_smallest_part_that_crosses_runs_beside_the_answer(expression, sandbox):
    def ask(expressions, **more):
        (values,) = sandbox.run([Job("fixed", [Program(CLASSES, expressions, **more)])])
        return [value if value.outcome is Outcome.VALUE else TestValue(Outcome.ERROR) for value in values]

    kinds = {"V": "class", "level": "function", "odd": "function", "operator": "import operator as operator"}
    divider = Divider(
        ast.parse(expression, mode="eval"), frozenset({"V", "level", "odd"}), kinds, ask, "smallest"
    )
    if expression in SAYS_TOO_MUCH:
        with pytest.raises(NotDivisible):
            divider.divided()
    else:
        assert divider.divided()[:2] == SMALLEST[expression]


LOOPS = {
    "all(level(n) == m for n, m in [(1, 2), (4, 8)])": "(level(1), level(4), )",
    "sum(level(n, k=-n) for n in range(4) if n % 2 if level(n) > 3) == 1": "(level(1, k=-1), level(3, k=-3), level(1), level(3), )",
    "[*map(level, [1], [2])] + [max(3, 4, key=level)]": "(level(1, 2), level(3), level(4), )",
    "all(a == b for n in (2, 3) for a, b in zip(level(n), [5, 7]))": "(level(2), level(3), )",
    "all(level(*p, **k) for p, k in [((1, 2), {'a': 3})])": "(level(1, 2, a=3), )",
}  # fmt: skip
DEPENDENT = ["[level(n) for n in level(3)]", "functools.reduce(level, [5, 6])", "[*map(level, map(level, [1]))]", "[level(level(n)) for n in [1]]", "(lambda f: f(3))(level)", "[y := level(1), level(y)]", "[level(n) for n in []]", "[level(n) for n in 'ab' for n in level(n)]"]  # fmt: skip


@pytest.mark.parametrize("expression", [*LOOPS, *DEPENDENT])
def test_a_loop_is_its_calls_where_none_depends_on_another(expression, sandbox):
    def ask(expressions, **more):
        (values,) = sandbox.run([Job("fixed", [Program("", expressions, **more)])])
        return values

    tree = ast.parse(expression, mode="eval")
    if expression in DEPENDENT:
        with pytest.raises(NotDivisible):
            looked_up(tree, frozenset({"level"}), {"level": "function"}, ask)
    else:
        part = looked_up(tree, frozenset({"level"}), {"level": "function"}, ask)
        assert (part.inside, part.parts) == (LOOPS[expression], LOOPS[expression].count("level"))


def test_what_is_read_of_a_value_may_be_read_beside_the_answer():
    assert divided("f(2).x.y == 4", "reads")[:2] == ("(f(2).x.y, )", "_values_[0] == 4")
    assert divided("f(2).total() + f(2)", "reads").inside == "(f(2).total(), f(2), )"
    assert divided("f(2).same(4)", "reads")[:2] == ("(f(2).same, )", "_values_[0](4)")


@pytest.mark.parametrize("expression", TOO_MUCH)
def test_what_cannot_be_divided_is_said(expression):
    with pytest.raises(NotDivisible, match=TOO_MUCH[expression]):
        divided(expression)


def test_imports_are_those_of_the_arguments():
    assert divided("f(day(2020, 1, 1)) == math.pi").imports == KINDS["day"]
    assert divided("f(concurrent.futures.x)").imports.splitlines() == [
        KINDS["concurrent.futures"],
        KINDS["concurrent"],
    ]


def test_one_call_with_literals_needs_no_reading():
    for expression in ("f(3)", " f([1, (2, 'a == b')], key={'a': None})", 'f("x", -1.5e3)'):
        assert is_plain_call(expression)
    more = "f(x)|f(3) == 7|f(3)(4)|f(3) if f(4) else 5|f(a == 3)|len(f(3))|f(k=LIMIT)|f(3), g(4)|f('a' \"b\" + c)"
    assert [one for one in more.split("|") if is_plain_call(one)] == []


ROWS = [case for cases in NAMES.values() for case in cases if case not in CASES]
"""The others are graded by test_hostile.py."""


@pytest.fixture(scope="module")
def score_of(tmp_path_factory):
    """Scores of all rows that load packages, or of all others, each from one stream through two workers."""

    @cache
    def graded(is_slow):
        ground = Playground(
            tmp_path_factory.mktemp("ground"), lambda: Sandbox(workers=2, timeout_s=3 if is_slow else 1)
        )
        rows = [case for case in ROWS if loads_packages(case) == is_slow]
        try:
            return dict(zip((case.name for case in rows), ground.grade(*rows), strict=True))
        finally:
            ground.close()

    return lambda case: graded(loads_packages(case))[case.name]


@pytest.mark.xdist_group("names")
@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=case.name, marks=pytest.mark.slow if loads_packages(case) else ())
        for case in ROWS
    ],
)
def test_names_mean_what_the_reference_means(case, score_of):
    score = score_of(case)
    assert score.value == case.score, (score.note, score.tests)


def test_what_the_published_tasks_need(shared, sandbox):
    """Of 500 tasks with ten tests each; docs/grading.md has the numbers."""
    tasks = list(load_tasks(str(shared / "data/colbench/backend_tasks_500.jsonl")))
    special = [task for task in tasks if not all(map(is_plain_call, task.test_cases.values()))]
    plans = [plan_of(task, sandbox) for task in special]
    assert sum(len(plan.tests) for plan in plans) == 60
    assert sorted(all(test.outside for test in plan.tests) for plan in plans) == [False] * 3 + [True] * 3
    found = CodeGrader(sandbox).reference_outputs(tasks)
    reasons = {task.task_id: why for task in tasks if (why := found[task.task_id].why_not_gradable)}
    assert {task: why.partition("(")[0].strip() for task, why in reasons.items()} == {
        "2029d672ba413190": "its reference fails 8 of 10 comparisons that its tests make, as any junk does",
        "8f953aec529b120f": "its reference fails 3 of 10 comparisons that its tests make, as any junk does",
        "d4cf4de9ebbd3552": "its reference fails 4 of 10 comparisons that its tests make, as any junk does",
        "fba680dc6fb2b630": "its reference has no value in any test",
    }


@pytest.fixture(scope="module")
def sandbox():
    with Sandbox(workers=1, timeout_s=5) as sandbox:
        yield sandbox


def task_of(reference, *tests):
    numbered = {f"test{number}": test for number, test in enumerate(tests, start=1)}
    return Task("t", "", reference, reference, numbered, {})


def scores_of(sandbox, task, *answers):
    answers = answers or [task.ground_truth]
    return list(CodeGrader(sandbox).grade([Trajectory(task, (), textwrap.dedent(one)) for one in answers]))


COMPARISONS = task_of(
    "def f(x):\n    return x * 2 + 0.0\n",
    "f(3) == 6", "abs(f(0.1) - 0.2) < 1e-6", "f(2) in [4, 404040404040404]", "isinstance(f(5), float)",
)  # fmt: skip
ALL_EQUAL = (
    "class A(float):\n    __eq__ = __lt__ = __sub__ = lambda *_: True\n    __hash__ = float.__hash__\n"
)
SEARCH = """
import gc
s = __import__('sys')
def f(x):
    gc.unfreeze()
    frames, texts = [s._getframe()], []
    while frames[-1].f_back:
        frames.append(frames[-1].f_back)
    for frame in frames:
        texts += [repr(frame.f_locals), repr(frame.f_code.co_consts)]
    for found in gc.get_objects():
        texts += [repr(one) for one in gc.get_referents(found) if type(one) in (str, bytes, int, float, tuple)]
        texts += [repr(one.co_consts) for one in gc.get_referents(found) if type(one).__name__ == 'code']
    return 'found' if any(''.join(['4', '04040404040404']) in text for text in texts) else x * 2 + 0.0
"""


def test_comparisons_are_made_outside(sandbox):
    right, wrong, close, raises, odd = scores_of(
        sandbox,
        COMPARISONS,
        "def f(x):\n    return x + x + 0.0\n",
        "def f(x):\n    return -1\n",
        "def f(x):\n    return 2.0000001 * x\n",
        "def f(x):\n    return {3: 6, 2: 4}[x]\n",
        ALL_EQUAL + "def f(x):\n    return A(9)\n",
    )
    assert [score.value for score in (right, wrong, close, raises, odd)] == [1.0, 0.0, 0.5, 0.5, 0.25]
    assert [(one.outcome, one.expected, one.got) for one in wrong.tests] == [("failed", "True", "False")] * 4
    assert [test.outcome for test in raises.tests] == ["passed", "error", "passed", "error"]


def test_an_answer_finds_no_expected_value_in_its_process():
    """A number of fifteen digits: of five there are some thousand in memory by chance, in its addresses."""
    with Sandbox(workers=1, timeout_s=20) as sandbox:
        (score,) = scores_of(sandbox, COMPARISONS, SEARCH)
    assert score.value == 1.0, score.tests


def test_arguments_have_the_imports_that_they_need(sandbox):
    reference = "from datetime import date\nfrom math import gcd\ndef f(day):\n    return day.isoformat()\n"
    tests = "f(date(2024, 5, 1))", "f(day=date(2024, 5, 2)) == '2024-05-02'", "f(date(2024, 5, 3))"
    (score,) = scores_of(sandbox, task_of(reference, *tests), "def f(day):\n    return str(day)\n")
    assert score.value == 1.0, score.tests


IMPORTS_NOTHING = "def f(x):\n    import no_such_package\n"


@pytest.mark.parametrize(
    ("reference", "tests", "why"),
    [
        ("def f(x):\n    return x\n", ("list(filter(lambda n: f(n) == n, range(3)))", "f(1)"), "test1 would show the answer what is expected: it calls again"),
        ("from math import gcd\ndef f(x):\n    return x\n", ("gcd(4, 6)", "f(gcd(4, 6) == 2)"), "calls no function"),
        ("def f(x):\n    return 5\n", ("f(1) == 5", "f(2) == 6"), "its reference fails 1 of 2 comparisons that its tests make, as any junk does (test2: f(2) == 6)"),
        (IMPORTS_NOTHING, ("f(1)", "f(2)"), "its reference has no value in any test (test1: ModuleNotFoundError: No module named 'no_such_package')"),
    ],
)  # fmt: skip
def test_why_a_task_cannot_be_graded_is_said(sandbox, reference, tests, why):
    for score in scores_of(sandbox, task_of(reference, *tests), reference, "def f(x):\n    return -1\n"):
        assert score.value is None
        assert score.note.startswith("cannot be graded: ")
        assert why in score.note
        assert "would show" not in why or [test.detail for test in score.tests] == ["not run", "not run"]


def test_an_answer_without_a_return_is_told_so(sandbox):
    bodies = "print(x * 2)", "return (None,)", "return 'None'", "return None if x == 1 else 4"
    task = task_of("def f(x):\n    return x * 2\n", "f(1)", "f(2) == 4", "f(1) < f(2)")
    notes = [one.note[:27] for one in scores_of(sandbox, task, *(f"def f(x): {body}" for body in bodies))]
    assert notes == ["returned None in every test", "", "", ""]


def test_a_reference_may_give_false_and_none_in_some_tests(sandbox):
    fine = task_of("def f(x):\n    return x > 5\n", "f(1)", "f(9)")  # False is a value like any other
    assert [one.value for one in scores_of(sandbox, fine, fine.ground_truth, "def f(x): return 0")] == [
        1.0,
        0.5,
    ]
    partly = task_of("def f(x):\n    return x or None\n", "f(1)", "f(0)")
    assert [score.value for score in scores_of(sandbox, partly)] == [0.5]


def test_the_best_constant_answer_gives_what_is_compared(sandbox):
    task = task_of("def f(x):\n    return 5\n", "f(1) == 5", "f(2) < 6", "f(0)")
    outputs = CodeGrader(sandbox).reference_outputs([task])["t"]
    answer = constant_answer(task, outputs)
    assert not outputs.why_not_gradable
    assert "return 5" in answer
    assert [score.value for score in scores_of(sandbox, task, answer)] == [1.0]
    assert constant_floor(outputs) == pytest.approx(2 / 3)
    several = task_of("def f(x):\n    return 5\n", "f(1) == f(2)", "f(1) + 0 == f(3)")
    assert "return None" in constant_answer(several, CodeGrader(sandbox).reference_outputs([several])["t"])
