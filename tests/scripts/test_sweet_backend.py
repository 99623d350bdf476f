"""The whole chain as a person runs it, with a tiny random model on six mini tasks."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sweet_rl.cli import load
from sweet_rl.command_line import read
from sweet_rl.worlds import load_tasks
from tests.conftest import ROOT
from tests.sft_data.serving import talking
from tests.tiny_models import save_tiny_llama
from tests.training.pairs import write_dialogues

CONFIG = """
source {root}/configs/sweet/embedded.sh
SIMULATE_FLAGS=(--agent transformers --env_model scripted --max_steps 2 --max_tokens 8 --quiet)
SAMPLE_FLAGS=(--best_of_n 4 --max_tokens 8 --quiet)
TRAIN_FLAGS+=(--max_len 2048)
"""


PAGES = """
CLIP= AGENT=transformers
source {root}/configs/sweet/llama8b_frontend.sh
LAUNCHER=()
SIMULATE_FLAGS=(--task_type html --agent transformers --env_model scripted --max_steps 1 --max_tokens 8 --quiet)
EVALUATE_FLAGS=(--quiet)
SAMPLE_FLAGS=(--best_of_n 4 --max_tokens 8 --quiet)
RANK_FLAGS=(--quiet)
TRAIN_FLAGS=(--train_batch_size 8 --micro_train_batch_size 8 --quiet)
CRITIC_FLAGS=(--max_len 2048) POLICY_FLAGS=(--max_len 2048)
"""


def offline(folder, tasks=None):
    """Three repeats of some tasks, graded: one of them right. A random model would get none right."""
    tasks = tasks or [task.row for task in load_tasks("mini:train", limit=6)]
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
@pytest.mark.skipif(not shutil.which("chromium"), reason="needs chromium")
def test_the_chain_of_frontend_design_runs_through(chain, tmp_path):
    (tmp_path / "config.sh").write_text(PAGES.format(root=ROOT))
    page = "<html><body><h1>Shop</h1></body></html>"
    given = offline(tmp_path, [{"problem_description": "A page for my shop.", "ground_truth": page}])
    done = chain(OFFLINE=given, TEST_TASKS="mini-web:test", NUM_TEST_TASKS=1, DATA_FRACTION=0.4, NUM_PAIRS=1)
    assert done.returncode == 0, done.stdout + done.stderr
    out = tmp_path / "out"
    assert len((out / "ground_truth_preferences.jsonl").read_text().splitlines()) == 2
    pair = json.loads((out / "ground_truth_preferences.jsonl").read_text().splitlines()[0])
    assert "<html" in pair["chosen"]["input"]
    assert json.loads((out / "test.report.json").read_text())
    assert (out / "policy/config.json").is_file()


@pytest.mark.timeout(300)
@pytest.mark.xdist_group("sweet_backend")
def test_rejection_fine_tuning_runs_through(chain, tmp_path):
    with (tmp_path / "config.sh").open("a") as config:
        config.write("RFT_FLAGS=(--min_reward 1 --best_of_task)\n")
    done = chain(METHOD="rft")
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.findall(r"^\[(\d)\] \$ ", done.stdout, re.MULTILINE) == ["1", "2", "3", "4", "5"]
    assert (tmp_path / "out/policy/config.json").is_file()
    other = chain(METHOD="best")
    assert (other.returncode, other.stderr) == (2, "error: METHOD must be sweet or rft, got 'best'.\n")


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
            command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=280, check=False
        )

    return run


@pytest.mark.timeout(300)
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


@pytest.fixture
def published(tmp_path):
    """All that the published setting needs, in small: data, a model, eight GPUs by nvidia-smi, a launcher."""
    data = tmp_path / "data"
    (data / "backend_tasks").mkdir(parents=True)
    rows = [json.dumps(task.row) + "\n" for task in load_tasks("mini:test", limit=3)]
    (data / "backend_tasks/test.jsonl").write_text("".join(rows))
    offline(tmp_path).rename(data / "colbench_code_offline_15k_llama8b.jsonl")
    (tmp_path / "bin").mkdir()
    for name, says in (("deepspeed", ""), ("nvidia-smi", "printf '81559, 81000\\n%.0s' 1 2 3 4 5 6 7 8")):
        (tmp_path / "bin" / name).write_text(f"#!/bin/sh\n{says}\n")
        (tmp_path / "bin" / name).chmod(0o755)
    variables = {
        "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}",
        "PYTHON": sys.executable,
        "MODEL": save_tiny_llama(tmp_path / "model"),
        "DATA_PATH": data,
        "NUM_TEST_TASKS": 3,
        "FLASH": "",
        "AGENT": "transformers",
    }

    def run(**more):
        environment = os.environ | {name: str(value) for name, value in (variables | more).items()}
        environment.pop("CUDA_VISIBLE_DEVICES", None)
        command = ["bash", str(ROOT / "scripts/sweet_backend.sh"), str(ROOT / "configs/sweet/llama8b.sh")]
        return subprocess.run(
            command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False
        )

    return run


def test_preflight_of_the_published_setting(published, tmp_path):
    with talking(lambda _: "yes") as url:
        where = {"HUMAN_PORT": url.rsplit(":", 1)[1].split("/")[0], "PREFLIGHT": "only"}
        done = published(**where)
        assert done.returncode == 0, done.stdout + done.stderr
        assert [line.split()[0] for line in done.stdout.splitlines()] == ["OK"] * 9, done.stdout
        assert not list((tmp_path / "outputs/sweet_llama8b").glob("[!.]*"))

        short = published(**where, NUM_TEST_TASKS=1000)
        assert short.returncode == 1
        assert "WRONG  tasks to measure on:" in short.stdout
        assert "repair: NUM_TEST_TASKS=3, or the whole file" in short.stdout
        assert short.stderr.startswith("error: 1 of the things that the run needs is wrong")
    wrong = published(HUMAN_PORT=9, K=4, GPUS=16)
    assert wrong.returncode == 1
    assert "[1] $" not in wrong.stdout  # no stage was begun
    assert "no multiple of K=4" in wrong.stdout
    assert "16 processes are to be launched, and there are 8 GPUs" in wrong.stdout
    assert re.search(
        r"WARN   human: .*\n       repair: HUMAN_HOST, HUMAN_PORT, or there: configs/", wrong.stdout
    )


def test_preflight_knows_flags_that_no_stage_has(chain, tmp_path):
    (tmp_path / "config.sh").write_text(CONFIG.format(root=ROOT) + "TRAIN_FLAGS+=(--learing_rate 1)\n")
    done = chain()
    assert done.returncode == 1
    assert "WRONG  flags: unknown flag --learing_rate (did you mean --learning_rate?)" in done.stdout
    assert "[1] $" not in done.stdout


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


STAGES = {"llama8b.sh": 8, "llama8b_frontend.sh": 9, "embedded.sh": 9, "twenty_questions.sh": 12}


@pytest.mark.parametrize("config", STAGES)
@pytest.mark.parametrize("compat", ["fixed", "published"])
def test_every_flag_of_the_chain_exists(config, compat, tmp_path):
    stages = [words for words in dry(tmp_path, config, COMPAT=compat) if words[0] != "cp"]
    assert len(stages) == STAGES[config]
    for words in stages:
        read_flags(words)


@pytest.mark.parametrize(
    ("config", "kept"), [("llama8b.sh", {"min_reward": "1"}), ("llama8b_frontend.sh", {})]
)
def test_rejection_fine_tuning_in_the_published_setting(config, kept, tmp_path):
    """The paper's batch of 32, on the same dialogues; four stages, five where they are simulated first."""
    stages = [words for words in dry(tmp_path, config, METHOD="rft") if words[0] != "cp"]
    names = [Path(words[script_at(words)]).stem for words in stages]
    evaluate = "evaluate_code" if config == "llama8b.sh" else "evaluate_html"
    assert names[-4:] == [evaluate, "train_sft", "simulate_interactions", evaluate]
    flags = read_flags(stages[-3])
    assert flags["train_batch_size"] == "32"
    assert flags["best_of_task"] == "True"
    assert flags.items() >= kept.items()
    assert stages[-3][:3] == ["deepspeed", "--num_gpus", "8"]


def script_at(words):
    (at,) = [i for i, word in enumerate(words) if word.endswith(".py")]
    return at


def read_flags(words):
    """A stage's flags, read as its command line reads them: one that it does not have is an error."""
    at = script_at(words)
    return dict(read(load(Path(words[at]).stem), words[at + 1 :]).flags)


def test_the_published_setting_of_frontend_design(tmp_path):
    """docs/published/sweet_rl.md#settings; the critic's epochs are from the paper."""
    stages = dry(tmp_path, "llama8b_frontend.sh")
    simulate, evaluate, critic, sample, rank, pairs, policy, test, report = map(read_flags, stages)
    for played, tasks, repeats in ((simulate, "1000", "6"), (test, "500", "1")):
        assert (played["num_tasks"], played["best_of_n"]) == (tasks, repeats)
        assert (played["task_type"], played["batch_size"], played["max_steps"]) == ("html", "100", "10")
    assert (evaluate["k"], evaluate["margin"]) == ("6", "0.1")
    assert "ground_truth_preference_path" in evaluate
    assert evaluate["clip_model"] == report["clip_model"] == "openai/clip-vit-base-patch32"
    assert (critic["max_epochs"], critic["max_len"], critic["mean_log_prob"]) == ("8", "8192", "True")
    assert (sample["best_of_n"], pairs["num_pairs"]) == ("16", "4")
    assert (policy["max_epochs"], policy["nll_loss_coef"], policy["prompt_key"]) == ("1", "0.01", "prompt")
    for training in (critic, policy):
        assert (training["learning_rate"], training["beta"], training["train_batch_size"]) == (
            "2e-7",
            "0.1",
            "8",
        )
    assert rank["dtype"] == "bfloat16"
    (tmp_path / "published").mkdir()
    simulate, *_ = dry(tmp_path / "published", "llama8b_frontend.sh", COMPAT="published")
    assert read_flags(simulate)["compat"] == "published"


@pytest.mark.parametrize("vision", [False, True])
def test_the_human_is_served_as_published(vision, tmp_path):
    (tmp_path / "python").write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    (tmp_path / "python").chmod(0o755)
    script = ROOT / "configs/sweet_rl" / ("serve_human_72b_vl.sh" if vision else "serve_human_70b.sh")
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(
        [script, "MODEL", "--extra", "a b"], env=environment, capture_output=True, text=True, check=True
    )
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


def test_the_published_setting(tmp_path):
    """docs/published/sweet_rl.md#settings."""
    stages = dry(tmp_path, "llama8b.sh", COMPAT="published")
    _copy, evaluate, critic, sample, rank, pairs, policy, _simulate, _report = map(" ".join, stages)
    common = "--learning_rate 2e-7 --train_batch_size 8 --micro_train_batch_size 1 --bf16 --zero_stage 3"
    for training in (critic, policy):
        assert training.startswith("deepspeed --num_gpus 8 ")
        assert f"{common} --gradient_checkpointing --flash_attn" in training
        assert "--compat published" in training
    header = "<|start_header_id|>assistant<|end_header_id|>"
    assert f"--mean_log_prob --response_template {header} --beta 0.1 --max_epochs 4 --max_len 8192" in critic
    assert "--beta 0.1 --max_epochs 1 --max_len 16384 --nll_loss_coef 0.01" in policy
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
