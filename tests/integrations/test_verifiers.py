"""Our worlds in verifiers: its own command plays them, and the agent earns what it earns in our loop."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import sweet_rl
from tests.conftest import ROOT
from tests.integrations.agent import policy

pytest.importorskip("verifiers.v1", reason="needs the extra `verifiers`")
pytestmark = pytest.mark.timeout(900)  # episodes through the command


def vf_eval(agent_url, folder, *flags):
    """The records of `vf-eval`'s episodes."""
    command = [
        Path(sys.executable).parent / "vf-eval", "sweet-rl-verifiers", "--no-push", "--no-rich", "-o", folder,
        "-m", "agent", "--client.base-url", agent_url, "--client.api-key-var", "KEY_OF_AGENT", *flags,
    ]  # fmt: skip
    env = os.environ | {"KEY_OF_AGENT": "none"}
    done = subprocess.run(command, env=env, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = folder.glob("*/traces.jsonl")
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture(scope="module")
def episodes(agent_url, tmp_path_factory):
    return vf_eval(agent_url, tmp_path_factory.mktemp("eval"), "--env.taskset.tasks", "mini:test", "-n", "20")


def test_the_same_tasks_and_agent_earn_the_same_as_in_our_loop(episodes, earned):
    theirs = {}
    for episode in episodes:
        assert episode["ok"]
        (trace,) = episode["traces"]
        theirs[episode["task"]["key"]] = trace["rewards"]["reward"]["score"]
        assert sum(trace["info"]["turn_rewards"]) == trace["rewards"]["reward"]["score"]
    assert theirs == earned
    assert set(theirs.values()) == {0.5, 1.0}


def test_nothing_that_is_hidden_is_in_a_trace(episodes):
    tasks = {task.task_id: task for task in sweet_rl.load_tasks("mini:test", num_tasks=20)}
    for episode in episodes:
        task = tasks[episode["task"]["key"]]
        (trace,) = episode["traces"]
        told = [node for node in trace["nodes"] if not node["sampled"]]
        written = json.dumps([told, episode["task"]])
        hidden = [*task.ground_truth.splitlines()[1:], *task.test_cases.values()]
        assert [line for line in hidden if line.strip() and json.dumps(line)[1:-1] in written] == []


def test_a_human_who_cannot_be_asked_is_an_error_and_no_reward(agent_url, tmp_path):
    shutil.copy(ROOT / "tests/integrations/agent.py", tmp_path / "broken.py")
    flags = ["--env.taskset.human", "broken:Silent", "-n", "2"]
    for episode in vf_eval(agent_url, tmp_path, *flags):
        assert not episode["ok"]
        assert "user_failed" in json.dumps(episode["errors"])
        assert [trace for trace in episode["traces"] if trace["rewards"]] == []


def test_a_game_rewards_its_turns(agent_url, tmp_path):
    flags = ["--env.taskset.world", "twenty_questions", "-n", "1"]
    flags += ["--env.taskset.options", '{"max_turns": 3}']
    (episode,) = vf_eval(agent_url, tmp_path, *flags)
    (trace,) = episode["traces"]
    how = {"human": "scripted", "num_tasks": 1, "options": {"max_turns": 3}}
    ours = sweet_rl.simulate("twenty_questions", agent=policy(), **how)
    assert trace["info"]["turn_rewards"] == [-1.0, -1.0, -1.0]
    assert trace["rewards"]["reward"]["score"] == ours[0].reward


@pytest.mark.browser
def test_pages(agent_url, tmp_path):
    options = '{"max_turns": 2, "viewport": "320x240"}'
    flags = ["--env.taskset.world", "html", "--env.taskset.options", options, "-n", "1", "-m", "designer"]
    (episode,) = vf_eval(agent_url, tmp_path, *flags)
    (trace,) = episode["traces"]
    assert trace["info"]["stop_reason"] == "answered"
    assert 0 < trace["rewards"]["reward"]["score"] < 0.5
