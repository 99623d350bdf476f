"""Hostile and odd answers: each gets its right score, none gets out, and the next answer is graded as ever."""

import os
from functools import cache
from pathlib import Path

import pytest

from sweet_rl.grading.code import CodeGrader, forbidden_word
from sweet_rl.grading.sandbox import Sandbox
from sweet_rl.types import Trajectory
from tests.conftest import ROOT
from tests.grading.attacks import CASES, GOOD, SECRET, TABLE, Playground, seen_through, sizes, whole_table
from tests.grading.hostile_case import CHANNELS, DOUBLE, OPEN_WITHOUT_MOUNTS, Case
from tests.grading.test_sandbox import descendants, wait_until

pytestmark = [pytest.mark.xdist_group("hostile"), pytest.mark.timeout(400)]  # one table for all of them


@pytest.fixture(scope="module")
def ground(tmp_path_factory):
    ground = Playground(tmp_path_factory.mktemp("ground"))
    yield ground
    ground.close()


@pytest.fixture(scope="module")
def one_worker():
    with Sandbox(workers=1, timeout_s=1) as sandbox:
        yield sandbox


@pytest.fixture(scope="module")
def two_workers():
    with Sandbox(workers=2, timeout_s=2) as sandbox:
        yield sandbox


QUICK = {
    "forge the result",
    "reach files",
    "reach the network",
    "end early",
    "see what is not shown",
    "odd values",
}
"""Categories that are graded in the first part of the tests; the whole table takes a minute."""
PARTS = [pytest.param(True, id="quick"), pytest.param(False, id="others", marks=pytest.mark.slow)]


@pytest.fixture(scope="module")
def rows_of(ground):
    """The rows of one part of the table, from one stream of answers."""

    @cache
    def found(is_quick):
        some = [category for category in TABLE if (category in QUICK) == is_quick]
        return {(row.case.name, row.way): row for row in whole_table(ground, some)}

    return found


ROWS = [
    pytest.param(
        category, case, way, id=f"{case.name}-{way}", marks=[] if category in QUICK else pytest.mark.slow
    )
    for category, cases in TABLE.items()
    for case in cases
    for way in ("fixed", "published")
    if way == "fixed" or case.published is not None
]


@pytest.mark.parametrize(("category", "case", "way"), ROWS)
def test_right_score_and_the_next_answer_is_graded_as_ever(ground, rows_of, category, case, way):
    if not ground.offers(category):
        pytest.skip("files have no place here: no mounts of one's own")
    row = rows_of(category in QUICK)[case.name, way]
    outcomes = [(test.outcome, test.got, test.detail) for test in row.score.tests]
    assert row.score.value == row.expected, outcomes
    if case.outcome and way == "fixed":
        assert outcomes[0][0] == case.outcome, outcomes
    assert row.after == 1.0


@pytest.mark.parametrize("is_quick", PARTS)
def test_nothing_was_reached(ground, rows_of, is_quick):
    assert rows_of(is_quick)
    assert ground.file.read_text() == SECRET
    assert ground.connections() == 0


def test_there_are_many_and_none_is_stopped_by_its_words():
    assert len({case.name for case in CASES}) == len(CASES) >= 500
    assert [case.name for case in CASES if forbidden_word(case.answer)] == []


def test_the_documentation_counts_the_cases():
    page = " ".join((ROOT / "docs" / "grading.md").read_text().split())
    here, without = sizes(mounts=True), sizes(mounts=False)
    other = {category: without.get(category, 0) for category in here}
    for counts in (here, dict(other.items() - here.items())):
        assert ": " + ", ".join(f"{one} {counts[one]}" for one in here if one in counts) + "." in page
    assert f"The {sum(here.values()):,} cases" in page
    assert f"Of the {sum(other.values()):,} cases" in page


def test_nothing_is_left_behind(ground, monkeypatch):
    """No process, no mount, no file: neither while the workers wait for more, nor after they have ended."""
    left_by = {case.name: case for case in CASES}
    names = [
        "fork bomb that goes on",
        "threads that do not end",
        "swallows everything",
        "sends values, and stays",
    ]
    mounts = Path("/proc/self/mounts").read_text()
    files = set(Path("/tmp").glob("left-behind*"))
    with Sandbox(workers=1, timeout_s=0.2) as sandbox:
        monkeypatch.setattr(ground, "sandbox", sandbox)
        ground.grade(*(left_by[name] for name in names), GOOD)
        launcher = sandbox._workers[0]._process.pid
        # the worker, and a child ready for the next answer
        assert wait_until(lambda: len(descendants(launcher)) <= 2, timeout_s=5)
    assert not descendants(launcher)
    assert Path("/proc/self/mounts").read_text() == mounts
    assert set(Path("/tmp").glob("left-behind*")) == files


def test_a_reference_that_loops_costs_its_neighbours_no_time(ground):
    """References share a child, but not the patience: the second one computes for longer than what is left of it."""
    loops = Case(
        "loops", DOUBLE, 0.0, reference="def level(x):\n    while True:\n        pass\n", tests=("level(1)",)
    )
    slow = "def level(x):\n    import time\n    start = time.process_time()\n    while time.process_time() < start + 0.1:\n        pass\n    return x\n"
    first, second = ground.grade(loops, Case("slow", slow, 1.0, reference=slow))
    assert [test.outcome for test in first.tests] == ["reference_none"]
    assert second.value == 1.0, second.tests


def test_grades_come_while_later_answers_are_still_to_be_read(ground, monkeypatch):
    monkeypatch.setattr("sweet_rl.grading.code._WINDOW", 4)
    monkeypatch.setattr("sweet_rl.grading.sandbox.pool._LOOKAHEAD", 4)
    read = []

    def trajectories():
        for number in range(40):
            read.append(number)
            yield ground.trajectory(GOOD)

    for number, score in enumerate(CodeGrader(ground.sandbox).grade(trajectories())):
        assert score.value == 1.0
        assert len(read) <= number + 12


def test_all_grades_of_one_stream(ground):
    fenced = Case("fenced", f"Look:\n```\npass\n```\nor\n```py\n{DOUBLE}```\n", 0.0)
    answers = [ground.trajectory(case) for case in (GOOD, fenced, GOOD)]
    none = Trajectory(answers[0].task, (), None)
    grades = list(CodeGrader(ground.sandbox).grade_all([*answers, none]))
    found = [(one.fixed.value, one.published.value, one.lenient.value) for one in grades]
    assert found == [(1, 1, 1), (0, 0, 1), (1, 1, 1), (0, None, 0)]


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="system calls by the numbers of x86_64")
@pytest.mark.parametrize("channel", [pytest.param(channel, id=channel.name) for channel in CHANNELS])
def test_what_one_answer_does_another_one_does_not_see(one_worker, two_workers, channel):
    """Each way of telling is tried with two messages."""
    if channel.name in OPEN_WITHOUT_MOUNTS and "mount" not in one_worker.layers:
        pytest.skip("files of the machine's own mounts have their access times")
    first, second = seen_through(channel, two_workers if channel.at_once else one_worker)
    assert first == second
    assert first[0] in "'\"", first  # it has seen something: no error
