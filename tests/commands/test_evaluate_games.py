"""Worlds that reward turns: reported, and made into preference pairs."""

import json

import pytest

from sweet_rl.commands.evaluate import evaluate_games
from sweet_rl.errors import DataError, UsageError
from sweet_rl.records import read_rows, replace_rows


def game(word, sample, rewards, ended):
    history = [{"role": "user", "content": "Questions:\n"}]
    for number, reward in enumerate(rewards):
        turn = {
            "role": "assistant",
            "content": f"{word} {number}?",
            "input": f"[{number}]",
            "output": f"{word} {number}?",
        }
        history += [turn | {"reward": reward}, {"role": "user", "content": "No."}]
    task = {
        "task_id": f"twenty_questions/{word}",
        "problem_description": "Questions:\n",
        "ground_truth": word,
    }
    return {
        "task": task,
        "dialogue_history": history,
        "answer": None,
        "reward": float(sum(rewards)),
        "task_id": task["task_id"],
        "sample_index": sample,
        "stop_reason": "ended" if ended else "turn_limit",
    }


@pytest.fixture
def games(tmp_path):
    path = tmp_path / "games.jsonl"
    rows = [
        game("dog", 0, [-1, 0], True),
        game("pen", 0, [-1, -1, -1], False),
        game("dog", 1, [-1, -1, -1], False),
        game("pen", 1, [-1, -1, 0], True),
    ]
    replace_rows(path, rows)
    return path


def test_the_numbers_and_the_pairs(games, tmp_path, capsys):
    pairs, hidden = tmp_path / "pairs.jsonl", tmp_path / "hidden.jsonl"
    evaluate_games(
        str(games), k=2, margin=2, preference_path=str(pairs), ground_truth_preference_path=str(hidden)
    )
    report = json.loads(games.with_suffix(".report.json").read_text())
    assert report["return"]["mean"] == pytest.approx((-2 + -2.5) / 2)
    assert report["return, best of k"]["mean"] == pytest.approx((-1 + -2) / 2)
    assert report["ended by the world"]["mean"] == 0.5
    assert report["turns"]["mean"] == pytest.approx((2.5 + 3) / 2)
    # dog: -1 against -3 differs by 2; pen: -2 against -3 does not
    [(_, row)] = read_rows(pairs)
    assert (row["chosen"], row["rejected"]) == ("[1]dog 1?", "[2]dog 2?")
    # no prompt holds what was said before: each turn is a prompt and an output of its own
    assert row["chosen_turns"] == [
        {"input": "[0]", "output": "dog 0?"},
        {"input": "[1]", "output": "dog 1?"},
    ]
    [(_, row)] = read_rows(hidden)
    assert row["chosen"] == "In light that the final answer is: dog.[1]dog 1?"
    assert "1 pairs" in capsys.readouterr().out


def test_failed_episodes_are_counted_and_left_out(games, capsys):
    rows = [row for _, row in read_rows(games)]
    rows[2] |= {"reward": None, "error": {"kind": "timeout", "detail": ""}}
    replace_rows(games, rows)
    evaluate_games(str(games), k=2)
    assert "k = 2; 1 failed and are in no number" in capsys.readouterr().out
    report = json.loads(games.with_suffix(".report.json").read_text())
    assert report["return"]["mean"] == pytest.approx((-1 + -2.5) / 2)


def test_a_file_without_rewards_is_refused(games):
    rows = [row | {"reward": None} for _, row in read_rows(games)]
    replace_rows(games, rows)
    with pytest.raises(UsageError, match=r"holds no rewards.*sweet-rl evaluate_code"):
        evaluate_games(str(games), k=2)


def test_wrong_repeats_are_refused(games):
    with pytest.raises((UsageError, DataError), match=r"3"):
        evaluate_games(str(games), k=3)


@pytest.mark.parametrize(("flags", "message"), [({"k": 0}, "--k"), ({"margin": 0}, "--margin")])
def test_wrong_flags_are_refused(games, flags, message):
    with pytest.raises(UsageError, match=message):
        evaluate_games(str(games), **flags)


def test_what_was_won_where_the_world_says_so(tmp_path, capsys):
    path = tmp_path / "games.jsonl"
    rows = [game("dog", sample, [-1, 0], True) | {"game": {"won": sample == 0}} for sample in range(4)]
    replace_rows(path, rows)
    evaluate_games(str(path), k=4)
    assert json.loads(path.with_suffix(".report.json").read_text())["won"]["mean"] == 0.25
    assert "won" in capsys.readouterr().out
