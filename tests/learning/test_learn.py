"""From a world to a better agent by two commands, on two cores: a start, a method, its report; and what stops it."""

import json
from statistics import fmean

import pytest

from sweet_rl.cli import load
from sweet_rl.errors import UsageError
from sweet_rl.learning.commands import PolicyFlags
from sweet_rl.learning.policy import demonstration_steps, split_tasks
from sweet_rl.worlds import world_of
from tests.conftest import ROOT
from tests.tiny_models import save_tiny_llama


@pytest.fixture
def beside_the_worlds(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(ROOT / "examples/worlds"))
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}:{ROOT / 'examples/worlds'}")
    monkeypatch.chdir(tmp_path)


def mean_returns(path):
    returns = {}
    for line in path.read_text().splitlines():
        row = json.loads(line)
        returns.setdefault(row["task_id"], []).append(row["reward"])
    return {task: fmean(each) for task, each in returns.items()}


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_policy_is_made_from_nothing_and_learns_from_preferences(beside_the_worlds, tmp_path, capsys):
    load("make_policy")("number:WORLD", "start", steps=160, max_tokens=16)
    assert "ok   it is better than chance" in capsys.readouterr().out
    run = {"method": "dpo", "minutes": 0.1, "max_tokens": 16}
    load("learn")("number:WORLD", "start", "dpo", **run)
    said = capsys.readouterr().out
    report = json.loads((tmp_path / "dpo/report.json").read_text())
    start, policy = (mean_returns(tmp_path / f"dpo/{name}.test.jsonl") for name in ("start", "policy"))
    gained = [policy[task] - start[task] for task in start]
    assert len(gained) == report["tasks"] == 200 and report["difference"] == pytest.approx(fmean(gained))
    assert report["start"] == pytest.approx(fmean(start.values()))
    assert report["policy"] == pytest.approx(fmean(policy.values()))
    assert report["low"] < report["difference"] < report["high"]
    assert report["success"]["policy"] > report["success"]["start"] > 0
    assert f"difference {report['difference']:+.3f}" in said and "ok   there is something to learn" in said
    assert (tmp_path / "dpo/policy/config.json").is_file()
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.safetensors")}
    load("learn")("number:WORLD", "start", "dpo", **run)  # all is there
    assert "begins (" not in capsys.readouterr().out
    assert before == {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.safetensors")}


def test_a_policy_whose_episodes_are_all_alike_is_stopped_before_anything_is_learned(
    beside_the_worlds, tmp_path
):
    save_tiny_llama(tmp_path / "start")
    with pytest.raises(
        UsageError,
        match=r"Stopped. This check failed: there is something to learn. Every episode of a task has the same return",
    ):
        load("learn")("number:WORLD", "start", "out", method="dpo", max_tokens=4)
    assert not (tmp_path / "out/episodes.jsonl").exists()


def test_a_world_without_scripted_agents_asks_for_demonstrations(beside_the_worlds, tmp_path):
    (tmp_path / "bare.py").write_text(
        "from number import Number\n\n\nclass Bare(Number):\n    name, agents = 'number', {}\n\n\nWORLD = Bare()\n"
    )
    import sys

    sys.path.insert(0, str(tmp_path))
    try:
        with pytest.raises(
            UsageError,
            match=r"number has no scripted agent to imitate: name some in `agents` .* --demonstrations FILE",
        ):
            load("make_policy")("bare:WORLD", "start")
    finally:
        sys.path.remove(str(tmp_path))


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_policy_is_not_made_again_and_may_be_with_other_settings(beside_the_worlds, tmp_path, capsys):
    steps, made = {"imitate": 0}, []
    for number in (2, 2, 3):
        with pytest.raises(
            UsageError, match=r"Stopped. This check failed: the policy takes turns\. .* \(--steps\)"
        ):
            load("make_policy")("number:WORLD", "start", steps=number, episodes=200, max_tokens=8)
        said = capsys.readouterr().out
        steps["imitate"] += "[1/1] imitate: done" not in said
        assert ("start.jsonl: done" in said) == (len(made) == 1)
        made.append((tmp_path / "start/model.safetensors").read_bytes())
    assert steps["imitate"] == 2 and made[0] == made[1] != made[2]


@pytest.mark.parametrize(
    ("world", "episodes", "given", "agents", "num_tasks", "repeats"),
    [
        ("twenty_questions", 20, "", ["asker", "hasty", "namer", "random"], 20, 1),  # best plays twenty words
        ("twenty_questions", 150, "namer", ["namer"], 1_000_000, 2),
        # nobody who is told the function
        ("code", 40, "", ["questioner", "expert", "insider", "random"], 40, 1),
    ],
)
def test_who_is_imitated_and_how_often(world, episodes, given, agents, num_tasks, repeats, tmp_path, capsys):
    flags = PolicyFlags(world=world, output_dir="x", pretrain="x", agents=given, episodes=episodes)
    steps = demonstration_steps(flags, split_tasks(world_of(world), tmp_path), tmp_path)
    shown = [step for step in steps if step.run == "simulate_interactions"]
    assert [step.flags["agent_model"] for step in shown] == agents
    assert {(step.flags["num_tasks"], step.flags["repeats"]) for step in shown} == {(num_tasks, repeats)}
    if world == "code":  # without a server for the human, and graded
        assert {step.flags["env_model"] for step in shown} == {"scripted"} and len(steps) == 8
    elif not given:
        assert "best is left out: The best play is known for 1 to 20 words" in capsys.readouterr().out


def test_an_agent_that_is_wanted_has_to_play(tmp_path):
    flags = PolicyFlags(world="twenty_questions", output_dir="x", pretrain="x", agents="best,asker")
    with pytest.raises(
        UsageError, match=r"--agents best,asker: not all of them can play .* for the reason above"
    ):
        demonstration_steps(flags, split_tasks(world_of("twenty_questions"), tmp_path), tmp_path)
