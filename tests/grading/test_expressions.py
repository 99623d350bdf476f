"""Tests that hold what they expect: what of them an answer may see, and what is made of its values outside."""

import collections
import datetime as dt
import textwrap
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given, settings

from sweet_rl.grading.code import CodeGrader, constant_answer, constant_floor
from sweet_rl.grading.expressions import Halves, Meaning, halves, name_of_call
from sweet_rl.grading.sandbox import Sandbox
from sweet_rl.grading.sandbox.guest.values import NotPlainData, fingerprint
from sweet_rl.grading.sandbox.guest.wire import pack, unpack
from sweet_rl.types import Task, Trajectory
from tests.grading.test_values import VALUES

MEANING = Meaning(
    under_test=frozenset({"f", "g", "Stack", "len"}),
    kinds={"Stack": "class", "Node": "class", "len": "function", "close": "function", "LIMIT": "data", "math": "library", "re": "library", "day": "library"},
    imports={"math": "import math as math", "re": "import re as re", "day": "from datetime import date as day"},
)  # fmt: skip

WHOLE = [
    "f(3)", " f([1, (2, 3)], key={'a': 1})\n", "f(g(1), 'a == b')", "Stack(3)", "Stack().push(3).size()", "f(1)(2)",
    "map(f, [1, 2])", "sorted([3, 1], key=f)", "f(3 == 3)", "f(", "f(3) = 7",
    "len(3)", "f(*[1, 2], **{'a': 1})", "eval(f(2))",
]  # fmt: skip

DIVIDED = {
    "f(3) == 7": ("(f(3), )", "_values_[0] == 7"),
    "7 == f(3)": ("(f(3), )", "7 == _values_[0]"),
    "abs(f(2) - 0.5) < 1e-6": ("(f(2), )", "abs(_values_[0] - 0.5) < 1e-06"),
    "f(2) in [1, 2]": ("(f(2), )", "_values_[0] in [1, 2]"),
    "isinstance(f(2), int)": ("(f(2), )", "isinstance(_values_[0], int)"),
    "sorted(f([2])) == [2]": ("(f([2]), )", "sorted(_values_[0]) == [2]"),
    "f(1) == 1 and not g(2) == 3": ("(f(1), g(2), )", "_values_[0] == 1 and (not _values_[1] == 3)"),
    "f(1), (7 == g(2))": ("(f(1), g(2), )", "(_values_[0], 7 == _values_[1])"),
    "f(1)\\\n == (7)": ("(f(1), )", "_values_[0] == 7"),
    "f(g(2) == 2) == 4": ("(f(g(2) == 2), )", "_values_[0] == 4"),
    "f('a').upper().startswith('A')": ("(f('a'), )", "_values_[0].upper().startswith('A')"),
    "f({'a': 1})['a'] - (7)": ("(f({'a': 1}), )", "_values_[0]['a'] - 7"),
    "round(number=f(2.555), ndigits=2)": ("(f(2.555), )", "round(number=_values_[0], ndigits=2)"),
    "Stack().push(3).size() == 1": ("(Stack().push(3).size(), )", "_values_[0] == 1"),
    "Stack().items[0] == 1": ("(Stack().items[0], )", "_values_[0] == 1"),
    "f(1)(2) == 3": ("(f(1)(2), )", "_values_[0] == 3"),
    "list(map(f, [1])) == [1]": ("(map(f, [1]), )", "list(_values_[0]) == [1]"),
    "[f(n) for n in range(3)] == [0, 1, 2]": (
        "([f(_a0) for _a0, in _values_[0]], )",
        "[_of_0 for n in range(3) if [(_of_0 := _values_[0].pop(0))]] == [0, 1, 2]",
    ),
    "all(f(n, k=m) == m for n, m in [(1, 2)] if n)": (
        "([f(_a0, k=_a1) for _a0, _a1 in _values_[0]], )",
        "all((_of_0 == m for n, m in [(1, 2)] if n if [(_of_0 := _values_[0].pop(0))]))",
    ),
    "list(filter(lambda n: f(3) == n, [1, 2]))": ("(f(3), )", "list(filter(lambda n: _values_[0] == n, [1, 2]))"),
    "(lambda v: v == 4)(f(2))": ("(f(2), )", "(lambda v: v == 4)(_values_[0])"),
    "(lambda d: (f(d), d))({}) == {1: 2}": ("((lambda d: (f(d), d))({}), )", "_values_[0] == {1: 2}"),
    "all(f(g(n)) == n for n in [3])": (
        "([f(g(_a0)) for _a0, in _values_[0]], )",
        "all((_of_0 == n for n in [3] if [(_of_0 := _values_[0].pop(0))]))",
    ),
    "close(f(LIMIT), 7)": ("(f(_values_[0]), )", "close(_values_[0], 7)"),
    "f(Node(1)) == Node(2)": ("(f(Node(1) if 'Node' in globals() else _values_[0]), )", "_values_[0] == Node(2)"),
    "f(day(2024, 5, 1), *LIMIT) == LIMIT[0]": ("(f(day(2024, 5, 1), *_values_[0]), )", "_values_[0] == LIMIT[0]"),
    "eval(f(2)) == 4": ("(eval(f(2)), )", "_values_[0] == 4"),
    "bool(re.match(f(2), 'aa')) == True": ("(bool(re.match(f(2), 'aa')), )", "_values_[0] == True"),
    "f(2).format(4) == '4'": ("(f(2).format(4), )", "_values_[0] == '4'"),
    "f'{4:{f(2)}}' == '4'": ("(f'{4:{f(2)}}', )", "_values_[0] == '4'"),
    "all(n > 0 for n in f([1]))": ("(f([1]), )", "all((n > 0 for n in _values_[0]))"),
    "sorted(f([[1]]), key=lambda p: p[0]) == [[1]]": (
        "(f([[1]]), )",
        "sorted(_values_[0], key=lambda p: p[0]) == [[1]]",
    ),
    "(y := f(3)) == 3 and y > 2": ("(f(3), )", "(y := _values_[0]) == 3 and y > 2"),
    "math.isclose(f(2), 2.0)": ("(f(2), )", "math.isclose(_values_[0], 2.0)"),
    "np.allclose(f(2), [2])": ("(f(2), )", "np.allclose(_values_[0], [2])"),
    "f(2) == day(2020, 1, 1)": ("(f(2), )", "_values_[0] == day(2020, 1, 1)"),
    "f'{f(3)}'": ("(f(3), )", "f'{_values_[0]}'"),
    "len(3) == 3": ("(len(3), )", "_values_[0] == 3"),
}  # fmt: skip

TOO_MUCH = {
    "all(f(n) == n for n in g([3]))": "goes through what an answer returns",
    "list(filter(lambda n: f(n) == 2, [1, 2]))": "compares inside a comprehension or lambda",
    "f is not None": "it needs 'f'",
    "1 + 1 == 2": "calls no function",
    "eval(f(2) if 1 == 1 else '')": "taken for a name, a format or a program",
}


@pytest.mark.parametrize("expression", WHOLE)
def test_what_only_calls_stays_whole(expression):
    assert halves(expression, MEANING)[:5] in {
        Halves(expression)[:5],
        (f"({expression}, )", "_values_[0]", "", (), ""),  # where not the answer's own call is outermost
    }


@pytest.mark.parametrize("expression", DIVIDED)
def test_what_compares_is_divided(expression):
    assert halves(expression, MEANING)[:2] == DIVIDED[expression]


def test_what_an_answer_is_given_is_of_the_reference_or_of_a_library():
    assert halves("f(LIMIT, LIMIT + 1)", MEANING).given == ("LIMIT", "LIMIT + 1")
    assert halves("all(f(n) == m for n, m in LIMIT)", MEANING).given == ("[(n, ) for n, m in LIMIT]",)
    imports = halves("f(day(2020, 1, 1)) == day(2020, 1, LIMIT)", MEANING).imports
    assert imports == "from datetime import date as day"


@pytest.mark.parametrize("expression", TOO_MUCH)
def test_what_cannot_be_divided_is_said(expression):
    assert TOO_MUCH[expression] in halves(expression, MEANING).why_whole


def test_one_call_with_literals_needs_no_reading():
    for expression in ("f(3)", " f([1, (2, 'a == b')], key={'a': None})", 'f("x", -1.5e3)'):
        assert name_of_call(expression) == "f"
    more = "f(x)|f(3) == 7|f(3)(4)|f(3) if f(4) else 5|f(a == 3)|len(f(3))|f(k=LIMIT)|f(3), g(4)|f('a' \"b\" + c)"
    assert [one for one in more.split("|") if name_of_call(one) == "f"] == []


@settings(deadline=None)
@given(VALUES)
def test_what_travels_arrives(value):
    arrived = unpack(pack(value))
    assert fingerprint(arrived) == fingerprint(value)
    assert arrived == value


def test_types_travel_too():
    values = [
        1, 1.0, True, {1}, frozenset({1}), (1,), [1], b"a", bytearray(b"a"), 10**400, -0.0, float("inf"), 1j, Decimal("1.50"),
        Fraction(1, 3), dt.datetime(2020, 1, 1, tzinfo=dt.UTC), dt.date.min, dt.time.max, dt.timedelta(1, 2, 3),
        collections.deque([1]), range(3), ..., None, "\ud800", {"a": [None]},
    ]  # fmt: skip
    for value in values:
        assert (type(unpack(pack(value))), repr(unpack(pack(value)))) == (type(value), repr(value))
    assert list(unpack(pack(iter([1, 2])))) == [1, 2]
    assert unpack(pack(collections.Counter("aa"))) == {"a": 2}
    for value in (object(), len, "x" * 2**20):
        with pytest.raises(NotPlainData):
            pack(value)
    for text in ('["os.system", "true"]', '["decimal.getcontext"]', '["list", ["nothing"]]', "[]", "{"):
        with pytest.raises((KeyError, IndexError, ValueError)):
            unpack(text)


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
    assert [(test.outcome, test.expected, test.got) for test in wrong.tests] == [
        ("failed", "True", "False")
    ] * 4
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
        ("def f(x):\n    return x\n", ("list(filter(lambda n: f(n) == n, range(3)))", "f(1)"), "test1 would show the answer what is expected: it compares"),
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
