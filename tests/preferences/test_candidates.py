"""Sampled rows as they are read: what they may leave out, and files that are wrong."""

import pytest

from sweet_rl.errors import DataError
from sweet_rl.preferences.candidates import candidates_from_rows


def numbered(*rows):
    return list(enumerate(rows, start=1))


def sampled(**fields):
    base = {"input": "i", "ground_truth": "g", "messages": [], "additional_outputs": ["a", "b"]}
    return base | {"additional_reference_logprobs": [-1, -2.0]} | fields


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (sampled(input=None), "'input' must be a string"),
        (sampled(ground_truth=3), "'ground_truth' must be a string"),
        (sampled(additional_outputs=None), "'additional_outputs' must be a list of strings"),
        (sampled(additional_outputs=["a", None]), "'additional_outputs' must be a list of strings"),
        (sampled(additional_reference_logprobs=[-1.0]), "must have 2 entries, one for each candidate"),
        (sampled(additional_token_ids=[["a"], None]), "must be a list of lists of token ids"),
        (sampled(messages=True), "'messages' must be a list of messages"),
        (sampled(messages=[{"role": "user"}]), "'messages' must be a list of messages"),
        (sampled(judge_result=["x", 1]), "'judge_result' must be a list of numbers"),
    ],
)
def test_sampled_rows_that_are_wrong(row, words):
    with pytest.raises(DataError, match=words) as caught:
        candidates_from_rows([(4, row)], path="f.jsonl")
    assert "f.jsonl, line 4" in str(caught.value)


def test_rows_may_differ_in_their_number_of_candidates():
    rows = candidates_from_rows(
        numbered(
            sampled(),
            sampled(additional_outputs=[], additional_reference_logprobs=[]),
            sampled(additional_outputs=["", "x", "y"], additional_reference_logprobs=None),
        )
    )
    assert [len(row.candidates) for row in rows] == [2, 0, 3]
    assert [row.key[1] for row in rows] == [0, 1, 2]
