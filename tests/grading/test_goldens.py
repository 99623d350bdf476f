"""Both ways of grading against the recorded ones (goldens a_evaluate and b_pairs)."""

import json

import pytest

from sweet_rl.grading.code import CodeGrader
from sweet_rl.grading.sandbox import Sandbox
from sweet_rl.records import load_trajectories


@pytest.fixture(scope="module")
def graded(shared):
    folder = shared / "goldens/sweet_rl/a_evaluate"
    cases = json.loads((folder / "expected.json").read_text())["cases"]
    with Sandbox(workers=2) as sandbox:
        grades = list(CodeGrader(sandbox).grade_all(load_trajectories(folder / "trajectories.jsonl")))
    assert len(cases) == len(grades) == 52
    return list(zip(cases, grades, strict=True))


def test_fixed(graded):
    for case, grades in graded:
        if case["fixed"] is not None:  # null: the specification leaves it open (NaN in a list)
            assert grades.fixed.value == pytest.approx(case["fixed"]), case["id"]


def test_published(graded):
    for case, grades in graded:
        if isinstance(case["original"], dict):  # it ended the published run: there is no grade
            assert grades.published.value is None, case["id"]
            assert grades.published.note
        else:
            assert grades.published.value == pytest.approx(case["original"]), case["id"]


def test_what_only_the_filter_or_a_rule_of_format_sets_to_zero_is_known(graded):
    rescued = {case["id"] for case, grades in graded if grades.fixed.value == 0 and grades.lenient.value == 1}
    assert rescued == {
        "leading_space_same_line",
        "fence_py_tag",
        "filter_import_os",
        "filter_comment_from_os",
        "filter_sudoku",
        "filter_quit_substring",
        "filter_in_prose_outside_fence",
        "prose_no_fence",
    }
    assert all((grades.lenient.value or 0) >= (grades.fixed.value or 0) for _, grades in graded)


def test_batch_numbers(shared, graded):
    expected = json.loads((shared / "goldens/sweet_rl/a_evaluate/expected.json").read_text())
    batch = expected["batch_of_non_crashing"]
    values = {case["id"]: grades.published.value for case, grades in graded}
    ours = [values[name] for name in batch["ids"]]
    assert ours == pytest.approx(batch["values"])
    assert sum(ours) / len(ours) == pytest.approx(batch["mean_correctness"])
    assert sum(v == 1 for v in ours) / len(ours) == pytest.approx(batch["fraction_fully_correct"])


@pytest.mark.parametrize("way", ["fixed", "published"])
def test_rewards_of_whole_dialogues(shared, way):
    folder = shared / "goldens/sweet_rl/b_pairs"
    expected = json.loads((folder / "expected.json").read_text())
    with Sandbox(workers=2) as sandbox:
        grader = CodeGrader(sandbox, grading=way)
        scores = list(grader.grade(load_trajectories(folder / "trajectories_k3.jsonl")))
    assert [score.value for score in scores] == expected["rewards_row_order"]
