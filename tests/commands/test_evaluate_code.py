"""evaluate_code as a person runs it: rewards saved, missing ones only, both pair files, a report."""

import json
import shutil

import pytest

from sweet_rl.records import locked
from tests.conftest import called


def evaluate(path, *flags):
    return called("evaluate_code", path, "--quiet", *flags)


def rows_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def make_row(answer, *, task="t", expressions=("f(1)", "f(2)"), **more):
    tests = {f"test{i}": expression for i, expression in enumerate(expressions, start=1)}
    named = {"problem_description": task, "ground_truth": "def f(x): return x * 2", "test_cases": tests}
    said = {"role": "assistant", "content": answer or "", "input": "prompt:", "output": answer or ""}
    history = [{"role": "user", "content": task}, said]
    row = {"task": named, "dialogue_history": history, "answer": answer, "theirs": {"kept": True}}
    return row | more


@pytest.fixture
def write(tmp_path):
    def write_rows(rows):
        path = tmp_path / "runs.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return path

    return write_rows


RIGHT, HALF, WRONG = "def f(x): return x + x", "def f(x): return 2", "def f(x): return 7"


def test_the_golden_run_rewards_saved_and_both_pair_files(shared, tmp_path):
    """The original loses the rewards and writes one file of the two."""
    golden = shared / "goldens/sweet_rl/b_pairs"
    path = tmp_path / "k3.jsonl"
    shutil.copy(golden / "trajectories_k3.jsonl", path)
    plain, critic = tmp_path / "plain.jsonl", tmp_path / "critic.jsonl"
    done = evaluate(path, "--k", 3, "--preference_path", plain, "--ground_truth_preference_path", critic)
    assert done.returncode == 0, done.stderr
    expected = json.loads((golden / "expected.json").read_text())
    assert [row["reward"] for row in rows_of(path)] == expected["rewards_row_order"]
    assert plain.read_text() == (golden / "expected_preferences.jsonl").read_text()
    assert critic.read_text() == (golden / "expected_ground_truth_preferences.jsonl").read_text()
    for before, after in zip(rows_of(golden / "trajectories_k3.jsonl"), rows_of(path), strict=True):
        assert before.items() <= after.items()
    summary = expected["summary"]["plain"]
    report = json.loads((tmp_path / "k3.report.json").read_text())
    assert (report["trajectories"], report["tasks"], report["k"]) == (36, 12, 3)
    names = {"tests_passed": "mean_correctness", "success": "fraction_fully_correct"}
    names |= {"best_of_k_tests_passed": "best_of_k_mean"}
    names |= {"best_of_k_success": "best_of_k_fraction_fully_correct"}
    for way in ("fixed", "published"):
        column = report["columns"][way]
        for ours, theirs in names.items():
            assert column[ours]["mean"] == pytest.approx(summary[theirs])


def test_given_rewards_are_trusted(shared, tmp_path):
    golden = shared / "goldens/sweet_rl/b_pairs"
    path = tmp_path / "given.jsonl"
    shutil.copy(golden / "trajectories_k3_with_given_reward.jsonl", path)
    pairs = tmp_path / "pairs.jsonl"
    done = evaluate(path, "--k", 3, "--preference_path", pairs)
    assert done.returncode == 0, done.stderr
    assert pairs.read_text() == (golden / "expected_preferences_given_reward.jsonl").read_text()
    assert path.read_bytes() == (golden / "trajectories_k3_with_given_reward.jsonl").read_bytes()
    assert "36  rows with a stored reward of unknown grading" in done.stdout


def test_missing_rewards_only(write):
    path = write([make_row(RIGHT, reward=0.25), make_row(HALF, task="u")])
    assert evaluate(path).returncode == 0
    first, second = rows_of(path)
    assert (first["reward"], "grades" in first) == (0.25, False)
    assert (second["reward"], second["grades"]) == (0.5, {"fixed": 0.5, "published": 0.5, "lenient": 0.5})
    assert second["theirs"] == {"kept": True}
    assert [test["outcome"] for test in second["test_results"]] == ["passed", "failed"]
    assert (second["test_results"][1]["expected"], second["test_results"][1]["got"]) == ("4", "2")
    done = evaluate(path, "--reevaluate")
    assert done.returncode == 0
    assert [row["reward"] for row in rows_of(path)] == [1.0, 0.5]


def test_the_other_grade_is_at_hand(write):
    helper = "def g(x): return 2 * x\ndef f(x): return g(x)"
    path = write([make_row(helper)])
    assert evaluate(path).returncode == 0
    assert rows_of(path)[0]["reward"] == 1.0
    assert evaluate(path, "--compat", "published").returncode == 0
    (row,) = rows_of(path)
    assert (row["reward"], row["grades"]) == (0.0, {"fixed": 1.0, "published": 0.0, "lenient": 1.0})


def test_the_table_tells_what_a_reader_should_know(write):
    rows = [make_row(RIGHT), make_row("# sudoku\n" + RIGHT, task="u")]
    rows += [make_row("def f(x):\n    raise SystemExit", task="v")]
    path = write([*rows, make_row("No answer", task="w", failures=[{"kind": "timeout"}])])
    done = evaluate(path)
    assert done.returncode == 0, done.stderr
    for words in (
        *(
            "4 trajectories, 4 tasks, k = 1",
            "1  answers that only the word filter or a fence rule set to zero",
        ),
        *("1  answers that would have ended the published evaluation", "1  dialogues without an answer"),
        *("1  dialogues with a failed request", "Answers ran under: "),
    ):
        assert words in done.stdout
    report = json.loads(path.with_suffix(".report.json").read_text())
    assert report["columns"]["fixed"]["success"]["mean"] == 0.25
    assert report["columns"]["constant answer"]["tests_passed"]["mean"] == 0.5
    assert report["columns"]["published"]["not_graded"] == 1


def test_how_much_of_a_score_is_format(write):
    path = write([make_row(RIGHT), make_row(f"```py\n{RIGHT}\n```", task="u"), make_row(WRONG, task="v")])
    done = evaluate(path)
    assert done.returncode == 0, done.stderr
    assert [row["grades"]["lenient"] for row in rows_of(path)] == [1, 1, 0]
    columns = json.loads(path.with_suffix(".report.json").read_text())["columns"]
    assert list(columns) == ["fixed", "published", "lenient", "constant answer"]
    means = [column["success"]["mean"] for column in columns.values()]
    assert means == pytest.approx([1 / 3, 1 / 3, 2 / 3, 0])
    rows = rows_of(path)
    for row in rows:  # as an earlier version has written it
        del row["grades"]["lenient"]
    again = evaluate(write(rows))
    assert again.returncode == 0, again.stderr
    assert "lenient" not in again.stdout


def test_a_task_that_cannot_be_graded_is_in_no_mean_and_in_no_pair(write, tmp_path):
    broken = make_row("def f(x): return 7", task="u", expressions=("f(1) == 1", "f(2) == 4"))
    path, pairs = write([make_row(RIGHT), broken]), tmp_path / "pairs.jsonl"
    done = evaluate(path, "--preference_path", pairs)
    assert done.returncode == 0, done.stderr
    first, second = rows_of(path)
    assert (first["reward"], second["reward"]) == (1.0, None)
    assert second["grades"] == {"fixed": None, "published": 0.5, "lenient": None}
    assert second["grading_details"]["fixed_note"].startswith("cannot be graded: its reference fails 1 of 2")
    assert "1  answers to tasks that cannot be graded" in done.stdout
    assert "1  tasks that cannot be graded, in no mean:" in done.stdout
    report = json.loads(path.with_suffix(".report.json").read_text())
    why = second["grading_details"]["fixed_note"].partition(": ")[2]
    assert list(report["not_gradable"].values()) == [why]
    means = [report["columns"][way]["success"]["mean"] for way in ("fixed", "lenient", "published")]
    assert means == [1, 1, 0.5]
    assert report["columns"]["fixed"]["not_graded"] == 1
    before = path.read_bytes()
    assert evaluate(path).returncode == 0  # nothing is graded again
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("expressions", "why"),
    [
        (["assert f(1) == 2"], "test1 is no expression, as f(1) or f(1) == 2 is (without assert): 'assert"),
        (["f(1)", "x = f(2)"], "test2 is no expression"),
        (["f(1) == 3"], "its reference fails 1 of 1 comparisons"),
    ],
)
def test_where_no_task_can_be_graded_nothing_is_changed_and_why_is_the_error(write, expressions, why):
    broken = make_row(RIGHT, task="u", expressions=expressions)
    path = write([broken])
    before = path.read_bytes()
    done = evaluate(path)
    assert (done.returncode, done.stdout) == (1, "")
    assert "error: None of the tasks of" in done.stderr
    assert why in done.stderr
    assert path.read_bytes() == before
    assert not path.with_suffix(".report.json").exists()
    path = write([make_row(RIGHT), broken])  # beside one that can
    done = evaluate(path)
    assert done.returncode == 0
    assert why in done.stdout
    assert json.loads(path.with_suffix(".report.json").read_text())["columns"]["fixed"]["rows"] == 1


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--k", "2"], "--k"),
        (["--k", "0"], "--k must be at least 1"),
        (["--grading", "strict"], "--compat must be fixed or published"),
        (["--timeout_s", "0"], "must be positive"),
    ],
)
def test_wrong_flags_change_nothing(write, flags, message):
    path = write([make_row(RIGHT)])
    before = path.read_bytes()
    done = evaluate(path, *flags)
    assert done.returncode == 1
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert path.read_bytes() == before


def test_files_that_cannot_be_graded(tmp_path, write):
    missing = evaluate(tmp_path / "nothing.jsonl")
    assert (missing.returncode, "There is no file" in missing.stderr) == (1, True)
    path = write([make_row(RIGHT), {"task": 3}])
    wrong = evaluate(path)
    assert wrong.returncode == 1
    assert "line 2: field 'task' must be the task object, got 3" in wrong.stderr
    path = write([make_row(RIGHT)])
    with locked(path):
        busy = evaluate(path)
    assert (busy.returncode, "Another run is writing" in busy.stderr) == (1, True)


def test_hard_negatives_stand_beside_the_pairs_without_the_solution(write, tmp_path):
    asked = {"role": "assistant", "content": "Which?", "input": "P0:", "output": "Which?"}
    answer = asked | {"content": RIGHT, "input": "P1:", "output": RIGHT}
    better = [{"role": "user", "content": "t"}, asked, {"role": "user", "content": "This."}, answer]
    path = write([make_row(RIGHT, dialogue_history=better), make_row(WRONG)])
    plain, critic = tmp_path / "plain.jsonl", tmp_path / "critic.jsonl"
    paths = ("--preference_path", plain, "--ground_truth_preference_path", critic)
    done = evaluate(path, "--k", 2, *paths, "--hard_negatives", 1)
    assert done.returncode == 0, done.stderr
    assert "1 rows of hard negatives are in it, too." in done.stdout
    assert len(rows_of(critic)) == 1
    row = {"prompt": "P1:", "chosen": RIGHT, "rejected": "Which?", "guard": "hard negative"}
    assert rows_of(plain)[1:] == [row]
    refused = evaluate(path, "--k", 2, "--hard_negatives", 1)
    assert "--hard_negatives adds rows to --preference_path" in refused.stderr
