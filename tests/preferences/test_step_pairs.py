"""Drawing pairs, by hand."""

import random

import pytest

from sweet_rl.errors import DataError
from sweet_rl.preferences.candidates import candidates_from_rows
from sweet_rl.preferences.step_pairs import (
    StepPair,
    across,
    allowed_pairs,
    best,
    draw_pairs,
    draw_singles,
    halves,
    margin_of,
    pair_row,
    published_draws,
    right_pairs,
    why_unusable,
)


def ranked(texts, scores, **fields):
    row = {"input": "IN:", "ground_truth": "g", "additional_outputs": texts, "judge_result": scores}
    (read,) = candidates_from_rows([(1, row | fields)])
    return read


def test_halves():
    assert halves([3.0, 1.0, 2.0, 0.0]) == ([3, 1], [2, 0])
    assert halves([3.0, 1.0, 2.0]) == ([1], [2, 0])  # the middle one is in the upper half
    assert halves([5.0, None, 1.0, None]) == ([2], [0])
    assert halves([]) == ([], [])


def test_across_the_range():
    assert across([0.0, 1.0, 10.0, 5.0]) == ([0, 1], [3, 2])  # 5 is the middle, and above
    assert across([0.0, 1.0, 2.0, None]) == ([0], [1, 2])
    assert across([3.0, 3.0]) == ([], [0, 1])
    assert across([None]) == across([]) == ([], [])


def test_the_best_against_the_lower_half():
    assert best([3.0, 1.0, 2.0, 0.0]) == ([3, 1], [0])
    assert best([3.0, 1.0, 3.0, 0.0, 2.0]) == ([3, 1], [0, 2])  # both are the best
    assert best([None, 2.0]) == ([], [1])
    assert best([]) == ([], [])


def test_the_draws_decide_which_pairs_there_are():
    row = ranked(list("abcd"), [0.0, 0.1, 0.2, 9.0])
    assert allowed_pairs(row) == [(2, 0), (2, 1), (3, 0), (3, 1)]
    assert allowed_pairs(row, draws="across") == [(3, 0), (3, 1), (3, 2)]
    assert allowed_pairs(row, draws="best") == [(3, 0), (3, 1)]
    assert allowed_pairs(row, draws="across", margin=8.85) == [(3, 0), (3, 1)]
    assert allowed_pairs(row, min_score=0.2) == [(2, 0), (2, 1), (3, 0), (3, 1)]
    assert allowed_pairs(row, min_score=0.3) == [(3, 0), (3, 1)]
    assert allowed_pairs(row, min_score=9.1) == []
    assert "1 of 1 rows have no score of --min_score 9.1 or more" in why_unusable([row], min_score=9.1)
    assert margin_of(row, StepPair(3, 1)) == pytest.approx(8.9)


def test_an_oracle_says_how_many_pairs_are_right():
    row = ranked(
        ["good", "bad", "good too"],
        [2.0, 1.0, 0.0],
        messages=[{"role": "user", "content": "hi"}, {"role": "assistant", "content": "good"}],
    )
    seen = []

    def judge(solution, messages, turn):
        seen.append((solution, [m.content for m in messages]))
        return turn.startswith("good")

    pairs = [StepPair(0, 1), StepPair(0, 2), StepPair(1, 2), StepPair(0, 1)]
    assert right_pairs([row], [pairs], judge) == (2, 1, 1)
    assert set(map(str, seen)) == {"('g', ['hi'])"}
    assert right_pairs([row], [pairs], lambda *_: None) is None


def test_ties_same_texts_and_small_margins_are_no_pairs():
    row = ranked(["a", "b", "c", "b"], [0.0, 1.0, 1.0, 2.0])
    # lower half: a, b(1); upper half: c(1), b(3); c ties with b(1), and b(3) has its text
    assert allowed_pairs(row) == [(2, 0), (3, 0)]
    assert allowed_pairs(row, margin=2.0) == [(3, 0)]
    assert allowed_pairs(row, margin=2.5) == []


def test_no_pair_of_texts_comes_twice_unless_it_may():
    row = ranked(["good", "good", "bad", "bad"], [3.0, 2.0, 1.0, 0.0])
    assert len(allowed_pairs(row)) == 4
    assert draw_pairs(row, 8, random.Random(0)) == [(1, 3)]
    assert len(draw_pairs(row, 8, random.Random(0), with_replacement=True)) == 8
    assert set(draw_pairs(row, 99, random.Random(0), with_replacement=True)) == set(allowed_pairs(row))


def test_draws_are_uniform():
    row = ranked(list("abcd"), [0.0, 1.0, 2.0, 3.0])
    counts = dict.fromkeys(allowed_pairs(row), 0)
    rng = random.Random(0)
    for _ in range(2000):
        for pair in draw_pairs(row, 2, rng):
            counts[pair] += 1
    assert all(900 < count < 1100 for count in counts.values())
    assert len(counts) == 4


def test_singles():
    row = ranked(["a", "b", "a"], [0.0, 1.0, 2.0])
    assert sorted(draw_singles(row, 8, random.Random(0))) == [(0, 0), (1, 1)]
    assert len(draw_singles(row, 8, random.Random(0), with_replacement=True)) == 8


def test_rows_close_with_the_end_token_unless_they_were_cut():
    row = ranked(
        ["short", "long"],
        [1.0, 0.0],
        additional_token_ids=[[5, 2], [6]],
        additional_finish_reasons=["stop", "length"],
        tokenizer="abc",
        task_id="t",
        sample_index=1,
        turn_index=2,
    )
    assert pair_row(row, StepPair(0, 1), end_token="<e>", no_prompt=False) == {
        "prompt": "IN:",
        "chosen": "short<e>",
        "rejected": "long",
        "chosen_token_ids": [5, 2],
        "rejected_token_ids": [6],
        "tokenizer": "abc",
        "task_id": "t",
        "sample_index": 1,
        "turn_index": 2,
        "chosen_index": 0,
        "rejected_index": 1,
    }
    whole = pair_row(row, StepPair(0, 1), end_token="<e>", no_prompt=True)
    assert (whole["chosen"], whole["rejected"]) == ("IN:short<e>", "IN:long")
    assert "chosen_token_ids" not in whole
    published = pair_row(row, StepPair(0, 1), end_token="<e>", no_prompt=True, published=True)
    assert published == {"chosen": "IN:short<e>", "rejected": "IN:long<e>"}


def test_reasons():
    rows = [
        ranked(["a", "b"], [1.0, 1.0]),
        ranked(["a", "a"], [1.0, 2.0]),
        ranked([], []),
        ranked(["a", "b"], [None, 2.0]),
        ranked(["a", "b"], [1.9, 2.0]),
    ]
    assert not any(allowed_pairs(row, margin=0.5) for row in rows)
    words = why_unusable(rows, margin=0.5)
    assert "2 of 5 rows have fewer than two scored candidates" in words
    assert "1 of 5 rows have scores that are all the same" in words
    assert "1 of 5 rows have candidates that are all the same text" in words
    assert "1 of 5 rows have scores closer than --margin 0.5" in words


def test_the_published_rule_wants_the_same_number_everywhere():
    rows = [ranked(["a", "b"], [1.0, 0.0]), ranked(["a"], [1.0])]
    with pytest.raises(DataError, match="must have 2 scores"):
        published_draws(rows, 1, random.Random(0), get_sft=False)
