"""Published and lenient grading: goldens, how the original executes an answer, and how often the ways agree."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sweet_rl.grading.code import CodeGrader, lenient_code
from sweet_rl.grading.sandbox import Sandbox
from sweet_rl.records import load_trajectories
from sweet_rl.types import AgentTurn, Task, Trajectory
from sweet_rl.worlds import load_tasks
from tests.grading.agreement import KINDS, grade, made, table

pytestmark = pytest.mark.xdist_group("published_grading")  # one sandbox for all of them

F = "def f(x):\n    return x * 2\n"
G = "def g(x):\n    return 1\n"
ANSWERS = {}
for part in Path(__file__).with_name("published_answers.txt").read_text().split("=== ")[1:]:
    heading, code = part.split("\n", 1)
    name, value = heading.rsplit(": ", 1)
    ANSWERS[name] = code.rstrip() + "\n", json.loads(value.replace("None", "null"))


def task_of(count):
    return Task("t", "", F, F, {f"test{n}": f"f({n})" for n in range(1, count + 1)}, {})


@pytest.fixture(scope="module")
def scores():
    """All of a kind in one run: what one answer does must not reach the next.

    The published limit is one of the clock, so that only the answers that are about time get a short one.
    """
    found = {}
    for is_timed, timeout_s in ((False, 10), (True, 0.4)):
        some = {name: own for name, (own, _) in ANSWERS.items() if name.endswith("(about time)") == is_timed}
        answers = [Trajectory(task_of(4), (), code) for code in some.values()]
        with Sandbox(workers=2, timeout_s=timeout_s) as sandbox:
            found |= zip(some, CodeGrader(sandbox, grading="published").grade(answers), strict=True)
    return found


@pytest.mark.parametrize("name", ANSWERS)
def test_as_the_original(scores, name):
    assert scores[name].value == ANSWERS[name][1], scores[name].note


def test_what_would_end_the_original_is_said(scores):
    notes = {name: score.note for name, score in scores.items() if score.value is None}
    assert notes == {
        "swallows everything (about time)": "would have ended the published run (hang)",
        "raises SystemExit": "would have ended the published run (SystemExit)",
        "a comparison that raises": "would have ended the published run (KeyError)",
    }


CASES = "goldens/sweet_rl/a_evaluate"


@pytest.fixture(scope="module")
def graded_cases(shared):
    folder = shared / CASES
    cases = json.loads((folder / "expected.json").read_text())["cases"]
    with Sandbox(workers=2) as sandbox:
        grades = list(CodeGrader(sandbox).grade_all(load_trajectories(folder / "trajectories.jsonl")))
    assert len(cases) == len(grades) == 52
    return list(zip(cases, grades, strict=True))


def test_grades_of_the_recorded_cases(shared, graded_cases):
    for case, grades in graded_cases:
        if case["fixed"] is not None:  # null: the specification leaves it open (NaN in a list)
            assert grades.fixed.value == pytest.approx(case["fixed"]), case["id"]
        if isinstance(case["original"], dict):  # it ended the published run: there is no grade
            assert grades.published.value is None, case["id"]
            assert grades.published.note
        else:
            assert grades.published.value == pytest.approx(case["original"]), case["id"]
    batch = json.loads((shared / CASES / "expected.json").read_text())["batch_of_non_crashing"]
    values = {case["id"]: grades.published.value for case, grades in graded_cases}
    ours = [values[name] for name in batch["ids"]]
    assert ours == pytest.approx(batch["values"])
    assert sum(ours) / len(ours) == pytest.approx(batch["mean_correctness"])
    assert sum(v == 1 for v in ours) / len(ours) == pytest.approx(batch["fraction_fully_correct"])


def test_what_only_the_filter_or_a_rule_of_format_sets_to_zero_is_known(graded_cases):
    rescued = {
        case["id"] for case, grade in graded_cases if (grade.fixed.value, grade.lenient.value) == (0, 1)
    }
    assert rescued == set(
        "leading_space_same_line fence_py_tag filter_import_os filter_comment_from_os filter_sudoku "
        "filter_quit_substring filter_in_prose_outside_fence prose_no_fence".split()
    )
    assert all((grades.lenient.value or 0) >= (grades.fixed.value or 0) for _, grades in graded_cases)


@pytest.mark.parametrize("way", ["fixed", "published"])
def test_rewards_of_whole_dialogues(shared, way):
    folder = shared / "goldens/sweet_rl/b_pairs"
    expected = json.loads((folder / "expected.json").read_text())
    with Sandbox(workers=2) as sandbox:
        grader = CodeGrader(sandbox, grading=way)
        scores = list(grader.grade(load_trajectories(folder / "trajectories_k3.jsonl")))
    assert [score.value for score in scores] == expected["rewards_row_order"]


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


NOTHING_READ = [None, "No answer", "", "I would double it.", G, f"```\n{G}```", "x" * 300_000 + F]


@pytest.mark.parametrize("answer", [*READ, *NOTHING_READ], ids=range(len(READ) + len(NOTHING_READ)))
def test_what_is_read(answer):
    read = lenient_code(Trajectory(task_of(0), (), answer), "f")
    wanted = READ.get(answer)
    assert read is None if wanted is None else read.strip("\n") == wanted.strip("\n")


@pytest.fixture(scope="module")
def sandbox():
    with Sandbox(workers=1) as sandbox:
        yield sandbox


def test_code_before_the_marker_or_behind_a_blank_is_read(sandbox):
    content = f"This is it:\n```python\n{F}```\nI WANT TO ANSWER: as above"
    before = Trajectory(task_of(2), (AgentTurn("assistant", content, output=content),), " as above")
    blank = Trajectory(task_of(1), (), " def f(x): return x + x")
    grades = CodeGrader(sandbox).grade_all([before, blank])
    assert [(one.fixed.value, one.published.value, one.lenient.value) for one in grades] == [(0, 0, 1)] * 2


PIECES = [
    F, G, "```", "```py\n", "```python\n", "\n", "Some words.\n", "f = ", "f(1)\n", "    return 3\n", "import os\n", "x = 1\n", "'''",
    "def f(x):\n    return 4\n",
]  # fmt: skip


@settings(deadline=None, max_examples=5)
@given(st.lists(st.lists(st.sampled_from(PIECES), max_size=6).map("".join), min_size=20, max_size=20))
def test_never_below_fixed(sandbox, answers):
    for grades in CodeGrader(sandbox).grade_all([Trajectory(task_of(2), (), answer) for answer in answers]):
        assert (grades.lenient.value or 0) >= (grades.fixed.value or 0)


TABLE = Path(__file__).with_name("agreement.txt")
EVERY = 20


@pytest.mark.slow
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
