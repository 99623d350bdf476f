"""The swap test by hand: whose solution a critic is given instead, and how far values move."""

from dataclasses import replace

import pytest

from sweet_rl.errors import UsageError
from sweet_rl.preferences.candidates import Candidates
from sweet_rl.preferences.ranking import Moved, moved, moved_scores, with_others_solutions
from sweet_rl.statistics import other_places


def turn(task, solution, index=0):
    return Candidates((task, 0, index), 1, "P", solution, (), None, None, None, {})


def test_everyone_is_given_the_place_of_another_from_half_way_round_on():
    assert other_places(["a", "b", "c", "d"]) == [2, 3, 0, 1]
    assert other_places(["a", "a", "b", "b", "b"]) == [2, 3, 0, 0, 1]
    assert other_places(["a", "b", "b"]) == [1, 0, 0]
    assert other_places(["a", "a"]) == [0, 1]  # there is no other
    assert other_places([]) == []


def test_all_turns_of_a_task_get_the_same_solution_of_another_task():
    rows = [turn("x", "1"), turn("y", "1"), turn("x", "1", 1), turn("z", "2")]
    swapped = with_others_solutions(rows)
    assert [row.ground_truth for row in swapped] == ["2", "2", "2", "1"]
    assert [replace(row, ground_truth="") for row in swapped] == [
        replace(row, ground_truth="") for row in rows
    ]
    with pytest.raises(UsageError, match="different hidden solutions"):
        with_others_solutions(rows[:3])


def test_a_solution_without_a_line_of_ones_own_is_given_where_there_is_one():
    def solution(*extras):
        return "\n".join(["def total(p):", *extras, "return p"])

    told = [solution("a", "b"), solution("c", "d"), solution("a", "c"), solution("e", "b")]
    swapped = with_others_solutions([turn(str(place), one) for place, one in enumerate(told)])
    # half way round from the first is the third, which has "a", too; the fourth has "b"
    assert [told.index(row.ground_truth) for row in swapped] == [1, 3, 3, 1]
    alike = [turn("x", "a\nb"), turn("y", "a\nc"), turn("z", "b\nc")]
    assert [row.ground_truth for row in with_others_solutions(alike)] == ["a\nc", "b\nc", "a\nb"]


def test_a_solution_that_is_a_part_of_all_others_is_not_given_its_own_text():
    told = ["a", "a\nb", "a"]
    swapped = with_others_solutions([turn(str(place), one) for place, one in enumerate(told)])
    assert [row.ground_truth for row in swapped] == ["a\nb", "a", "a\nb"]


def test_how_far_values_move():
    # Around their means: 1, -1 and 2, 0, -2; swapped 1, -1 and -2, 0, 2.
    # Products 1 + 1 - 4 + 0 - 4 = -6; squares 10 and 10.
    found = moved([([3.0, 1.0], [7.0, 5.0]), ([4.0, 2.0, 0.0], [0.0, 2.0, 4.0]), ([1.0], [9.0])])
    assert found == Moved(2, pytest.approx(-0.6), 0.5)
    # The same for all candidates is no movement: nobody becomes better than another.
    assert moved([([1.0, 2.0], [11.0, 12.0])]) == Moved(1, pytest.approx(1.0), 0.0)
    assert moved([([1.0, 1.0], [2.0, 3.0])]) == Moved(1, None, 1.0)
    assert moved([([1.0], [2.0])]) is None


def test_candidates_without_a_score_are_not_compared():
    rows = [
        {"judge_result": [2.0, None, 0.0, 5.0], "judge_result_swapped": [1.0, 9.0, 0.0, None]},
        {"judge_result": [1.0], "judge_result_swapped": [0.0]},
    ]
    assert moved_scores(rows) == Moved(1, pytest.approx(1.0), 0.0)
    assert moved_scores(rows[1:]) is None
