"""Published and lenient grading: goldens, how the original executes an answer, and how often the ways agree."""

import json
import textwrap
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sweet_rl.grading import lenient_code
from sweet_rl.grading.code import CodeGrader
from sweet_rl.grading.sandbox import Sandbox
from sweet_rl.records import load_trajectories
from sweet_rl.types import AgentTurn, Task, Trajectory
from sweet_rl.worlds import load_tasks
from tests.grading.agreement import grade, made, table
from tests.grading.mutations import KINDS

pytestmark = pytest.mark.xdist_group("published_grading")  # one sandbox for all of them

DOUBLE = "def f(x):\n    return x * 2\n"
FOUR_TESTS = {f"test{n}": f"f({n})" for n in range(1, 5)}

SCORES = {
    "a dataclass": (
        """
        from dataclasses import dataclass
        @dataclass
        class Pair:
            a: int
            b: int = 2
        def f(x, pair=Pair):
            return pair(x).a * pair(x).b
        """,
        1.0,
    ),
    "a dataclass with annotations as text": (
        """
        from __future__ import annotations
        def f(x):
            from dataclasses import dataclass
            @dataclass(frozen=True, order=True)
            class Pair:
                a: int
            return Pair(x).a + x
        """,
        1.0,
    ),
    "a NamedTuple and an Enum": (
        """
        def f(x):
            from enum import Enum, IntEnum
            from typing import NamedTuple
            class Pair(NamedTuple):
                a: int
            class Factor(IntEnum):
                TWO = 2
            return Pair(x).a * Factor.TWO + 0 * Enum('E', 'a b').a.value
        """,
        1.0,
    ),
    "type hints looked up": (
        """
        def f(x: int) -> "int":
            import typing
            class Thing:
                size: "int"
            return x * len({typing.get_type_hints(Thing)['size'], str})
        """,
        1.0,
    ),
    "an abstract class, inspected": (
        """
        def f(x):
            import abc, inspect
            class Base(abc.ABC):
                @abc.abstractmethod
                def size(self): ...
            class Thing(Base):
                def size(self):
                    return x
            return 2 * Thing().size() if inspect.isabstract(Base) else None
        """,
        1.0,
    ),
    "annotations are evaluated: List is not imported": ("def f(x: List[int]):\n    return x * 2\n", 0.0),
    "annotations are evaluated: List is imported": (
        "from typing import List\ndef f(x: List[int]) -> List[int]:\n    return x * 2\n",
        1.0,
    ),
    "a try-out block": ("def f(x):\n    return 2 * x\nif __name__ == '__main__':\n    f = None\n", 1.0),
    "the module it runs in can be found": (
        """
        def f(x):
            import importlib
            module = importlib.import_module(__name__)
            return 2 * x if vars(module) is globals() and __file__.endswith('.py') and __package__ else 0
        """,
        1.0,
    ),
    "the builtins are a dict, as in every imported module": (
        "def f(x):\n    return __builtins__['sum']([x, x])\n",
        1.0,
    ),
    "names of the evaluation's own module": (
        "def f(x):\n    signal.alarm(0)\n    return x * len([multiprocessing.cpu_count, signal.SIGALRM])\n",
        1.0,
    ),
    "a class of its own cannot be pickled": (
        """
        class Thing:
            pass
        def f(x, thing=Thing):
            import pickle
            pickle.dumps(thing())
            return x * 2
        """,
        0.0,
    ),
    "a global that an answer sets stays for its next tests": (
        "def f(x):\n    global seen\n    seen = globals().get('seen', 0) + 1\n    return 2 * x if seen < 3 else 0\n",
        0.5,
    ),
    "what is called exit": ("def f(x):\n    return 2 * x if exit and help and quit else 0\n", 1.0),
    "raises SystemExit": ("def f(x):\n    raise SystemExit\n", None),
    "a comparison that raises": (
        """
        def f(x):
            class Odd:
                def __eq__(self, other):
                    raise KeyError
            return Odd()
        """,
        None,
    ),
    "a comparison that has no truth": (
        """
        def f(x):
            class Odd:
                def __eq__(self, other):
                    raise ValueError
            return Odd()
        """,
        0.0,
    ),
}

TIMED = {
    "one test of four sleeps": (
        "def f(x):\n    import time\n    time.sleep(9 if x == 2 else 0)\n    return 2 * x\n",
        0.75,
    ),
    "a time-out leaves later tests their time": (
        """
        def f(x):
            import time
            time.sleep(9 if x == 1 else 0.03)
            return 2 * x
        """,
        0.75,
    ),
    "the alarm is an exception that can be caught": (
        """
        def f(x):
            import time
            try:
                time.sleep(9 if x == 2 else 0)
            except Exception:
                pass
            return 2 * x
        """,
        1.0,
    ),
    "the alarm caught again and again, until it is over": (
        """
        def f(x):
            import time
            for _ in range(4 if x == 2 else 0):
                try:
                    time.sleep(0.6)
                except Exception:
                    pass
            return 2 * x
        """,
        1.0,
    ),
    "cancels the alarm": (
        "def f(x):\n    import time\n    signal.alarm(0)\n    time.sleep(0.6 if x == 2 else 0)\n    return 2 * x\n",
        1.0,
    ),
    "swallows everything": (
        "def f(x):\n    import time\n    while True:\n        try:\n            time.sleep(9)\n        except: pass\n",
        None,
    ),
}


EXPECTED = {name: value for name, (_, value) in (SCORES | TIMED).items()}


@pytest.fixture(scope="module")
def scores():
    """All of a kind in one run: what one answer does must not reach the next.

    The published limit is one of the clock, so that only the answers that are about time get a short one.
    """
    return graded(SCORES, timeout_s=10) | graded(TIMED, timeout_s=0.4)


def graded(texts, timeout_s):
    task = Task("t", "", DOUBLE, DOUBLE, FOUR_TESTS, {})
    answers = [Trajectory(task, (), textwrap.dedent(text).lstrip("\n")) for text, _ in texts.values()]
    with Sandbox(workers=2, timeout_s=timeout_s) as sandbox:
        return dict(zip(texts, CodeGrader(sandbox, grading="published").grade(answers), strict=True))


@pytest.mark.parametrize("name", EXPECTED)
def test_as_the_original(scores, name):
    assert scores[name].value == EXPECTED[name], scores[name].note


def test_what_would_end_the_original_is_said(scores):
    notes = {name: score.note for name, score in scores.items() if score.value is None}
    assert notes == {
        "swallows everything": "would have ended the published run (hang)",
        "raises SystemExit": "would have ended the published run (SystemExit)",
        "a comparison that raises": "would have ended the published run (KeyError)",
    }


@pytest.fixture(scope="module")
def graded_cases(shared):
    folder = shared / "goldens/sweet_rl/a_evaluate"
    cases = json.loads((folder / "expected.json").read_text())["cases"]
    with Sandbox(workers=2) as sandbox:
        grades = list(CodeGrader(sandbox).grade_all(load_trajectories(folder / "trajectories.jsonl")))
    assert len(cases) == len(grades) == 52
    return list(zip(cases, grades, strict=True))


def test_fixed(graded_cases):
    for case, grades in graded_cases:
        if case["fixed"] is not None:  # null: the specification leaves it open (NaN in a list)
            assert grades.fixed.value == pytest.approx(case["fixed"]), case["id"]


def test_published(graded_cases):
    for case, grades in graded_cases:
        if isinstance(case["original"], dict):  # it ended the published run: there is no grade
            assert grades.published.value is None, case["id"]
            assert grades.published.note
        else:
            assert grades.published.value == pytest.approx(case["original"]), case["id"]


def test_what_only_the_filter_or_a_rule_of_format_sets_to_zero_is_known(graded_cases):
    rescued = {
        case["id"] for case, grades in graded_cases if grades.fixed.value == 0 and grades.lenient.value == 1
    }
    assert rescued == set(
        """
        leading_space_same_line fence_py_tag filter_import_os filter_comment_from_os filter_sudoku
        filter_quit_substring filter_in_prose_outside_fence prose_no_fence
    """.split()
    )
    assert all((grades.lenient.value or 0) >= (grades.fixed.value or 0) for _, grades in graded_cases)


def test_batch_numbers(shared, graded_cases):
    expected = json.loads((shared / "goldens/sweet_rl/a_evaluate/expected.json").read_text())
    batch = expected["batch_of_non_crashing"]
    values = {case["id"]: grades.published.value for case, grades in graded_cases}
    ours = [values[name] for name in batch["ids"]]
    assert ours == pytest.approx(batch["values"])
    assert sum(ours) / len(ours) == pytest.approx(batch["mean_correctness"])
    assert sum(v == 1 for v in ours) / len(ours) == pytest.approx(batch["fraction_fully_correct"])


@pytest.mark.parametrize("way", ["fixed", "published"])
def test_rewards_of_whole_dialogues(shared, way):
    folder = shared / "goldens/sweet_rl/b_pairs"
    expected = json.loads((folder / "expected.json").read_text())
    with Sandbox(workers=2) as sandbox:
        grader = CodeGrader(sandbox, grading=way)
        scores = list(grader.grade(load_trajectories(folder / "trajectories_k3.jsonl")))
    assert [score.value for score in scores] == expected["rewards_row_order"]


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


TABLE = Path(__file__).with_name("agreement.txt")
EVERY = 20


def test_as_in_the_table():
    """On a hundred embedded tasks, five kinds for each. What the table says of a kind is for a person to judge.

    To make it again: python -m tests.grading.agreement --every 20 > tests/grading/agreement.txt
    """
    tasks = load_tasks("mini:families:test", num_tasks=100)
    kinds, trajectories = zip(*made(tasks, EVERY), strict=True)
    assert set(kinds) == set(KINDS)
    assert len(KINDS) >= 40
    grades = grade(kinds, trajectories)
    assert table(kinds, grades) == TABLE.read_text().splitlines()[1:]
    assert all((one.lenient.value or 0) >= (one.fixed.value or 0) for one in grades)
