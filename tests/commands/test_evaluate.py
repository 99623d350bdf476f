"""One stage grades any world: by what the world names, or by a grader of one's own."""

import json

import pytest

from sweet_rl.commands.evaluate import evaluate
from sweet_rl.commands.simulate_interactions import simulate_interactions
from sweet_rl.errors import UsageError
from sweet_rl.types import Score


class Constant:
    """The same for everything; it knows which world it is asked about."""

    def __init__(self, world):
        self.world = world

    def grade(self, trajectories):
        for _ in trajectories:
            yield Score(0.5, details={"world": None if self.world is None else self.world.name})


def nobody():
    """A factory of something else."""
    return object()


OWN = "tests.commands.test_evaluate:Constant"


@pytest.fixture
def functions(tmp_path):
    path = tmp_path / "code.jsonl"
    flags = {"env_model": "scripted", "agent_model": "oracle", "num_tasks": 2, "quiet": True}
    simulate_interactions("mini:test", str(path), **flags)
    return path


def rows(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_the_world_names_its_stage(functions, capsys):
    evaluate(str(functions), quiet=True)
    assert [row["reward"] for row in rows(functions)] == [1.0, 1.0]
    assert all(row["test_results"] for row in rows(functions))
    assert "success" in capsys.readouterr().out
    with pytest.raises(UsageError, match="--margin is no flag of evaluate_code, which grades code"):
        evaluate(str(functions), margin=0.1)
    with pytest.raises(UsageError, match="--regrade belongs to a grader of your own"):
        evaluate(str(functions), regrade=True)


def test_a_grader_of_ones_own(functions):
    evaluate(str(functions), grader=OWN, quiet=True)
    assert [row["grades"] for row in rows(functions)] == [{OWN: 0.5}] * 2
    assert rows(functions)[0]["grading_details"] == {"world": "code"}
    before = functions.read_bytes()
    evaluate(str(functions), grader=OWN, quiet=True)  # nothing is graded twice
    assert functions.read_bytes() == before


def test_files_that_name_no_world(functions):
    changed = [row | {"provenance": {"settings": {"task_type": "of_my_own_file"}}} for row in rows(functions)]
    functions.write_text("".join(json.dumps(row) + "\n" for row in changed))
    with pytest.raises(UsageError, match="names no world that has a name here"):
        evaluate(str(functions))
    evaluate(str(functions), grader=OWN, quiet=True)
    assert rows(functions)[0]["grading_details"] == {"world": None}


def test_what_is_no_grader_changes_nothing(functions):
    before = functions.read_bytes()
    for grader, says in (
        ("tests.commands.test_evaluate:nobody", "has no grade"),
        ("nobody", "no grader 'nobody'"),
        ("tests.commands.test_evaluate:Missing", "cannot be imported"),
    ):
        with pytest.raises(UsageError, match=says):
            evaluate(str(functions), grader=grader)
    assert functions.read_bytes() == before
