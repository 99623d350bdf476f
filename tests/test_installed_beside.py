"""A package that sweet_rl knows nothing of (`tests/plugins`), installed beside it and used by its names."""

import json
import os
import subprocess
import sys
import tomllib

import pytest

from tests.conftest import ROOT
from tests.training.pairs import dialogue_pairs, write_pairs

TRAINING = {"train_batch_size": 4, "eval_fraction": 0, "device": "cpu", "reference_cache": "none"}


@pytest.fixture
def sweet_rl(installed_plugins, tmp_path):
    """The command line, beside the package; what it says."""

    def run(*words, **flags):
        env = os.environ | {"PYTHONPATH": str(installed_plugins)}
        words = [*map(str, words), *(f"--{name}={value}" for name, value in flags.items())]
        command = [sys.executable, "-m", "sweet_rl", *words]
        done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def test_a_loss_trains_two_steps_and_is_recorded(sweet_rl, tmp_path):
    from tests.tiny_models import save_tiny_llama

    model = save_tiny_llama(tmp_path / "model")
    pairs = write_pairs(tmp_path / "pairs.jsonl", dialogue_pairs(8))
    own = {"loss": "squared_hinge", "save_path": "out", "ckpt_path": "kept", "save_steps": 1}
    sweet_rl("train_dpo", model, pairs, **own, **TRAINING)
    lines = [json.loads(line) for line in (tmp_path / "out/metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [1, 2]
    assert lines[0]["loss"] == pytest.approx(1.0)  # h = 0
    assert lines[1]["grad_norm"] > 0
    record = json.loads((tmp_path / "out/run.json").read_text())
    assert record["settings"]["resolved"]["loss"]["name"] == "squared_hinge"
    assert [i["source"].rpartition("/")[2] for i in record["inputs"] if i["flag"] == "loss"] == ["loss.py"]
    assert json.loads((tmp_path / "kept/checkpoint-1/loss.json").read_text())["name"] == "squared_hinge"


def test_a_world_is_played_measured_and_learned_from(sweet_rl, tmp_path):
    games = {"task_type": "number_guessing", "quiet": "true"}
    said = sweet_rl("simulate_interactions", "numbers:test", "games.jsonl", **games)
    assert "32 episodes" in said
    rows = [json.loads(line) for line in (tmp_path / "games.jsonl").read_text().splitlines()]
    assert {row["task_id"].partition("/")[0] for row in rows} == {"number_guessing"}
    assert all(-6 <= row["reward"] <= 0 for row in rows)  # halving 64 numbers takes 7 guesses at most
    assert rows[0]["provenance"]["settings"]["hints"] is True
    assert "-5.00 [-5.00, -5.00]" in sweet_rl(
        "evaluate_games", "games.jsonl"
    )  # an odd number takes six guesses


def test_a_world_names_itself(sweet_rl, tmp_path):
    sweet_rl(
        "simulate_interactions",
        "numbers:train",
        "a.jsonl",
        task_type="guessing.world:WORLD",
        agent_model="random",
        num_tasks=3,
    )
    assert len((tmp_path / "a.jsonl").read_text().splitlines()) == 3


ONLINE = [
    *("rollout_size=4", "eval_size=1", "iterations=2", "eval_freq=2", "save_freq=2", "warmup_iter=1"),
    *("epochs=1", "actor_epochs=1", "batch_size=2", "grad_accum_steps=1", "max_steps=3", "dtype=float32"),
    *("quiet=true", "save_path=run", "hints=false"),
]


@pytest.mark.parametrize("name", ["number_guessing", "guessing.world:WORLD"])
def test_a_world_is_begun_and_learned_in_online(sweet_rl, tmp_path, name):
    """Behaviour cloning prints the line that goes on; ArCHer takes the world's own options as settings."""
    said = sweet_rl("run_bc", "start", env_name=name, games=1, iterations=1, device="cpu", quiet="true")
    going_on = said.splitlines()[-1].split()
    assert f"env_name={name}" in going_on
    sweet_rl("run_archer", *going_on[1:], *ONLINE)
    played = [json.loads(line) for line in (tmp_path / "run/trajectories.jsonl").read_text().splitlines()]
    assert len(played) == 8
    assert {row["task_id"].partition("/")[0] for row in played} == {"number_guessing"}
    said = [turn["content"] for row in played for turn in row["dialogue_history"] if turn["role"] == "user"]
    assert "Higher." not in said  # hints=false
    assert json.loads((tmp_path / "run/settings.json").read_text())["hints"] is False


TINY = {
    "model_name": "tiny", "reflect_model_name": "tiny", "use_8bit": "no", "device": "cpu", "lora_r": 4,
    "target_modules": "all-linear", "horizon": 3, "hints": "false", "reflect_max_new_tokens": 4, "quiet": "yes",
}  # fmt: skip


def test_agents_that_reflect_learn_in_a_world_and_are_measured(sweet_rl, tmp_path):
    """Its labels are the policy's; its tasks, options and bound of success its own."""
    batch = {"per_device_eval_batch_size": 4, "max_steps": 2, "save_steps": 2}
    run = ("reflect", "rl_finetune", "--env", "number_guessing", "--reflect")
    assert "2 iterations are done" in sweet_rl(*run, **TINY, **batch, ckpt_path="runs")
    logs = json.loads((tmp_path / "runs/000_rl_finetune/checkpoint-2/logs.json").read_text())
    steps = [step for entry in logs for episode in entry["log"] for step in episode["detail"]]
    assert {step["generation"]["content"] for step in steps} <= {str(number) for number in range(1, 65)}
    assert "Guess my number, from 1 to 64." in steps[0]["prompt"]
    policy = "runs/000_rl_finetune/checkpoint-2"
    flags = {**TINY, "eval_reps": 1, "per_device_eval_batch_size": 16, "report": "report.json"}
    said = sweet_rl("reflect", "evaluate", f"{policy}+base", "--env", "guessing.world:WORLD", **flags)
    assert "numbers:test: success" in said
    result = json.loads((tmp_path / "report.json").read_text())["checkpoints"][0]
    assert result["settings"]["hints"] is False
    assert result["levels"][0]["episodes"] == 32
    assert result["levels"][0]["success"] < 0.3  # three draws from 64 numbers


def test_no_file_of_ours_knows_the_package():
    project = tomllib.loads((ROOT / "tests/plugins/pyproject.toml").read_text())["project"]
    names = {name for group in project["entry-points"].values() for name in (*group, *group.values())}
    texts = {path: path.read_text() for path in (ROOT / "sweet_rl").rglob("*.py")}
    assert not [(path, name) for path, text in texts.items() for name in names if name in text]
