"""A file that another program changes while it is graded is not overwritten; the grades are beside it."""

import json
import os

import pytest

from sweet_rl.commands.evaluate import graded_file
from sweet_rl.errors import UsageError
from sweet_rl.records import read_rows, replace_rows, stamp_of, trajectory_to_row
from sweet_rl.types import AgentTurn, Message, Task, Trajectory

HIDDEN = "def f(a):\n    return a\n"


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "episodes.jsonl"
    about = {
        "task_id": "t",
        "problem_description": "A function.",
        "ground_truth": HIDDEN,
        "test_cases": {"f": "f(1)"},
    }
    task = Task("t", "A function.", HIDDEN, HIDDEN, {"f": "f(1)"}, about)
    played = Trajectory(task, (Message("user", "Hi."), AgentTurn("assistant", HIDDEN)), HIDDEN)
    replace_rows(file, [trajectory_to_row(played)])
    return file


def swapped(file):
    other = file.with_name("other")
    other.write_bytes(file.read_bytes())
    other.replace(file)


def edited(file):
    before = file.stat()
    file.write_bytes(file.read_bytes().replace(b"Hi.", b"Ho."))
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns + 1))


WAYS = {
    "a row more": lambda file: file.write_bytes(file.read_bytes() * 2),
    "one letter": edited,
    "another file": swapped,
    "removed": lambda file: file.unlink(),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("saved", [False, True])
def test_it_is_not_overwritten(path, way, saved):
    with (
        pytest.raises(UsageError, match="has changed since it was read") as error,
        graded_file(str(path), None) as file,
    ):
        if saved:  # what this run itself has written is no change of another's
            file.update(0, {"reward": 0.5})
            file.save()
        file.update(0, {"reward": 1.0})
        WAYS[way](path)
        there = path.read_bytes() if path.exists() else None
        file.save()
    assert (path.read_bytes() if path.exists() else None) == there
    (kept,) = path.parent.glob("*.kept_*.jsonl")
    assert str(kept) in str(error.value)
    assert [row["reward"] for _, row in read_rows(kept)] == [1.0]
    assert not list(path.parent.glob("*.tmp"))


def test_it_is_compared_right_before_it_is_replaced(path):
    def rows():
        yield {"a": 1}
        path.write_text(json.dumps({"another": "program"}))  # while ours is being written

    with pytest.raises(UsageError, match="has changed since it was read"):
        replace_rows(path, rows(), stamp_of(path))
    assert json.loads(path.read_text()) == {"another": "program"}


def test_what_has_not_changed_is_replaced(path):
    stamp = replace_rows(path, [{"a": 1}], stamp_of(path))
    assert stamp == stamp_of(path)
    replace_rows(path, [{"a": 2}], stamp)
    assert [row for _, row in read_rows(path)] == [{"a": 2}]
