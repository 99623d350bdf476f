"""The whole chain as a person runs it, by its published line, with a tiny random model on six mini tasks."""

import json
import os
import re
import sys

import pytest

from sweet_rl.worlds import load_tasks
from tests.conftest import ROOT, ran
from tests.tiny_models import save_tiny_llama
from tests.training.pairs import write_dialogues

CONFIG = """
source {root}/configs/sweet/embedded.sh
SIMULATE_FLAGS=(--agent transformers --env_model scripted --max_steps 2 --max_tokens 8 --quiet)
SAMPLE_FLAGS=(--best_of_n 4 --max_tokens 8 --quiet)
TRAIN_FLAGS+=(--max_len 2048)
"""


def backend(config, folder, *words, **variables):
    """The published script with this configuration, run in the folder."""
    given = os.environ | {"PYTHON": sys.executable} | variables
    environment = {name: str(value) for name, value in given.items() if value is not None}
    return ran(
        "bash", ROOT / "scripts/sweet_backend.sh", config, *words, env=environment, cwd=folder, timeout=280
    )


STAGES = ["dialogues", "grades", "critic", "candidates", "ranks", "pairs", "policy", "test", "report"]


def run_of(done):
    """The stages that a run has run."""
    return re.findall(r"^\[\d/\d\] (\w+): after \d+ s$", done.stdout, re.MULTILINE)


def offline(folder, tasks=None):
    """Three repeats of some tasks, graded: one of them right. A random model would get none right."""
    tasks = tasks or [task.row for task in load_tasks("mini:train", num_tasks=6)]
    rows = [
        {"task": task["problem_description"], "answers": ["What?", f"answer {n}"], "reward": int(n == 1)}
        for n in range(3)
        for task in tasks
    ]
    path = write_dialogues(folder / "given.jsonl", rows)
    trajectories = [json.loads(line) for line in path.read_text().splitlines()]
    for i, row in enumerate(trajectories):
        row["task"] = tasks[i % len(tasks)]
    path.write_text("".join(json.dumps(row) + "\n" for row in trajectories))
    return path


@pytest.fixture
def chain(tmp_path):
    (tmp_path / "config.sh").write_text(CONFIG.format(root=ROOT))
    small = {"NUM_TEST_TASKS": 6, "K": 3, "DATA_FRACTION": 0.2, "OUTPUT_PATH": tmp_path / "out"}
    small |= {"MODEL": save_tiny_llama(tmp_path / "model", context=2048), "OFFLINE": offline(tmp_path)}
    return lambda **more: backend(tmp_path / "config.sh", tmp_path, **small | more)


@pytest.mark.timeout(300)
@pytest.mark.xdist_group("sweet_backend")
def test_the_chain_runs_through_and_is_then_done(chain, tmp_path):
    first = chain()
    assert first.returncode == 0, first.stdout + first.stderr
    assert run_of(first) == STAGES
    out = tmp_path / "out"
    counts = {path.stem: len(path.read_text().splitlines()) for path in out.glob("*.jsonl")}
    expected = {"offline": 18, "ground_truth_preferences": 12, "sampled": 6, "ranked": 6, "test": 6}
    assert counts.items() >= expected.items()
    assert json.loads((out / "test.report.json").read_text())["columns"]["fixed"]["success"]["mean"] == 0

    again = chain()
    assert again.returncode == 0, again.stderr
    assert re.findall(r"^\[\d/9\] (\w+): done$", again.stdout, re.MULTILINE) == STAGES
    assert "$" not in again.stdout


def planned(tmp_path, config, **more):
    """Every stage's command line as the chain would run it, by name."""
    done = backend(ROOT / "configs/sweet" / config, tmp_path, "--dry_run", OUTPUT_PATH="out", **more)
    assert done.returncode == 0, done.stderr
    return dict(re.findall(r"^\[\d+/\d+\] (\w+): would run .*\n    \$ (.*)$", done.stdout, re.MULTILINE))


def test_the_published_variables_say_what_they_said(tmp_path):
    stages = planned(
        tmp_path, "llama8b.sh", COMPAT="published", GPUS="4", DATA_PATH="colbench", HUMAN_HOST="far", FLASH="",
        AGENT="transformers", K="5", NUM_PAIRS="2", DATA_FRACTION="0.5", MODEL="mine", NUM_TEST_TASKS="7",
    )  # fmt: skip
    assert list(stages) == STAGES
    assert stages["critic"].startswith("deepspeed --num_gpus 4 sweet-rl train_dpo ")
    for stage, words in {
        "dialogues": ["colbench/colbench_code_offline_15k_llama8b.jsonl"],
        "grades": ["--compat published", "--k 5"],
        "critic": ["--pretrain mine", "--flash_attn False"],
        "policy": ["--compat published"],
        "candidates": ["--data_fraction 0.5"],
        "pairs": ["--num_pairs 2", "--no_prompt"],
        "test": ["--hostname far", "--num_tasks 7"],
    }.items():
        assert [word in stages[stage] for word in words] == [True] * len(words), stages[stage]
    assert "tensor_parallel_size" not in stages["candidates"]
    simulated = planned(tmp_path, "llama8b.sh", OFFLINE="")
    assert "--num_tasks 5000" in simulated["dialogues"]
    assert "--tensor_parallel_size 8" in simulated["dialogues"]
    pages = planned(tmp_path, "llama8b_frontend.sh", COMPAT="published", CLIP="")
    assert "--compat published" in pages["test"]
    assert "clip_model" not in pages["report"]
    assert {"agent", "start", "policy"} <= set(planned(tmp_path, "twenty_questions.sh", METHOD="rft"))


@pytest.mark.parametrize("vision", [False, True])
def test_the_human_is_served_as_published(vision, tmp_path):
    (tmp_path / "python").write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    (tmp_path / "python").chmod(0o755)
    script = ROOT / "configs/sweet_rl" / ("serve_human_72b_vl.sh" if vision else "serve_human_70b.sh")
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = ran(script, "MODEL", "--extra", "a b", env=environment)
    words = done.stdout.splitlines()
    assert words[:2] == ["-m", "vllm.entrypoints.openai.api_server"]
    assert words[-2:] == ["--extra", "a b"]
    flags = " ".join(words)
    for flag in (
        *("--model MODEL", "--port 8000", "--max-model-len 16384", "--tensor-parallel-size 8"),
        *("--gpu-memory-utilization 0.85", "--max-num-seqs 16", "--enforce-eager", "--trust-remote-code"),
    ):
        assert flag in flags
    assert ('--limit-mm-per-prompt {"image": 2}' in flags) is vision
