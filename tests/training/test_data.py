"""Pairs, dialogues and pictures from files, and what is said about rows that are none."""

import gzip
import json

import pytest

from sweet_rl.errors import DataError, UsageError
from sweet_rl.training.data import DataRow, Said, read_pairs, read_texts
from sweet_rl.training.settings import DataSettings
from tests.training.pairs import write_dialogues, write_pairs
from tests.training.vision_models import data_url, png


def read(path, published=False, **settings):
    return read_pairs(DataSettings(dataset=str(path), **settings), seed=3, published=published)[0]


def texts(rows):
    return [(row.prompt.text, row.sides[0].text, row.sides[1].text) for row in rows]


def test_files_of_all_kinds_packed_ones_and_tables(tmp_path, shared):
    rows = [{"chosen": "a", "rejected": "b"}, {"chosen": "c", "rejected": "d"}]
    jsonl, table = "".join(json.dumps(row) + "\n\n" for row in rows), 'chosen,rejected\na,b\n"c",d\n'
    for name, text, lines in (
        ("a.jsonl", jsonl, [1, 3]),
        ("a.json", json.dumps(rows, indent=1), [1, 2]),
        ("a.csv", table, [2, 3]),
    ):
        (tmp_path / name).write_text(text)
        (tmp_path / f"{name}.gz").write_bytes(gzip.compress(text.encode()))
        for path in (tmp_path / name, tmp_path / f"{name}.gz"):
            found = read(path)
            assert texts(found) == [("", "a", "b"), ("", "c", "d")]
            assert [row.line for row in found] == lines
    assert len(read(tmp_path / "a.jsonl", max_samples=1)) == 1
    packed = tmp_path / "a.jsonl.gz"
    packed.write_bytes(packed.read_bytes()[:-9])
    with pytest.raises(UsageError, match="is truncated or not a gzip file"):
        read(packed)
    rows = read(shared / "cases/data/p.parquet")
    assert [row.line for row in rows] == [1, 2, 3, 4]
    assert rows[0].sides[0].messages == ({"role": "assistant", "content": "Four."},)


def test_prompts_and_templates(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({"prompt": "q {x}", "chosen": "a", "rejected": "b"}))
    assert texts(read(path, published=True)) == [("", "a", "b")]
    assert texts(read(path)) == [("q {x}", "a", "b")]
    written = read(path, prompt_key="prompt", input_template="U: {}\nA: ")
    assert texts(written) == [("U: q {x}\nA: ", "a", "b")]


SAY = {"role": "assistant", "content": "yes"}
ASK = {"role": "user", "content": "q"}


def test_an_empty_turn_of_an_agent_is_a_turn_and_an_empty_text_of_others_is_none(tmp_path):
    path, row = tmp_path / "a.jsonl", {"prompt": "p", "chosen": "", "rejected": "b"}
    path.write_text(json.dumps(row | {"turn_index": 0}))
    assert texts(read(path)) == [("p", "", "b")]
    for empty in ("", [ASK, SAY | {"content": ""}], [ASK]):
        path.write_text(json.dumps(row | {"chosen": empty}))
        with pytest.raises(DataError, match="field 'chosen'"):
            read(path)


def test_datasets_are_mixed_until_one_ends(tmp_path):
    for name in "ab":
        lines = [json.dumps({"chosen": f"{name}{i}", "rejected": "r"}) for i in range(40)]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines))
    rows = read(f"{tmp_path}/a.jsonl,{tmp_path}/b.jsonl", dataset_probs="0.75,0.25")
    drawn = {name: [row.sides[0].text for row in rows if row.sides[0].text[0] == name] for name in "ab"}
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
        ({"chosen": "a", "rejected": "b", "chosen_token_ids": ["x"]}, "field 'chosen_token_ids' must be a list"),
        ({"chosen": "a \ud83d", "rejected": "b"}, r"line 2: field 'chosen' holds half a character .'.ud83d'."),
        ({"chosen": "a", "rejected": "b", "chosen_turns": [{"input": 1}]}, "field 'chosen_turns'"),
        ({"chosen": "a", "rejected": "b", "chosen_turns": [{"input": "a", "output": ""}]}, "'chosen_turns' must be a text that is not"),
    ],
)  # fmt: skip
def test_a_row_that_is_no_pair_is_named(row, message, tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({"chosen": "a", "rejected": "b"}) + "\n" + json.dumps(row) + "\n")
    with pytest.raises(DataError, match=message):
        read(path)


def test_no_pairs_at_all(tmp_path):
    (tmp_path / "none.jsonl").write_text("\n")
    with pytest.raises(UsageError, match=r"There are no preference pairs in .*none\.jsonl"):
        read(tmp_path / "none.jsonl")
    with pytest.raises(UsageError, match="There is no file"):
        read(tmp_path / "missing.jsonl")


@pytest.fixture
def graded(tmp_path):
    """Two tasks, three repeats each: rewards 0.5 1 1 and 0 0.2 0.2; the last row of all is unfinished."""
    rewards = [0.5, 0, 1, 0.2, 1, 0.2]
    rows = [
        {"task": f"task {i % 2}", "answers": ["What?", f"repeat {i // 2}"], "reward": reward}
        for i, reward in enumerate(rewards)
    ]
    return write_dialogues(tmp_path / "graded.jsonl", rows)


def selected(path, **selection):
    return read_texts(DataSettings(dataset=str(path)), **selection)


def lines(path, **selection):
    return [row.line for row in selected(path, **selection)[0]]


def test_successful_dialogues_and_the_first_best_of_each_task(graded):
    assert lines(graded) == [1, 2, 3, 4, 5, 6]
    assert lines(graded, min_reward=0.5) == [1, 3, 5]
    assert lines(graded, best_of_task=True) == [3, 4]
    assert lines(graded, min_reward=1.0, best_of_task=True) == [3]
    report = selected(graded, min_reward=1.0, best_of_task=True)[1]
    assert report == [
        "4 of 6 dialogues left out: reward below --min_reward 1.0",
        "1 of 6 dialogues left out: not the best of their task",
    ]


@pytest.mark.parametrize(
    ("changed", "left", "why"),
    [
        (lambda row: row["dialogue_history"].append({"role": "user", "content": "?"}), {}, "they do not end with an agent turn"),
        (lambda row: row.update(reward=None, grades={"fixed": None}), {"min_reward": 0.0}, "their tasks cannot be graded"),
    ],
)  # fmt: skip
def test_dialogues_of_no_use_are_left_out_and_counted(changed, left, why, graded):
    rows = [json.loads(line) for line in graded.read_text().splitlines()]
    changed(rows[1])
    write_pairs(graded, rows)
    texts, report = selected(graded, **left)
    assert [row.line for row in texts] == [1, 3, 4, 5, 6]
    assert report == [f"1 of 6 dialogues left out: {why}"]


def test_a_missing_reward_is_named_by_its_line_and_nothing_left_says_why(graded):
    with pytest.raises(UsageError, match=r"6 of 6 dialogues left out: reward below --min_reward 2"):
        selected(graded, min_reward=2)
    rows = [json.loads(line) for line in graded.read_text().splitlines()]
    del rows[2]["reward"]
    write_pairs(graded, rows)
    assert lines(graded) == [1, 2, 3, 4, 5, 6]
    with pytest.raises(DataError, match=r"graded\.jsonl, line 3.*sweet-rl evaluate_code"):
        selected(graded, min_reward=1.0)


def test_pairs_give_their_chosen_side(tmp_path):
    rows = [
        {"prompt": "p", "chosen": "c", "rejected": "c", "chosen_token_ids": [7], "tokenizer": "t"},
        {"chosen": "whole"},
    ]
    texts, _ = selected(write_pairs(tmp_path / "pairs.jsonl", rows))
    path = str(tmp_path / "pairs.jsonl")
    assert texts == [
        DataRow(Said("p"), (Said("c", ids=(7,)),), path, 1, tokenizer="t"),
        DataRow(Said(), (Said("whole"),), path, 2),
    ]
    with pytest.raises(UsageError, match="trajectory file"):
        selected(path, min_reward=1.0)


def pictured(tmp_path, *rows, **settings):
    path = tmp_path / "pairs.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return read(path, **settings)


def pair(*content):
    ask = {"role": "user", "content": [*content]}
    return {side: [ask, {"role": "assistant", "content": side}] for side in ("chosen", "rejected")}


def test_every_spelling_of_a_picture(tmp_path):
    data = png(40, 30, 0)
    (tmp_path / "a.png").write_bytes(data)
    whole = str(tmp_path / "a.png")
    spellings = [
        {"type": "image", "image": "a.png"},
        {"type": "image", "path": whole},
        {"type": "image", "url": f"file://{whole}"},
        {"type": "image_url", "image_url": {"url": data_url(data)}},
        {"type": "image", "image": data_url(data).replace("image/png", "image")},
    ]
    (row,) = pictured(tmp_path, pair({"type": "text", "text": "these: "}, *spellings))
    marks = [{"type": "image"}] * 5
    assert row.sides[0].messages[0]["content"] == [{"type": "text", "text": "these: "}, *marks]
    assert {(picture.digest, picture.width, picture.height) for picture in row.pictures} == {
        (row.pictures[0].digest, 40, 30)
    }
    assert len(row.sides[0].pictures) == len(row.sides[1].pictures) == 5
    assert row.sides[0].pictures[0] is row.sides[1].pictures[0]  # looked at once


def test_a_prompts_pictures_belong_to_both_sides(tmp_path):
    (tmp_path / "a.png").write_bytes(png(40, 30, 0))
    ask = [{"role": "user", "content": [{"type": "image", "image": "a.png"}]}]
    row = {"prompt": ask, "chosen": [{"role": "assistant", "content": "yes"}]}
    (found,) = pictured(
        tmp_path, row | {"rejected": [{"role": "assistant", "content": "no"}]}, prompt_key="prompt"
    )
    assert [said.messages[-1]["content"] for said in (found.sides[0], found.sides[1])] == ["yes", "no"]
    assert len(found.prompt.pictures) == 1
    assert found.sides[0].pictures == found.sides[1].pictures == ()


def test_the_layout_of_pages(tmp_path):
    sides = {"chosen": {"input": "ask ", "output": "good"}, "rejected": {"input": "other ", "output": "bad"}}
    (row,) = pictured(tmp_path, sides)
    assert (row.prompt, row.sides[0].text, row.sides[1].text) == (Said(), "ask good", "other bad")
    assert [(turn.input, turn.output) for turn in row.sides[0].turns] == [("ask ", "good")]


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ({"type": "image", "image": "b.png"}, r"field 'chosen\[0\]\.content\[0\]' .*not there .*b\.png.* data's folder"),
        ({"type": "image", "image": "broken.png"}, r".*it cannot be decoded.*broken\.png.*A picture is"),
        ({"type": "image", "image": "https://host/a.png"}, ".*is a picture on the web.*Nothing is fetched"),
        ({"type": "image", "image": "data:image/png,abc"}, ".*is a picture that cannot be read"),
        ({"type": "image", "image": "data:image/png;base64,a?"}, ".*is a picture that cannot be read"),
        ({"type": "video", "video": "a.mp4"}, ".*must be a text or a picture"),
        ("text", ".*must be a text or a picture"),
    ],
)  # fmt: skip
def test_one_of_no_use_is_named_with_its_line(part, message, tmp_path):
    (tmp_path / "broken.png").write_bytes(png(40, 30, 0)[:60])
    with pytest.raises(DataError, match=r"pairs\.jsonl, line 2: " + message):
        pictured(tmp_path, pair({"type": "text", "text": "fine"}), pair(part))


def test_an_assistant_shows_none(tmp_path):
    shown = [{"role": "assistant", "content": [{"type": "image", "image": "a"}]}]
    side = [{"role": "user", "content": "draw"}, *shown]
    with pytest.raises(DataError, match="the assistant's own turn"):
        pictured(tmp_path, {"chosen": side, "rejected": side})


def test_a_picture_that_changes_in_the_middle(tmp_path):
    (tmp_path / "a.png").write_bytes(png(40, 30, 0))
    (row,) = pictured(tmp_path, pair({"type": "image", "image": "a.png"}))
    assert row.pictures[0].decoded().size == (40, 30)
    (tmp_path / "a.png").write_bytes(png(40, 30, 1))
    with pytest.raises(UsageError, match="has changed since the run began"):
        row.pictures[0].decoded()
    (tmp_path / "a.png").unlink()
    with pytest.raises(UsageError, match="cannot be read any more"):
        row.pictures[0].decoded()
