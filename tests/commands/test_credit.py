"""The critic's score of every turn: by hand, resumed, on files without log-probabilities, and from Python."""

import json
import shutil

import pytest

import sweet_rl
from sweet_rl.commands.rank_best_of_n import credit
from sweet_rl.errors import DataError, UsageError
from sweet_rl.preferences.pairs import with_solution
from sweet_rl.records import load_trajectories, replace_rows
from tests.commands.test_step_stages import plain_mean, rows_of, trajectories
from tests.tiny_models import tiny_tokenizer


def recorded_rows(count=3):
    """As our simulations write them: with the sampler's token ids and log-probabilities."""
    tokenizer = tiny_tokenizer()
    for row in trajectories(count):
        for message in row["dialogue_history"]:
            if message["role"] == "assistant":
                ids = tokenizer(message["output"], add_special_tokens=False)["input_ids"]
                message["token_ids"] = [*ids, tokenizer.eos_token_id]
                message["logprobs"] = [-0.5] * len(message["token_ids"])
        yield row


@pytest.fixture
def saved(tmp_path):
    replace_rows(tmp_path / "run.jsonl", recorded_rows())
    return tmp_path / "run.jsonl"


def test_scores_by_hand_beside_the_file_that_stays_as_it_is(models, saved, capsys):
    before = saved.read_bytes()
    credit(saved, critic=models["critic"], quiet=True)
    assert saved.read_bytes() == before
    rows = rows_of(saved.with_name("run.credit.critic.jsonl"))
    assert [row["turn_index"] for row in rows] == [0, 1] * 3
    trajectory = load_trajectories(saved)[1]
    turn = [one for one in trajectory.dialogue_history if one.role == "assistant"][1]
    row = rows[3]
    assert (row["task_id"], row["sample_index"]) == trajectory.key
    for name, context in (
        ("hidden", with_solution(turn.input, trajectory.task.ground_truth)),
        ("without_hidden", turn.input),
    ):
        critic = plain_mean(models["critic"], context, list(turn.token_ids))
        assert row[name]["critic"] == pytest.approx(critic, abs=1e-4)
        assert row[name]["reference"] == -0.5
        assert row[name]["advantage"] == pytest.approx(critic + 0.5, abs=1e-4)
    assert row["credit"]["critic"].startswith("sha256:")
    assert "With the hidden solution: 6 scores, mean " in capsys.readouterr().out


def test_a_critic_is_compared_with_the_model_that_it_was_trained_from(models, saved, tmp_path, capsys):
    """A trained agent likes what it says: compared with its own log-probabilities every turn would seem bad."""
    critic = tmp_path / "trained"
    shutil.copytree(models["critic"], critic)
    shutil.copytree(models["policy"], tmp_path / "base")
    record = {"id": "1", "stage": "train_dpo", "status": "finished", "sessions": []}
    record |= {"folder": str(tmp_path), "settings": {"pretrain": "base"}}
    (critic / "run.json").write_text(json.dumps(record))
    credit(saved, critic=str(critic), hidden=True, quiet=True)
    assert f"is compared with {tmp_path / 'base'}." in capsys.readouterr().out
    row = rows_of(saved.with_name("run.credit.trained.jsonl"))[3]
    turn = [one for one in load_trajectories(saved)[1].dialogue_history if one.role == "assistant"][1]
    base = plain_mean(models["policy"], turn.input, list(turn.token_ids))
    assert row["hidden"]["reference"] == pytest.approx(base, abs=1e-4)
    (found, *_) = sweet_rl.credit(load_trajectories(saved)[1:2], critic, without_hidden=False)
    assert found[1].hidden.advantage == pytest.approx(row["hidden"]["advantage"], abs=1e-5)
    flags = {"reference_model": models["critic"], "overwrite": True}
    credit(saved, critic=str(critic), hidden=True, quiet=True, **flags)
    assert f"is compared with {models['critic']}." in capsys.readouterr().out


def test_only_one_way_and_what_python_gives_are_the_same(models, saved):
    credit(saved, critic=models["critic"], hidden=True, quiet=True)
    rows = rows_of(saved.with_name("run.credit.critic.jsonl"))
    assert all("without_hidden" not in row for row in rows)
    found = sweet_rl.credit(load_trajectories(saved), models["critic"], without_hidden=False)
    assert [len(turns) for turns in found] == [2, 2, 2]
    flat = [one for turns in found for one in turns]
    scores = [row["hidden"]["advantage"] for row in rows]
    assert [one.hidden.advantage for one in flat] == pytest.approx(scores, abs=1e-5)
    assert [one.turn_digest for one in flat] == [row["turn_digest"] for row in rows]


def test_a_run_is_resumed_by_turn_and_never_with_another_critic(models, saved):
    output = saved.with_name("run.credit.critic.jsonl")
    credit(saved, critic=models["critic"], quiet=True)
    whole = output.read_bytes().splitlines(keepends=True)
    output.write_bytes(whole[4] + whole[1] + whole[2][:40])  # out of order, the last line torn
    with pytest.raises(UsageError, match="already holds a run"):
        credit(saved, critic=models["critic"], quiet=True)
    credit(saved, critic=models["critic"], to_continue=True, save_steps=2, quiet=True)
    again = output.read_bytes().splitlines(keepends=True)
    assert again[1] == whole[1]
    scores = [[json.loads(line)["hidden"]["advantage"] for line in lines] for lines in (again, whole)]
    assert scores[0] == pytest.approx(scores[1], abs=1e-5)
    with pytest.raises(UsageError, match="critic was 'sha256:"):
        credit(saved, critic=models["policy"], output_path=output, to_continue=True, quiet=True)
    rows = rows_of(saved)
    rows[0]["dialogue_history"][1]["output"] = "Another?"
    replace_rows(saved, rows)
    with pytest.raises(UsageError, match="turn that is not among yours"):
        credit(saved, critic=models["critic"], to_continue=True, quiet=True)


def test_without_log_probabilities_a_reference_is_asked_for_and_computed(models, tmp_path):
    saved, output = tmp_path / "served.jsonl", tmp_path / "out.jsonl"
    replace_rows(saved, trajectories(2))
    with pytest.raises(UsageError, match="Pass --reference_model"):
        credit(saved, critic=models["critic"], output_path=output, quiet=True)
    flags = {"output_path": output, "reference_model": models["policy"], "quiet": True, "overwrite": True}
    credit(saved, critic=models["critic"], **flags)
    row, turn = rows_of(output)[0], rows_of(saved)[0]["dialogue_history"][1]
    tokenizer = tiny_tokenizer()
    ids = [*tokenizer(turn["output"], add_special_tokens=False)["input_ids"], tokenizer.eos_token_id]
    reference = plain_mean(models["policy"], turn["input"], ids)
    assert row["hidden"]["reference"] == pytest.approx(reference, abs=1e-4)
    credit(saved, critic=models["critic"], advantage="paper", **flags)
    solution = rows_of(saved)[0]["task"]["ground_truth"]
    knowing = plain_mean(models["policy"], with_solution(turn["input"], solution), ids)
    row = rows_of(output)[0]
    assert row["hidden"]["reference"] == pytest.approx(knowing, abs=1e-4)
    assert row["without_hidden"]["reference"] == pytest.approx(reference, abs=1e-4)
    with pytest.raises(UsageError, match="--advantage paper needs --reference_model"):
        credit(saved, critic=models["critic"], advantage="paper")


def test_a_turn_without_a_score_says_why(models, tmp_path, capsys):
    rows = list(recorded_rows(4))
    del rows[0]["dialogue_history"][1]["input"]  # a published row may have no prompt
    rows[1]["dialogue_history"][1] |= {"output": "", "token_ids": []}
    rows[2]["dialogue_history"][1]["output"] = rows[2]["dialogue_history"][1]["input"] * 40
    del rows[3]["dialogue_history"][1]["logprobs"]
    saved = tmp_path / "odd.jsonl"
    replace_rows(saved, rows)
    credit(saved, critic=models["critic"], quiet=True)
    found = rows_of(tmp_path / "odd.credit.critic.jsonl")
    why = [row["hidden"].get("why") for row in found[::2]]
    assert why == ["no_prompt", "no_tokens", "too_long", "no_reference"]
    assert [row["hidden"]["advantage"] for row in found[::2]] == [None] * 4
    assert found[6]["hidden"]["critic"] < 0
    said = capsys.readouterr().out
    assert "With the hidden solution: 4 scores" in said
    assert "1 have none: the file has no prompt of this turn." in said


def test_a_trajectory_that_is_there_twice_is_named(models, tmp_path):
    row = next(recorded_rows(1)) | {"task_id": "a", "sample_index": 0}
    replace_rows(tmp_path / "twice.jsonl", [row, row])
    with pytest.raises(DataError, match=r"line 2.*Delete this line or line 1"):
        credit(tmp_path / "twice.jsonl", critic=models["critic"], quiet=True)
