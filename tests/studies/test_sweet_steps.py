"""Credit that is wrong on purpose, by hand."""

import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from sweet_rl.chat import model_path
from sweet_rl.errors import UsageError
from sweet_rl.mini.backend import pretraining
from sweet_rl.mini.backend.pretraining import figures
from sweet_rl.records import replace_rows
from sweet_rl.studies.sweet.steps import check_agent, score_by_oracle, shuffle_scores, take_swapped

CHARGED = 'def total(price, extras):\n    if "storage" in extras:\n        price += 3\n    return price'


def turn(task, solution, **more):
    return {
        "task_id": task,
        "sample_index": 0,
        "turn_index": 0,
        "input": "I:",
        "ground_truth": solution,
    } | more


def written(tmp_path, rows):
    replace_rows(tmp_path / "in.jsonl", rows)
    return str(tmp_path / "in.jsonl"), str(tmp_path / "out.jsonl")


def read(path):
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


def test_an_agent_that_fails_a_gate_is_refused_with_its_figure(tmp_path, monkeypatch):
    from sweet_rl.mini.embedded_agent import make_agent

    make_agent(tmp_path / "agent", pretraining.TEXTS, seed=0, steps=0.003, quiet=True)
    quick = replace(pretraining.TEXTS, figures=partial(figures, each=2, dialogues=2))
    monkeypatch.setattr(pretraining, "TEXTS", quick)
    with pytest.raises(UsageError, match=r"P\(charged\), right solution 0\.\d+ \(has to be at least 0\.5\)"):
        check_agent(str(tmp_path / "agent"), str(tmp_path / "gates.json"))
    assert not (tmp_path / "gates.json").exists()


def test_the_packaged_agent_comes_with_its_figures_which_are_not_measured_again(tmp_path, monkeypatch):
    def measured(*_):
        raise AssertionError

    monkeypatch.setattr("sweet_rl.mini.embedded_agent.check_gates", measured)
    check_agent("embedded", str(tmp_path / "gates.json"))
    figures = json.loads((tmp_path / "gates.json").read_text())
    assert figures == json.loads((Path(model_path("embedded")) / "figures.json").read_text())
    with pytest.raises(AssertionError):  # the same agent under its path is anyone's
        check_agent(model_path("embedded"), str(tmp_path / "other.json"))


def test_scores_with_another_solution_are_put_in_place_of_the_right_ones(tmp_path):
    messages = [{"role": "user", "content": "r"}, {"role": "assistant", "content": "a"}]
    row = turn("a", "one", messages=messages, additional_outputs=["a"])
    source, output = written(tmp_path, [row | {"judge_result": [1], "judge_result_swapped": [2]}])
    take_swapped(source, output)
    assert [row["judge_result"] for row in read(output)] == [[2]]


def test_shuffled_scores_are_the_same_numbers_for_other_texts(tmp_path):
    texts = ["a", "b", "c", "d", "e", "a"]
    messages = [{"role": "user", "content": "r"}, {"role": "assistant", "content": "a"}]
    rows = [
        turn(task, "x", messages=messages, additional_outputs=texts, judge_result=[1, 2, 3, 4, 5, 1])
        for task in "pqrs"
    ]
    source, output = written(tmp_path, rows)
    shuffle_scores(source, output)
    found = [row["judge_result"] for row in read(output)]
    assert all(scores[0] == scores[5] and sorted(scores[:5]) == [1, 2, 3, 4, 5] for scores in found)
    assert len(set(map(tuple, found))) > 1
    shuffle_scores(source, output)
    assert [row["judge_result"] for row in read(output)] == found


def test_the_oracle_scores_good_turns(tmp_path):
    asked = ["Do you charge for storage?", "Do you charge for tuning?", "Hello."]
    messages = [{"role": "user", "content": "Two extras."}, {"role": "assistant", "content": asked[1]}]
    source, output = written(tmp_path, [turn("a", CHARGED, messages=messages, additional_outputs=asked)])
    score_by_oracle(source, output)
    assert read(output)[0]["judge_result"] == [1.0, 0.0, 0.0]
