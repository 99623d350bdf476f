"""One stage grades any world: by what the world names, or by a grader of one's own."""

import json

import pytest

from sweet_rl.commands.compare import compare
from sweet_rl.commands.evaluate import evaluate, evaluate_games
from sweet_rl.commands.evaluate_code import evaluate_code
from sweet_rl.commands.evaluate_html import evaluate_html
from sweet_rl.commands.simulate_interactions import simulate_interactions
from sweet_rl.errors import DataError, UsageError
from sweet_rl.types import Score


class Constant:
    """The same for everything; it knows which world it is asked about."""

    def __init__(self, world):
        self.world = world

    def grade(self, trajectories):
        for _ in trajectories:
            yield Score(0.5, details={"world": None if self.world is None else self.world.name})


class Silent:
    """Has no score for anything."""

    def grade(self, trajectories):
        for _ in trajectories:
            yield Score(None, note="no rubric for this")


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


def test_repeats_are_what_rows_say_they_are(functions, capsys):
    played = rows(functions)

    def written(*counts):
        several = [
            row | {"sample_index": at} for row, n in zip(played, counts, strict=True) for at in range(n)
        ]
        functions.write_text("".join(json.dumps(row) + "\n" for row in several))
        evaluate(str(functions), quiet=True)
        report = json.loads(functions.with_suffix(".report.json").read_text())
        return report["trajectories"], report["tasks"], report["k"], capsys.readouterr().out

    *numbers, text = written(3, 3)
    assert numbers == [6, 2, 3]
    assert "6 trajectories, 2 tasks, k = 3" in text
    assert "best of 3" in text
    *numbers, text = written(1, 2)  # as a run that was stopped has them
    assert numbers == [3, 2, None]
    assert "3 trajectories, 2 tasks with repeats of different number" in text
    assert "best of" not in text
    functions.write_text(
        "".join(
            json.dumps({k: v for k, v in row.items() if k != "sample_index"}) + "\n" for row in played * 2
        )
    )
    evaluate(str(functions), quiet=True)  # published rows do not say it
    assert "4 trajectories, 4 tasks, k = 1" in capsys.readouterr().out


def test_stored_runs_are_graded_again_without_playing(functions, capsys):
    evaluate(str(functions), quiet=True)
    graded = rows(functions)
    assert graded[0]["graded_with"]["grader"] == "tests"
    assert len(graded[0]["graded_with"]["digest"]) == 16
    other = {
        "reward": 0.25,
        "grades": dict.fromkeys(graded[0]["grades"], 0.25),
        "graded_with": {"digest": "another"},
    }
    wrong = [row | other for row in graded]
    functions.write_text("".join(json.dumps(row) + "\n" for row in wrong))
    evaluate(str(functions), quiet=True)
    assert rows(functions) == wrong  # what is graded stays
    capsys.readouterr()
    evaluate(str(functions), regrade=True, quiet=True)
    assert rows(functions) == graded
    assert "2 rows had a reward, and 2 of them got another one" in capsys.readouterr().out


def test_what_was_rewarded_as_it_was_played_has_nothing_to_grade(tmp_path):
    path = str(tmp_path / "games.jsonl")
    simulate_interactions("twenty-questions:test", path, world="twenty_questions", num_tasks=2, quiet=True)
    with pytest.raises(UsageError, match="twenty_questions rewards turns as they are played"):
        evaluate(path, regrade=True)


def test_a_grader_of_ones_own(functions):
    evaluate(str(functions), grader=OWN, quiet=True)
    assert rows(functions)[0]["graded_with"]["grader"] == OWN
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


def test_a_grader_without_any_score_is_an_error_that_says_why(functions):
    with pytest.raises(
        UsageError, match=r"has no score for any episode of .*code.jsonl': no rubric for this"
    ):
        evaluate(str(functions), grader="tests.commands.test_evaluate:Silent", quiet=True)


GRADERS = {
    "evaluate": evaluate,
    "its own": lambda path: evaluate(path, grader=OWN),
    "code": evaluate_code,
    "html": evaluate_html,
    "games": evaluate_games,
    "compare": lambda path: compare(path, path),
}


@pytest.mark.parametrize("grade", GRADERS.values(), ids=GRADERS)
@pytest.mark.parametrize("order", [1, -1])
def test_rows_of_two_worlds_are_refused_by_every_grader(functions, tmp_path, grade, order):
    games, mixed = tmp_path / "games.jsonl", tmp_path / "mixed.jsonl"
    simulate_interactions(
        "twenty-questions:test", str(games), world="twenty_questions", num_tasks=1, quiet=True
    )
    mixed.write_text("".join([functions.read_text(), games.read_text()][::order]))
    before = mixed.read_bytes()
    first, other, line = ("twenty_questions", "code", 3) if order == 1 else ("code", "twenty_questions", 2)
    with pytest.raises(DataError, match=f"mixed.jsonl, line {line}: is of {first}, and line 1 is of {other}"):
        grade(str(mixed))
    assert mixed.read_bytes() == before


def test_rows_that_name_no_world_are_told_apart_by_how_they_are_graded(functions, tmp_path):
    games = tmp_path / "games.jsonl"
    simulate_interactions(
        "twenty-questions:test", str(games), world="twenty_questions", num_tasks=1, quiet=True
    )
    both = [{k: v for k, v in row.items() if k != "provenance"} for row in rows(functions) + rows(games)]
    functions.write_text("".join(json.dumps(row) + "\n" for row in both))
    with pytest.raises(
        DataError, match="line 3: is of a world that rewards turns, and line 1 is of a world with hidden"
    ):
        evaluate_code(str(functions))
    functions.write_text("".join(json.dumps(row) + "\n" for row in [rows(functions)[0], rows(functions)[1]]))
    with pytest.raises(UsageError, match="has hidden tests and no page: grade it by sweet-rl evaluate_code"):
        evaluate_html(str(functions))
