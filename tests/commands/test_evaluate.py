"""Stored trajectories of any world are graded, reported and paired."""

import json
import re

import pytest

from sweet_rl.commands.evaluate import evaluate, evaluate_games
from sweet_rl.commands.evaluate_code import evaluate_code
from sweet_rl.commands.evaluate_html import evaluate_html
from sweet_rl.commands.runs import compare
from sweet_rl.commands.simulate_interactions import simulate_interactions
from sweet_rl.errors import DataError, UsageError
from sweet_rl.evaluation.episodes import read_episodes
from sweet_rl.evaluation.report import measures_of
from sweet_rl.records import read_rows, replace_rows
from sweet_rl.types import Score
from sweet_rl.worlds import Scores, world_of


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


class Low:
    """The same, and less."""

    def grade(self, trajectories):
        for _ in trajectories:
            yield Score(0.25)


OWN, LOW = "tests.commands.test_evaluate:Constant", "tests.commands.test_evaluate:Low"


@pytest.fixture
def functions(tmp_path):
    path = tmp_path / "code.jsonl"
    flags = {"env_model": "scripted", "agent_model": "oracle", "num_tasks": 2, "quiet": True}
    simulate_interactions("mini:test", str(path), **flags)
    return path


def rows(path):
    return [row for _, row in read_rows(path)]


@pytest.fixture
def twenty(tmp_path):
    """A file of another world, whose turns are rewarded."""
    path = str(tmp_path / "twenty.jsonl")
    simulate_interactions("twenty-questions:test", path, world="twenty_questions", num_tasks=1, quiet=True)
    return tmp_path / "twenty.jsonl"


def test_the_world_names_its_stage(functions, capsys):
    evaluate(str(functions), quiet=True)
    assert [row["reward"] for row in rows(functions)] == [1.0, 1.0]
    assert all(row["test_results"] for row in rows(functions))
    assert "success" in capsys.readouterr().out
    with pytest.raises(UsageError, match="--margin is not a flag of evaluate_code, which grades code"):
        evaluate(str(functions), margin=0.1)


def test_repeats_are_what_rows_say_they_are(functions, capsys):
    played = rows(functions)

    def written(*counts):
        several = [row | {"sample_index": i} for row, n in zip(played, counts, strict=True) for i in range(n)]
        replace_rows(functions, several)
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
    replace_rows(functions, [{k: v for k, v in row.items() if k != "sample_index"} for row in played * 2])
    evaluate(str(functions), quiet=True)  # published rows do not say it
    assert "4 trajectories, 4 tasks, k = 1" in capsys.readouterr().out


def test_stored_runs_are_graded_again_without_playing(functions, capsys):
    evaluate(str(functions), quiet=True)
    graded = rows(functions)
    assert graded[0]["graded_with"]["grader"] == "tests"
    assert len(graded[0]["graded_with"]["digest"]) == 16
    other = {"reward": 0.25, "grades": dict.fromkeys(graded[0]["grades"], 0.25)}
    other["graded_with"] = {"digest": "another"}
    wrong = [row | other for row in graded]
    replace_rows(functions, wrong)
    evaluate(str(functions), quiet=True)
    assert rows(functions) == wrong  # what is graded stays
    capsys.readouterr()
    evaluate(str(functions), regrade=True, quiet=True)
    assert rows(functions) == graded
    assert "2 rows had a reward, and 2 of them got another one" in capsys.readouterr().out


def test_a_grader_of_ones_own(functions):
    evaluate(str(functions), grader=OWN, quiet=True)
    assert rows(functions)[0]["graded_with"]["grader"] == OWN
    assert [row["grades"] for row in rows(functions)] == [{OWN: 0.5}] * 2
    assert rows(functions)[0]["grading_details"] == {"world": "code"}
    before = functions.read_bytes()
    evaluate(str(functions), grader=OWN, quiet=True)  # nothing is graded twice
    assert functions.read_bytes() == before


def test_the_grader_that_is_named_last_gives_the_reward_and_the_head_is_not_of_another(functions, capsys):
    evaluate(str(functions), quiet=True)
    for grader, reward in ((OWN, 0.5), (LOW, 0.25), (OWN, 0.5)):
        capsys.readouterr()
        evaluate(str(functions), grader=grader, quiet=True)
        said = capsys.readouterr().out
        assert "tests passed" not in said and re.search(rf"\ngrade +{reward:.2f} \[", said)
        assert {(row["reward"], row["graded_with"]["grader"]) for row in rows(functions)} == {
            (reward, grader)
        }
        assert measures_of([read_episodes(functions)])[1].name == "grade"
    evaluate(str(functions), quiet=True)  # the tests' own grades are still there
    assert {(row["reward"], row["graded_with"]["grader"]) for row in rows(functions)} == {(1.0, "tests")}
    assert measures_of([read_episodes(functions)])[1].name == "tests passed"
    before = functions.read_bytes()
    evaluate(str(functions), quiet=True)
    assert functions.read_bytes() == before


def test_files_that_name_no_world(functions):
    changed = [row | {"provenance": {"settings": {"task_type": "of_my_own_file"}}} for row in rows(functions)]
    replace_rows(functions, changed)
    with pytest.raises(UsageError, match="does not name a known world"):
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
    with pytest.raises(UsageError, match=r"has no score for any episode of .*code.jsonl': no rubric for"):
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
def test_rows_of_two_worlds_are_refused_by_every_grader(functions, twenty, tmp_path, grade, order):
    mixed = tmp_path / "mixed.jsonl"
    mixed.write_text("".join([functions.read_text(), twenty.read_text()][::order]))
    before = mixed.read_bytes()
    first, other, line = ("twenty_questions", "code", 3) if order == 1 else ("code", "twenty_questions", 2)
    with pytest.raises(DataError, match=f"mixed.jsonl, line {line}: is of {first}, and line 1 is of {other}"):
        grade(str(mixed))
    assert mixed.read_bytes() == before


def game(word, sample, rewards, ended):
    history = [{"role": "user", "content": "Questions:\n"}]
    for number, reward in enumerate(rewards):
        said = f"{word} {number}?"
        turn = {"role": "assistant", "content": said, "output": said, "input": f"[{number}]"}
        history += [turn | {"reward": reward}, {"role": "user", "content": "No."}]
    task = {
        "problem_description": "Questions:\n",
        "ground_truth": word,
        "task_id": f"twenty_questions/{word}",
    }
    row = {"task": task, "dialogue_history": history, "answer": None, "reward": float(sum(rewards))}
    stop = {"stop_reason": "ended" if ended else "turn_limit"}
    return row | {"task_id": task["task_id"], "sample_index": sample} | stop


@pytest.fixture
def games(tmp_path):
    path = tmp_path / "games.jsonl"
    rows = [game("dog", 0, [-1, 0], True), game("pen", 0, [-1, -1, -1], False)]
    rows += [game("dog", 1, [-1, -1, -1], False), game("pen", 1, [-1, -1, 0], True)]
    replace_rows(path, rows)
    return path


def test_the_numbers_and_the_pairs(games, tmp_path, capsys):
    pairs, hidden = tmp_path / "pairs.jsonl", tmp_path / "hidden.jsonl"
    files = {"preference_path": str(pairs), "ground_truth_preference_path": str(hidden)}
    evaluate_games(str(games), k=2, margin=2, **files)
    report = json.loads(games.with_suffix(".report.json").read_text())
    assert report["return"]["mean"] == pytest.approx((-2 + -2.5) / 2)
    assert report["return, best of k"]["mean"] == pytest.approx((-1 + -2) / 2)
    assert report["ended by the world"]["mean"] == 0.5
    assert report["turns"]["mean"] == pytest.approx((2.5 + 3) / 2)
    # dog: -1 against -3 differs by 2; pen: -2 against -3 does not
    [(_, row)] = read_rows(pairs)
    assert (row["chosen"], row["rejected"]) == ("[1]dog 1?", "[2]dog 2?")
    # no prompt holds what was said before: each turn is a prompt and an output of its own
    assert row["chosen_turns"] == [{"input": "[0]", "output": "dog 0?"}, {"input": "[1]", "output": "dog 1?"}]
    [(_, row)] = read_rows(hidden)
    assert row["chosen"] == "In light that the final answer is: dog.[1]dog 1?"
    assert "1 pairs" in capsys.readouterr().out


def test_the_reward_goes_by_its_worlds_own_name(games, monkeypatch, capsys):
    rows = [row | {"provenance": {"settings": {"world": "lantern"}}} for _, row in read_rows(games)]
    replace_rows(games, rows)
    monkeypatch.setattr(type(world_of("lantern")), "scores", Scores(name="points"))
    evaluate_games(str(games), k=2)
    assert {"points", "points, best of k"} <= json.loads(games.with_suffix(".report.json").read_text()).keys()
    assert "points, best of k" in capsys.readouterr().out


def test_failed_episodes_are_counted_and_left_out(games, capsys):
    rows = [row for _, row in read_rows(games)]
    rows[2] |= {"reward": None, "error": {"kind": "timeout", "detail": ""}}
    replace_rows(games, rows)
    evaluate_games(str(games), k=2)
    assert "k = 2; 1 failed and are in no number" in capsys.readouterr().out
    report = json.loads(games.with_suffix(".report.json").read_text())
    assert report["return"]["mean"] == pytest.approx((-1 + -2.5) / 2)


@pytest.mark.parametrize(
    ("change", "flags", "message"),
    [
        ({"reward": None}, {"k": 2}, r"holds no rewards.*sweet-rl evaluate_code"),
        ({}, {"k": 3}, "3"),
        ({}, {"k": 0}, "--k"),
        ({}, {"margin": 0}, "--margin"),
    ],
)
def test_what_cannot_be_reported_is_refused(games, change, flags, message):
    replace_rows(games, [row | change for _, row in read_rows(games)])
    with pytest.raises((UsageError, DataError), match=message):
        evaluate_games(str(games), **flags)


def test_what_was_won_where_the_world_says_so(tmp_path, capsys):
    path = tmp_path / "games.jsonl"
    rows = [game("dog", sample, [-1, 0], True) | {"game": {"won": sample == 0}} for sample in range(4)]
    replace_rows(path, rows)
    evaluate_games(str(path), k=4)
    assert json.loads(path.with_suffix(".report.json").read_text())["won"]["mean"] == 0.25
    assert "won" in capsys.readouterr().out
