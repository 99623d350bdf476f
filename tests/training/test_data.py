"""Pairs from files, and what is said about rows that are none."""

import json

import pytest

from sweet_rl.errors import DataError, UsageError
from sweet_rl.training.data import read_pairs
from sweet_rl.training.settings import DataSettings


def read(path, **settings):
    return read_pairs(DataSettings(str(path), **settings), seed=3).train


def texts(rows):
    return [(row.prompt, row.chosen, row.rejected) for row in rows]


def test_the_three_kinds_of_files(tmp_path):
    rows = [{"chosen": "a", "rejected": "b"}, {"chosen": "c", "rejected": "d"}]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n\n" for row in rows))
    (tmp_path / "a.json").write_text(json.dumps(rows, indent=1))
    (tmp_path / "a.csv").write_text('chosen,rejected\na,b\n"c",d\n')
    for name, lines in (("a.jsonl", [1, 3]), ("a.json", [1, 2]), ("a.csv", [2, 3])):
        read_rows = read(tmp_path / name)
        assert texts(read_rows) == [("", "a", "b"), ("", "c", "d")]
        assert [row.line for row in read_rows] == lines
    assert len(read(tmp_path / "a.jsonl", max_samples=1)) == 1


def test_prompts_and_templates(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({"prompt": "q {x}", "chosen": "a", "rejected": "b"}))
    assert texts(read(path)) == [("", "a", "b")]
    assert texts(read(path, find_prompt=True)) == [("q {x}", "a", "b")]
    assert texts(read(path, prompt_key="prompt", input_template="U: {}\nA: ")) == [
        ("U: q {x}\nA: ", "a", "b")
    ]


def test_messages_become_text(tmp_path):
    path = tmp_path / "a.jsonl"
    say = {"role": "assistant", "content": "yes"}
    path.write_text(
        json.dumps({"prompt": [{"role": "user", "content": "q"}], "chosen": [say], "rejected": [say]})
    )

    def render(messages, open_turn):
        return "".join(f"[{m['role']}] {m['content']}\n" for m in messages) + (
            "[assistant] " if open_turn else ""
        )

    rows = read_pairs(DataSettings(str(path), prompt_key="prompt"), seed=0, render=render).train
    assert texts(rows) == [("[user] q\n[assistant] ", "yes\n", "yes\n")]


def test_datasets_are_mixed_until_one_ends(tmp_path):
    for name in "ab":
        lines = [json.dumps({"chosen": f"{name}{i}", "rejected": "r"}) for i in range(40)]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines))
    rows = read(f"{tmp_path}/a.jsonl,{tmp_path}/b.jsonl", dataset_probs="0.75,0.25")
    drawn = {name: [row.chosen for row in rows if row.chosen[0] == name] for name in "ab"}
    assert drawn["a"] == [f"a{i}" for i in range(40)]
    assert drawn["b"] == [f"b{i}" for i in range(len(drawn["b"]))]
    assert 4 < len(drawn["b"]) < 25
    with pytest.raises(UsageError, match="needs 2 numbers"):
        read(f"{tmp_path}/a.jsonl,{tmp_path}/b.jsonl")


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"chosen": "a"}, "line 2: field 'rejected' must be a text that is not empty"),
        ({"chosen": " ", "rejected": "b"}, "line 2: field 'chosen' must be a text that is not empty"),
        ({"chosen": {"input": 1}, "rejected": "b"}, "line 2: field 'chosen'"),
        (
            {"chosen": "a", "rejected": "b", "chosen_token_ids": ["x"]},
            "field 'chosen_token_ids' must be a list",
        ),
    ],
)
def test_a_row_that_is_no_pair_is_named(row, message, tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({"chosen": "a", "rejected": "b"}) + "\n" + json.dumps(row) + "\n")
    with pytest.raises(DataError, match=message):
        read(path)


def test_no_pairs_at_all(tmp_path):
    path = tmp_path / "none.jsonl"
    path.write_text("\n")
    with pytest.raises(UsageError, match=r"There are no preference pairs in .*none\.jsonl"):
        read(path)
    with pytest.raises(UsageError, match="There is no file"):
        read(tmp_path / "missing.jsonl")
