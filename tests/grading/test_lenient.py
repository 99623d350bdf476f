"""The lenient reading: what a person takes for the code, and a grade that is never below the fixed one."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sweet_rl.grading import lenient_code
from sweet_rl.grading.code import CodeGrader
from sweet_rl.grading.sandbox import Sandbox
from sweet_rl.types import AgentTurn, Task, Trajectory

F = "def f(x):\n    return x * 2\n"
G = "def g(x):\n    return 1\n"
CODE = F.strip("\n")

READ = {
    F: CODE,
    f"```py\n{F}```": F,
    f"```Python\n{F}```": F,
    f"```python3\n{F}```\nIt doubles (twice).": F,
    f"~~~python\n{F}~~~": F,
    f"Sure! Here is the code:\n\n{F}\nThis function doubles x.": CODE,
    f"First:\n```python\n{G}```\nthen the answer:\n```python\n{F}```": F,
    f"```python\ndef f(x):\n    return 0\n```\nNo, better:\n```\n{F}```\nand\n```\n{G}```": F,
    f"```python\n{F}": F,
    f"{F}```\n": CODE,
    "def f(x):\n    '''```'''\n    return x * 2\n": "def f(x):\n    '''```'''\n    return x * 2",
    " def f(x):\n    return x * 2\n": "def f(x):\n   return x * 2",
    f" def f(x):\n    return x * g(x)\n{G}": f"def f(x):\n    return x * g(x)\n{G}",
    "    def f(x):\n        return x * 2\n": CODE,
    "\ufeff" + F: CODE,
    F.replace("\n", "\r\n"): CODE,
    "def f(x):\n\u00a0\u00a0\u00a0\u00a0return x * 2\n": CODE,
    "f = lambda x: x * 2": "f = lambda x: x * 2",
    f"import math\nfrom re import sub\n@cache\n{F}print(f(2))\nif True:\n    pass\nGood luck (really)!": (
        f"import math\nfrom re import sub\n@cache\n{F}print(f(2))\nif True:\n    pass"
    ),
}


@pytest.mark.parametrize("answer", READ)
def test_what_is_read(answer):
    read = lenient_code(Trajectory(Task("t", "", F, F, {}, {}), (), answer), "f")
    assert read is not None
    assert read.strip("\n") == READ[answer].strip("\n")


@pytest.mark.parametrize(
    "answer", [None, "No answer", "", "I would double it.", G, f"```\n{G}```", "x" * 300_000 + F]
)
def test_nothing_is_read_where_the_function_is_not_defined(answer):
    assert lenient_code(Trajectory(Task("t", "", F, F, {}, {}), (), answer), "f") is None


def test_code_before_the_marker_is_read():
    task = Task("t", "", F, F, {"test1": "f(1)", "test2": "f(2)"}, {})
    content = f"This is it:\n```python\n{F}```\nI WANT TO ANSWER: as above"
    turn = AgentTurn("assistant", content, output=content)
    with Sandbox(workers=1) as sandbox:
        (grades,) = CodeGrader(sandbox).grade_all([Trajectory(task, (turn,), " as above")])
    assert (grades.fixed.value, grades.published.value, grades.lenient.value) == (0, 0, 1)


def test_a_blank_before_a_function_of_one_line():
    task = Task("t", "", F, F, {"test1": "f(1)"}, {})
    with Sandbox(workers=1) as sandbox:
        (grades,) = CodeGrader(sandbox).grade_all([Trajectory(task, (), " def f(x): return x + x")])
    assert (grades.fixed.value, grades.lenient.value) == (0, 1)


PIECES = [
    F, G, "```", "```py\n", "```python\n", "\n", "Some words.\n", "f = ", "f(1)\n", "    return 3\n", "import os\n", "x = 1\n", "'''",
    "def f(x):\n    return 4\n",
]  # fmt: skip


@pytest.fixture(scope="module")
def sandbox():
    with Sandbox(workers=1) as sandbox:
        yield sandbox


@settings(deadline=None, max_examples=5)
@given(st.lists(st.lists(st.sampled_from(PIECES), max_size=6).map("".join), min_size=20, max_size=20))
def test_never_below_fixed(sandbox, answers):
    task = Task("t", "", F, F, {"test1": "f(1)", "test2": "f(2)"}, {})
    for grades in CodeGrader(sandbox).grade_all([Trajectory(task, (), answer) for answer in answers]):
        assert (grades.lenient.value or 0) >= (grades.fixed.value or 0)
