"""What tests mean by the names in them, and what crosses: each honest answer right, each junk one worth nothing."""

from pathlib import Path

import pytest

from sweet_rl.grading.sandbox import Sandbox
from sweet_rl.worlds import load_tasks
from tests.grading import more_things, named_things
from tests.grading.attacks import CASES, Playground
from tests.grading.rules import table

pytestmark = [
    pytest.mark.xdist_group("names"),
    pytest.mark.timeout(400),
]  # one stream of answers for all of them

KNOWN = {case.name for case in CASES}  # which test_hostile.py grades
ROWS = [
    case
    for cases in (named_things.TABLE | more_things.TABLE).values()
    for case in cases
    if case.name not in KNOWN
]


@pytest.fixture(scope="module")
def scores(tmp_path_factory):
    """Of all rows, from one stream through two workers."""
    ground = Playground(tmp_path_factory.mktemp("ground"))
    ground.sandbox.close()
    ground.sandbox = Sandbox(workers=2, timeout_s=3)  # pandas is loaded by some
    try:
        yield dict(zip((case.name for case in ROWS), ground.grade(*ROWS), strict=True))
    finally:
        ground.close()


@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in ROWS])
def test_names_mean_what_the_reference_means(case, scores):
    score = scores[case.name]
    assert score.value == case.score, (score.note, score.tests)


def test_published_tasks_are_touched_as_the_table_says(shared):
    """To make it again: python -m tests.grading.rules FILE > tests/grading/rules_colbench.txt"""
    tasks = load_tasks(str(shared / "data/colbench/backend_tasks_500.jsonl"))
    assert table(tasks) == Path(__file__).with_name("rules_colbench.txt").read_text()
