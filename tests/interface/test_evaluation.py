"""Evaluate and compare from Python, on objects in memory and on files."""

import pytest

import sweet_rl
from sweet_rl.errors import UsageError
from tests.evaluation.samples import row, write


def test_two_agents_evaluated_and_compared():
    ours = sweet_rl.evaluate("code", "mini:test", agent="oracle", num_tasks=4, repeats=2)
    theirs = sweet_rl.evaluate("code", "mini:test", agent="constant", num_tasks=4, repeats=2)
    measures = ours.report.to_json()["measures"]
    assert measures["success"]["mean"] == measures["pass^2"]["mean"] == 1
    assert "success, %" in str(ours.report)
    found = sweet_rl.compare(ours.trajectories, theirs.trajectories)
    first = found.pairings[0].rows[0]
    assert (first.name, first.difference.mean, first.difference.wins) == ("success", 1, 4)
    assert "A is better than B" in str(found)
    with pytest.raises(UsageError, match="1 of 4 tasks are in A alone"):
        sweet_rl.compare(
            ours.trajectories, [one for one in theirs.trajectories if one.task != ours.trajectories[0].task]
        )


def test_files_and_memory(tmp_path):
    a = write(tmp_path / "a.jsonl", [row("t1", 1.0), row("t2", 1.0)])
    b = write(tmp_path / "b.jsonl", [row("t1", 0.0), row("t2", 1.0)])
    assert sweet_rl.compare(a, tmp_path / "b.jsonl").pairings[0].only_ours == ["t1"]
    assert sweet_rl.compare(b, a).pairings[0].only_theirs == ["t1"]
