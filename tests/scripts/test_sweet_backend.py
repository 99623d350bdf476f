"""The whole chain as a person runs it, by its published line, with a tiny random model on six mini tasks."""

import json
import os
import re
import sys

import pytest

from sweet_rl.worlds import load_tasks
from tests.conftest import ROOT, ran
from tests.reflect_data.serving import talking
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
        row["task"] = tasks[i % len(tasks)]
    path.write_text("".join(json.dumps(row) + "\n" for row in trajectories))
    return path


@pytest.mark.timeout(300)
@pytest.mark.xdist_group("sweet_backend")
def test_rejection_fine_tuning_runs_through(chain, tmp_path):
    with (tmp_path / "config.sh").open("a") as config:
        config.write("RFT_FLAGS=(--min_reward 1 --best_of_task)\n")
    done = chain(METHOD="rft")
    assert done.returncode == 0, done.stdout + done.stderr
    assert run_of(done) == ["dialogues", "grades", "policy", "test", "report"]
    assert (tmp_path / "out/policy/config.json").is_file()
    other = chain(METHOD="best")
    assert (other.returncode, other.stderr) == (2, "error: METHOD must be sweet or rft, got 'best'.\n")


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
    assert counts["offline"] == 18
    assert counts["ground_truth_preferences"] == 12
    assert counts["sampled"] == counts["ranked"] == 6
    assert counts["test"] == 6
    assert json.loads((out / "test.report.json").read_text())["columns"]["fixed"]["success"]["mean"] == 0

    again = chain()
    assert again.returncode == 0, again.stderr
    assert re.findall(r"^\[\d/9\] (\w+): done$", again.stdout, re.MULTILINE) == STAGES
    assert "$" not in again.stdout

    (tmp_path / "config.sh").write_text(CONFIG.format(root=ROOT) + "POLICY_FLAGS=(--beta 0)\n")
    wrong = chain(NUM_PAIRS=2)
    assert "stage policy (train_dpo): --beta must be positive" in wrong.stderr
    (tmp_path / "config.sh").write_text(CONFIG.format(root=ROOT))
    other = chain(NUM_PAIRS=2)
    assert "pairs: num_pairs was 4, is 2: runs again" in other.stdout
    assert run_of(other) == ["pairs", "policy", "test", "report"]
    assert list((out / "replaced").glob("policy-*/policy/config.json"))


@pytest.fixture
def published(tmp_path):
    """All that the published setting needs, in small: data, a model, eight GPUs by nvidia-smi, a launcher."""
    data = tmp_path / "data"
    (data / "backend_tasks").mkdir(parents=True)
    rows = [json.dumps(task.row) + "\n" for task in load_tasks("mini:test", num_tasks=3)]
    (data / "backend_tasks/test.jsonl").write_text("".join(rows))
    offline(tmp_path).rename(data / "colbench_code_offline_15k_llama8b.jsonl")
    (tmp_path / "bin").mkdir()
    for name, says in (("deepspeed", ""), ("nvidia-smi", "printf '81559, 81000\\n%.0s' 1 2 3 4 5 6 7 8")):
        (tmp_path / "bin" / name).write_text(f"#!/bin/sh\n{says}\n")
        (tmp_path / "bin" / name).chmod(0o755)
    path, model = f"{tmp_path / 'bin'}:{os.environ['PATH']}", save_tiny_llama(tmp_path / "model")
    small = {"PATH": path, "MODEL": model, "DATA_PATH": data, "NUM_TEST_TASKS": 3, "FLASH": ""}
    small |= {"CUDA_VISIBLE_DEVICES": None}
    config = ROOT / "configs/sweet/llama8b.sh"
    return lambda **more: backend(config, tmp_path, AGENT="transformers", **small | more)


def test_preflight_of_the_published_setting(published, tmp_path):
    with talking(lambda _: "yes") as url:
        where = {"HUMAN_PORT": url.rsplit(":", 1)[1].split("/")[0], "PREFLIGHT": "only"}
        done = published(**where)
        assert done.returncode == 0, done.stdout + done.stderr
        assert [line.split()[0] for line in done.stdout.splitlines()] == ["OK"] * 9, done.stdout
        assert not list((tmp_path / "outputs/sweet_llama8b").glob("[!.]*"))

        short = published(**where, NUM_TEST_TASKS=1000)
        assert short.returncode == 1
        assert "WRONG  tasks of test:" in short.stdout
        assert "repair: --set stages.test.with.num_tasks=3, or the whole file" in short.stdout
        assert short.stderr.startswith("error: 1 of the things that the run needs is wrong")
    wrong = published(HUMAN_PORT=9, K=4, GPUS=16)
    assert wrong.returncode == 1
    assert "] $" not in wrong.stdout  # no stage was begun
    assert "no multiple of 4" in wrong.stdout
    assert "16 processes are to be launched, and there are 8 GPUs" in wrong.stdout
    repair = "hostname and port of simulate_interactions, or there: configs/"
    assert re.search(rf"WARN   human: .*\n       repair: {repair}", wrong.stdout)


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
    assert "colbench/colbench_code_offline_15k_llama8b.jsonl" in stages["dialogues"]
    assert "--compat published" in stages["grades"]
    assert "--k 5" in stages["grades"]
    assert stages["critic"].startswith("deepspeed --num_gpus 4 sweet-rl train_dpo ")
    assert "--pretrain mine" in stages["critic"]
    assert "--flash_attn False" in stages["critic"]
    assert "--compat published" in stages["policy"]
    assert "--data_fraction 0.5" in stages["candidates"]
    assert "tensor_parallel_size" not in stages["candidates"]
    assert "--num_pairs 2" in stages["pairs"]
    assert "--no_prompt" in stages["pairs"]
    assert "--hostname far" in stages["test"]
    assert "--num_tasks 7" in stages["test"]
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
