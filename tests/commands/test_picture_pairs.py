"""Pairs of page dialogues as messages with the hidden page's picture."""

import json

import pytest

from sweet_rl.commands.generate_random_pairs_from_ranks import picture_pairs
from sweet_rl.errors import DataError
from sweet_rl.preferences.trajectory_pairs import PREFIX
from sweet_rl.training.data import read_pairs
from sweet_rl.training.settings import DataSettings
from tests.browsers.fake_renderer import FakeRenderer


def dialogue(page, answers, **fields):
    history = [{"role": "user", "content": "A page, please."}]
    for number, answer in enumerate(answers):
        turn = {
            "role": "assistant",
            "content": answer.strip(),
            "input": f"prompt {number} ",
            "output": answer,
        }
        history += [turn, {"role": "user", "content": "More blue."}]
    task = {"problem_description": "A page, please.", "ground_truth": page}
    return {"task": task, "dialogue_history": history[:-1], "answer": None, **fields}


def write(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def side(row, before=""):
    last = row["dialogue_history"][-1]
    return {"input": before + last["input"], "output": last["output"]}


ROWS = [
    dialogue("<p>1</p>", ["red ", "blue "], target_image="shown/1.png"),
    dialogue("<p>1</p>", ["green "], target_image="shown/1.png"),
    dialogue("<p>2</p>", ["white "]),
    dialogue("<p>2</p>", ["black "]),
]


def test_messages_show_the_target(tmp_path, monkeypatch):
    renderer = FakeRenderer()
    monkeypatch.setattr("sweet_rl.browsers.open_renderer", lambda settings: renderer)
    (tmp_path / "runs/shown").mkdir(parents=True)
    (tmp_path / "runs/shown/1.png").write_bytes(b"")
    saved = write(tmp_path / "runs/saved.jsonl", ROWS)
    solution = PREFIX.format(ground_truth="<p>2</p>")
    pairs = [
        {"chosen": side(ROWS[0]), "rejected": side(ROWS[1])},
        {"chosen": side(ROWS[3], solution), "rejected": side(ROWS[2], solution)},
    ]
    output = tmp_path / "out/pairs.jsonl"
    output.parent.mkdir()
    picture_pairs(write(tmp_path / "pairs.jsonl", pairs), saved, str(output))
    first, second = [json.loads(line) for line in output.read_text().splitlines()]
    shown, *said = first["chosen"]
    assert shown["role"] == "system"
    assert shown["content"][1] == {"type": "image", "image": "../runs/shown/1.png"}
    assert [(message["role"], message["content"]) for message in said] == [
        ("user", "A page, please."),
        ("assistant", "red"),
        ("user", "More blue."),
        ("assistant", "blue "),
    ]
    assert [message["content"] for message in first["rejected"][1:]] == ["A page, please.", "green "]
    assert second["chosen"][-1]["content"] == "black "
    assert renderer.pages == ["<p>2</p>"]
    (tmp_path / "runs/shown/1.png").write_bytes(
        (output.parent / second["chosen"][0]["content"][1]["image"]).read_bytes()
    )
    rows = read_pairs(DataSettings(str(output)), seed=0)[0]
    assert [row.chosen.pictures[0].width for row in rows] == [64, 64]


def test_a_pair_of_other_trajectories_is_named(tmp_path):
    saved = write(tmp_path / "saved.jsonl", [row | {"target_image": "saved.jsonl"} for row in ROWS[:2]])
    pairs = write(tmp_path / "pairs.jsonl", [{"chosen": side(ROWS[0]), "rejected": side(ROWS[3])}])
    with pytest.raises(DataError, match=r"pairs\.jsonl, line 1: field 'rejected' is the last turn of none"):
        picture_pairs(pairs, saved, str(tmp_path / "out.jsonl"))
    assert not (tmp_path / "out.jsonl").exists()
