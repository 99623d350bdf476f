"""What fine-tuning reads: which dialogues, which tokens of them, and what is refused."""

import json

import pytest

from sweet_rl.errors import DataError, UsageError
from sweet_rl.training.batches import Reader, TextCollator
from sweet_rl.training.dialogues import TextRow, read_texts
from sweet_rl.training.encoding import TurnEncoder
from sweet_rl.training.settings import DataSettings, SelectionSettings
from tests.tiny_models import TURN_END, tiny_tokenizer
from tests.training.pairs import turn, write_dialogues, write_pairs

OPEN = "<|header|>assistant<|end_header|>\n\n"


@pytest.fixture(scope="module")
def tokenizer():
    return tiny_tokenizer()


@pytest.fixture
def graded(tmp_path):
    """Two tasks, three repeats each: rewards 0.5 1 1 and 0 0.2 0.2; the last row of all is unfinished."""
    rewards = [0.5, 0, 1, 0.2, 1, 0.2]
    rows = [
        {"task": f"task {i % 2}", "answers": ["What?", f"repeat {i // 2}"], "reward": reward}
        for i, reward in enumerate(rewards)
    ]
    return write_dialogues(tmp_path / "graded.jsonl", rows)


def read(path, **selection):
    return read_texts(DataSettings(str(path), find_prompt=True), SelectionSettings(**selection))


def lines(path, **selection):
    return [row.line for row in read(path, **selection)[0]]


def test_successful_dialogues_and_the_first_best_of_each_task(graded):
    assert lines(graded) == [1, 2, 3, 4, 5, 6]
    assert lines(graded, min_reward=0.5) == [1, 3, 5]
    assert lines(graded, best_of_task=True) == [3, 4]
    assert lines(graded, min_reward=1.0, best_of_task=True) == [3]
    report = read(graded, min_reward=1.0, best_of_task=True)[1]
    assert report.lines(SelectionSettings(1.0, best_of_task=True)) == [
        "4 of 6 dialogues left out: reward below --min_reward 1.0",
        "1 of 6 dialogues left out: not the best of their task",
    ]


def test_a_dialogue_without_a_last_turn_is_left_out_and_counted(graded):
    rows = [json.loads(line) for line in graded.read_text().splitlines()]
    rows[1]["dialogue_history"].append({"role": "user", "content": "Well?"})
    write_pairs(graded, rows)
    texts, report = read(graded)
    assert [row.line for row in texts] == [1, 3, 4, 5, 6]
    assert report.unfinished == 1


def test_a_dialogue_whose_task_cannot_be_graded_is_left_out_and_counted(graded):
    rows = [json.loads(line) for line in graded.read_text().splitlines()]
    rows[0] |= {"reward": None, "grades": {"fixed": None, "published": 1.0}}
    write_pairs(graded, rows)
    assert lines(graded) == [1, 2, 3, 4, 5, 6]
    texts, report = read(graded, min_reward=0.0)
    assert [row.line for row in texts] == [2, 3, 4, 5, 6]
    assert report.lines(SelectionSettings(0.0)) == ["1 of 6 dialogues left out: their tasks cannot be graded"]


def test_a_missing_reward_is_named_by_its_line(graded):
    rows = [json.loads(line) for line in graded.read_text().splitlines()]
    del rows[2]["reward"]
    write_pairs(graded, rows)
    assert lines(graded) == [1, 2, 3, 4, 5, 6]
    with pytest.raises(DataError, match=r"graded\.jsonl, line 3.*evaluate_code\.py"):
        read(graded, min_reward=1.0)


def test_pairs_give_their_chosen_side(tmp_path):
    rows = [
        {"prompt": "p", "chosen": "c", "rejected": "c", "chosen_token_ids": [7], "tokenizer": "t"},
        {"chosen": "whole"},
    ]
    texts, _ = read(write_pairs(tmp_path / "pairs.jsonl", rows))
    path = str(tmp_path / "pairs.jsonl")
    assert texts == [TextRow("p", "c", path, 1, ids=(7,), tokenizer="t"), TextRow("", "whole", path, 2)]
    with pytest.raises(UsageError, match="trajectory file"):
        read(path, min_reward=1.0)


def test_nothing_left_says_why(graded):
    with pytest.raises(UsageError, match=r"6 of 6 dialogues left out: reward below --min_reward 2"):
        read(graded, min_reward=2)


def test_every_turn_of_the_agent_is_imitated_and_nothing_else(tokenizer):
    text = f"<|begin|>{turn('user', 'What?')}{turn('assistant', 'A list.')}{turn('user', 'Yes')}{OPEN}It is zero."
    ((whole,), _) = TurnEncoder(tokenizer, max_len=99).encode_texts([TextRow("", text, "f", 1)])
    batch = TextCollator(Reader(0))([(whole, 1.0)])
    imitated = batch["targets_K"].tolist()
    assert batch["predictors_K"].tolist() == sorted(batch["predictors_K"].tolist())
    assert tokenizer.decode(imitated) == f"A list.{TURN_END}It is zero.{TURN_END}"
    assert whole.weight == len(imitated)


def test_a_text_that_the_token_limit_cut_gets_no_end_token(tokenizer):
    text = f"<|begin|>{turn('user', 'What?')}{OPEN}It is"
    rows = [TextRow("", text, "f", 1, cut=cut) for cut in (False, True)]
    closed, cut = TurnEncoder(tokenizer, max_len=99).encode_texts(rows)[0]
    assert closed.side.ids == (*cut.side.ids, tokenizer.eos_token_id)
    assert closed.weight == cut.weight + 1 == len(tokenizer("It is", add_special_tokens=False).input_ids) + 1
