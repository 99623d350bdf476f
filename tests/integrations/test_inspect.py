"""Our worlds in inspect_ai: its own command plays them, and the agent earns what it earns in our loop; logs out and in."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import sweet_rl
from sweet_rl.errors import DataError
from sweet_rl.integrations.export import export
from sweet_rl.records import load_trajectories, replace_rows, trajectory_to_row
from tests.conftest import ROOT
from tests.integrations.agent import policy

pytest.importorskip("inspect_ai", reason="needs the extra `inspect`")

from inspect_ai.log import EvalSample, read_eval_log, write_eval_log
from inspect_ai.model import (
    ChatMessageAssistant,
    ChatMessageSystem,
    ChatMessageUser,
    ContentImage,
    ContentReasoning,
    ContentText,
)
from inspect_ai.scorer import Score

from sweet_rl.integrations.inspect import write_log

pytestmark = pytest.mark.timeout(900)  # episodes through the command


def inspect_eval(agent_url, folder, *flags):
    """The log of `inspect eval`."""
    command = [
        Path(sys.executable).parent / "inspect", "eval", "--model", "openai-api/local/agent",
        "--model-base-url", agent_url, "--log-dir", folder, "--display", "plain", *flags,
    ]  # fmt: skip
    env = os.environ | {"LOCAL_API_KEY": "none"}
    done = subprocess.run(command, env=env, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = folder.glob("*.eval")
    return path, read_eval_log(path)


@pytest.fixture(scope="module")
def played(agent_url, tmp_path_factory):
    folder = tmp_path_factory.mktemp("logs")
    return inspect_eval(agent_url, folder, "sweet_rl/world", "-T", "tasks=mini:test", "--limit", "20")


def test_the_same_tasks_and_agent_earn_the_same_as_in_our_loop(played, earned):
    _, log = played
    theirs = {sample.id: sample.scores["earned"].value["reward"] for sample in log.samples}
    assert theirs == earned
    assert set(theirs.values()) == {0.5, 1.0}
    means = {score.name: score.metrics["mean"].value for score in log.results.scores}
    assert means["reward"] == pytest.approx(sum(earned.values()) / 20)
    assert means["success"] == pytest.approx(sum(reward == 1 for reward in earned.values()) / 20)


def test_the_model_is_shown_nothing_that_is_hidden(played):
    _, log = played
    tasks = {task.task_id: task for task in sweet_rl.load_tasks("mini:test", num_tasks=20)}
    for sample in log.samples:
        assert sample.target == ""
        hidden = [line for line in tasks[sample.id].ground_truth.splitlines()[1:] if line.strip()]
        shown = [sample.input, *(one.text for one in sample.messages if one.role != "assistant")]
        assert [line for line in hidden if any(line in text for text in shown)] == []


def test_what_was_played_there_comes_here_as_rows(played, tmp_path):
    path, log = played
    out = tmp_path / "rows.jsonl"
    sweet_rl_command("export", path, out, "--to", "trajectories")
    rows = load_trajectories(out)
    assert [row.reward for row in rows] == [sample.scores["earned"].value["reward"] for sample in log.samples]
    ours = sweet_rl.simulate("code", "mini:test", agent=policy(), num_tasks=20)
    dialogues = {row.task.task_id: [message.content for message in row.dialogue_history] for row in rows}
    assert dialogues == {one.task.task_id: [m.content for m in one.dialogue_history] for one in ours}
    assert rows[0].provenance["agent_model"] == "openai-api/local/agent"


def test_a_human_who_cannot_be_asked_is_an_error_and_no_score(agent_url, tmp_path):
    shutil.copy(ROOT / "tests/integrations/agent.py", tmp_path / "broken.py")
    flags = ["sweet_rl/world", "-T", "human=broken:Silent", "--limit", "2", "--no-fail-on-error"]
    _, log = inspect_eval(agent_url, tmp_path, *flags)
    for sample in log.samples:
        assert "user_failed" in sample.error.message
        assert not sample.scores


def test_a_game(agent_url, tmp_path):
    options = ["-T", "world=twenty_questions", "-T", 'options={"max_turns": 3}', "--limit", "1"]
    _, log = inspect_eval(agent_url, tmp_path, "sweet_rl/world", *options)
    assert log.samples[0].scores["earned"].value == {"reward": -3.0, "turns": 3, "success": 0.0}


def sweet_rl_command(*words):
    command = [sys.executable, "-m", "sweet_rl", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_rows_become_a_log_and_come_back_whole(tmp_path):
    episodes = sweet_rl.simulate("code", "mini:test", agent="expert", num_tasks=3, repeats=2)
    rows = [trajectory_to_row(one) for one in sweet_rl.grade(episodes)]
    rows[0] |= {"reward": None, "stop_reason": "user_failed", "error": {"kind": "timeout", "detail": "late"}}
    replace_rows(tmp_path / "rows.jsonl", rows)
    sweet_rl_command("export", tmp_path / "rows.jsonl", tmp_path / "log.eval", "--to", "inspect")
    log = read_eval_log(tmp_path / "log.eval")
    samples = {(sample.id, sample.epoch - 1): sample for sample in log.samples}  # inspect sorts them
    failed, *graded = (samples[row["task_id"], row["sample_index"]] for row in rows)
    assert failed.scores is None
    assert "late" in failed.error.message
    values = [{"reward": row["reward"]} for row in rows[1:]]
    assert [sample.scores["earned"].value for sample in graded] == values
    sweet_rl_command("export", tmp_path / "log.eval", tmp_path / "back.jsonl", "--to", "trajectories")
    back, there = (
        {one.key: one for one in load_trajectories(tmp_path / name)} for name in ("back.jsonl", "rows.jsonl")
    )
    assert back == there


@pytest.mark.parametrize("torn", [lambda log: log[:-200], lambda log: b"", lambda log: b'{"torn'])
def test_a_torn_log_is_named(played, tmp_path, torn):
    (tmp_path / "log.eval").write_bytes(torn(played[0].read_bytes()))
    with pytest.raises(DataError, match=r"log.eval: is no log of inspect_ai .* Name a whole .eval file"):
        export(tmp_path / "log.eval", tmp_path / "rows.jsonl", to="trajectories")
    assert not (tmp_path / "rows.jsonl").exists()


def test_other_peoples_logs_are_read(log, tmp_path):
    said = [ChatMessageUser(content="2+2?"), ChatMessageAssistant(content="4")]
    said = [ChatMessageSystem(content="Be brief."), *said]
    scores = {"match": Score(value="C")}
    sample = EvalSample(id=7, epoch=2, input="2+2?", target="4", messages=said, scores=scores)
    write_eval_log(log.model_copy(update={"samples": [sample]}), tmp_path / "other.eval")
    sweet_rl_command("export", tmp_path / "other.eval", tmp_path / "rows.jsonl", "--to", "trajectories")
    (row,) = load_trajectories(tmp_path / "rows.jsonl")
    assert (row.key, row.reward, row.task.ground_truth, row.answer) == (("7", 1), 1.0, "4", "4")
    assert [message.content for message in row.dialogue_history] == ["2+2?", "4"]
    assert row.dialogue_history[1].input == (
        '[{"content":"Be brief.","role":"system"},{"content":"2+2?","role":"user"}]'
    )


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """A log, for samples of other people's."""
    path = tmp_path_factory.mktemp("log") / "log.eval"
    write_log(sweet_rl.simulate("twenty_questions", num_tasks=1, options={"max_turns": 1}), path)
    return read_eval_log(path)


def foreign(log, path, **fields):
    """A row of another's sample."""
    said = [ChatMessageUser(content="2+2?"), ChatMessageAssistant(content="4")]
    sample = EvalSample(**{"id": 7, "epoch": 1, "input": "2+2?", "target": "4", "messages": said} | fields)
    write_eval_log(log.model_copy(update={"samples": [sample]}), path / "other.eval")
    export(path / "other.eval", path / "rows.jsonl", to="trajectories", overwrite=True)
    (row,) = load_trajectories(path / "rows.jsonl")
    return row


@pytest.mark.parametrize(
    ("value", "reward"),
    [
        ("C", 1), ("P", 0.5), ("I", 0), ("N", 0), ("yes", 1), (True, 1), (0.3, 0.3), ("0.25", 0.25),
        ({"a": "C", "b": 0}, 1), ("B", None), ("", None), (float("nan"), None), ([1, 0], None),
        ({}, None), ({"a": "good"}, None),
    ],
)  # fmt: skip
def test_a_score_that_is_no_number_is_no_reward(log, tmp_path, value, reward, capsys):
    assert foreign(log, tmp_path, scores={"s": Score(value=value)}).reward == reward
    assert ("1 of them have no reward." in capsys.readouterr().out) == (reward is None)


def test_thoughts_are_kept_and_pictures_named(log, tmp_path):
    said = [
        ChatMessageUser(
            content=[ContentText(text="Look."), ContentImage(image="data:image/png;base64,AA==")]
        ),
        ChatMessageAssistant(content=[ContentReasoning(reasoning="A cat?"), ContentText(text="A cat.")]),
    ]
    asked, answered = foreign(log, tmp_path, messages=said).dialogue_history
    assert asked.content == "Look.\n[image]"
    assert (answered.content, answered.output, answered.thoughts) == ("A cat.", "A cat.", "A cat?")


def test_a_sample_that_a_limit_ended_comes_here_as_a_failure(agent_url, tmp_path):
    flags = ["sweet_rl/world", "-T", "world=twenty_questions", "--limit", "1", "--message-limit", "4"]
    path, _ = inspect_eval(agent_url, tmp_path, *flags)
    export(path, tmp_path / "rows.jsonl", to="trajectories")
    (row,) = load_trajectories(tmp_path / "rows.jsonl")
    assert row.reward is None
    assert row.failed
    assert "limit of inspect_ai's ended it: message" in str(row.error)


@pytest.mark.browser
def test_pages(agent_url, tmp_path):
    options = 'options={"max_turns": 2, "viewport": "320x240"}'
    flags = ["sweet_rl/world", "-T", "world=html", "-T", options, "--limit", "1"]
    flags += ["--model", "openai-api/local/designer"]
    _, log = inspect_eval(agent_url, tmp_path, *flags)
    value = log.samples[0].scores["earned"].value
    assert value["turns"] == 2
    assert 0 < value["reward"] < 0.5
