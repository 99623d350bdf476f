"""A household game on its real engine, solved by the planner, from the command line's point of view."""

import pytest

from sweet_rl.commands.simulate_interactions import simulate_interactions
from sweet_rl.records import read_rows
from sweet_rl.worlds.alfworld.tasks import TOMATO

pytest.importorskip("textworld", reason="needs the extra 'alfworld'")
pytest.importorskip("alfworld", reason="needs the extra 'alfworld'")


def test_the_planner_solves_what_is_played(tmp_path):
    path = tmp_path / "house.jsonl"
    simulate_interactions(
        input_path=f"alfworld:{TOMATO}:test",
        output_path=str(path),
        task_type="alfworld",
        num_tasks=1,
        shuffle_action=True,
    )
    (row,) = [row for _, row in read_rows(path)]
    assert row["reward"] == 1
    assert row["stop_reason"] == "ended"
    assert row["game"]["won"] is True
    assert row["game"]["cost"] == -1
