"""The three gradings agree, and differ, as they did: answers of a hundred kinds against a committed table."""

from pathlib import Path

from sweet_rl.worlds import load_tasks
from tests.grading.agreement import grade, made, table
from tests.grading.mutations import KINDS

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
