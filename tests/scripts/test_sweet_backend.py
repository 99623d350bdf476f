"""The whole chain as a person runs it, with a tiny random model on six mini tasks."""

import inspect
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from sweet_rl.cli import load
from sweet_rl.tasks import load_tasks
from tests.conftest import ROOT
from tests.tiny_models import save_tiny_llama
from tests.training.pairs import write_dialogues

CONFIG = """
source {root}/configs/sweet/embedded.sh
SIMULATE_FLAGS=(--agent transformers --env_model scripted --max_steps 2 --max_tokens 8 --quiet)
SAMPLE_FLAGS=(--best_of_n 4 --max_tokens 8 --quiet)
TRAIN_FLAGS+=(--max_len 2048)
"""


def offline(folder):
    """Three repeats of six tasks, graded: one of them right. A random model would get none right."""
    tasks = [task.row for task in load_tasks("mini:train", limit=6)]
    rows = [
        {
            "task": task["problem_description"],
            "answers": ["What?", f"answer {repeat}"],
            "reward": int(repeat == 1),
        }
        for repeat in range(3)
        for task in tasks
    ]
    path = write_dialogues(folder / "given.jsonl", rows)
    trajectories = [json.loads(line) for line in path.read_text().splitlines()]
    for i, row in enumerate(trajectories):
        row["task"] = tasks[i % 6]
    path.write_text("".join(json.dumps(row) + "\n" for row in trajectories))
    return path


@pytest.fixture
def chain(tmp_path):
    (tmp_path / "config.sh").write_text(CONFIG.format(root=ROOT))
    variables = {
        "PYTHON": sys.executable,
        "MODEL": save_tiny_llama(tmp_path / "model", context=2048),
        "OFFLINE": offline(tmp_path),
        "OUTPUT_PATH": tmp_path / "out",
        "NUM_TEST_TASKS": 6,
        "K": 3,
        "DATA_FRACTION": 0.2,
    }

    def run(**more):
        environment = os.environ | {name: str(value) for name, value in (variables | more).items()}
        command = ["bash", str(ROOT / "scripts/sweet_backend.sh"), str(tmp_path / "config.sh")]
        return subprocess.run(
            command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=110, check=False
        )

    return run


@pytest.mark.xdist_group("sweet_backend")
def test_the_chain_runs_through_and_is_then_done(chain, tmp_path):
    first = chain()
    assert first.returncode == 0, first.stdout + first.stderr
    assert re.findall(r"^\[(\d)\] \$ ", first.stdout, re.MULTILINE) == [str(i) for i in range(1, 10)]
    out = tmp_path / "out"
    counts = {path.stem: len(path.read_text().splitlines()) for path in out.glob("*.jsonl")}
    assert counts["offline"] == 18
    assert counts["ground_truth_preferences"] == 12
    assert counts["sampled"] == counts["ranked"] == 6
    assert counts["test"] == 6
    assert json.loads((out / "test.report.json").read_text())["columns"]["fixed"]["success"]["mean"] == 0

    again = chain()
    assert again.returncode == 0, again.stderr
    assert re.findall(r"^\[(\d)\] done", again.stdout, re.MULTILINE) == [str(i) for i in range(1, 10)]
    assert "$" not in again.stdout

    other = chain(NUM_PAIRS=2)
    assert other.returncode == 1
    assert "random_pairs.jsonl was made by another command" in other.stderr
    (out / "random_pairs.jsonl").unlink()
    (tmp_path / "config.sh").write_text(CONFIG.format(root=ROOT) + "POLICY_FLAGS=(--beta 0)\n")
    anew = chain(NUM_PAIRS=2)
    assert "--beta must be positive" in anew.stderr
    assert re.findall(r"^\[(\d)\] out of date", anew.stdout, re.MULTILINE) == ["7", "8", "9"]
    assert not (out / "policy").exists()
    assert (out / "ranked.jsonl").exists()


def test_what_is_missing_is_said(chain, tmp_path):
    (tmp_path / "config.sh").write_text("")
    done = chain(TEST_TASKS="mini:test", OFFLINE="")
    assert done.returncode == 2
    assert done.stderr == "error: set OFFLINE (trajectories) or TRAIN_TASKS.\n"


def dry(tmp_path, config, **more):
    """Every stage's flags as the chain would give them: its programs are stubs that do nothing."""
    stubs = tmp_path / "bin"
    stubs.mkdir()
    for name in ("python", "deepspeed", "cp"):
        (stubs / name).write_text("#!/bin/sh\n")
        (stubs / name).chmod(0o755)
    environment = os.environ | {"PATH": f"{stubs}:{os.environ['PATH']}", "OUTPUT_PATH": "out"} | more
    command = ["bash", str(ROOT / "scripts/sweet_backend.sh"), str(ROOT / "configs/sweet" / config)]
    done = subprocess.run(
        command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True
    )
    return [shlex.split(line.partition("$ ")[2]) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("config", ["llama8b.sh", "embedded.sh"])
@pytest.mark.parametrize("compat", ["fixed", "published"])
def test_every_flag_of_the_chain_exists(config, compat, tmp_path):
    stages = [words for words in dry(tmp_path, config, COMPAT=compat) if words[0] != "cp"]
    assert len(stages) == (8 if config == "llama8b.sh" else 9)
    for words in stages:
        (script,) = [i for i, word in enumerate(words) if word.endswith(".py")]
        known = inspect.signature(load(Path(words[script]).stem)).parameters
        assert {word[2:] for word in words[script:] if word.startswith("--")} <= known.keys()


def test_the_published_setting(tmp_path):
    """Spec §9.6."""
    stages = dry(tmp_path, "llama8b.sh", COMPAT="published")
    _copy, evaluate, critic, sample, rank, pairs, policy, _simulate, _report = map(" ".join, stages)
    common = "--learning_rate 2e-7 --beta 0.1 --train_batch_size 8 --micro_train_batch_size 1 --bf16 --zero_stage 3"
    for training in (critic, policy):
        assert training.startswith("deepspeed --num_gpus 8 ")
        assert f"{common} --gradient_checkpointing --flash_attn" in training
        assert "--compat published" in training
    header = "<|start_header_id|>assistant<|end_header_id|>"
    assert f"--mean_log_prob --response_template {header} --max_epochs 4 --max_len 8192" in critic
    assert "--max_epochs 1 --max_len 16384 --nll_loss_coef 0.01" in policy
    assert "--mean_log_prob" not in policy
    assert "--response_template" not in policy
    assert "--k 3 --ground_truth_preference_path" in evaluate
    assert "--data_fraction 0.1" in sample
    assert "--compat published" in rank
    assert "--no_prompt --num_pairs 4" in pairs
    (tmp_path / "fixed").mkdir()
    fixed = dry(tmp_path / "fixed", "llama8b.sh")
    assert "--no_prompt" not in fixed[5]
    assert fixed[6][fixed[6].index("--prompt_key") + 1] == "prompt"
