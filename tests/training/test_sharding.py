"""ZeRO-3 over two processes gives the numbers and the weights of one."""

import json
import socket
import subprocess
import sys

import pytest

from sweet_rl.cli import load
from tests.training.pairs import dialogue_pairs, write_pairs

STAGES = ("train_dpo", "train_reward_model")  # with a reference; with weights that the checkpoint lacks
FLAGS = {"train_batch_size": 8, "micro_train_batch_size": 3, "learning_rate": 1e-3, "eval_fraction": 0.1}
NUMBERS = {"total_loss", "loss", "grad_norm", "chosen_reward", "eval_loss"}
TWO_PROCESSES = """
import gc, os, signal, sys, traceback
gc.disable()
os.environ |= {{"DS_ACCELERATOR": "cpu", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "{port}"}}
import torch
torch.compile = lambda function=None, **_: function or (lambda it: it)  # for an optimizer that is not ours
import deepspeed
import sweet_rl.training.trainer
from sweet_rl.cli import load

def train(stage, rank):
    os.environ |= {{"RANK": str(rank), "LOCAL_RANK": str(rank)}}
    load(stage)({model!r}, {data!r}, save_path={folder!r} + stage, quiet=True, zero_stage=3, **{flags})

for stage in {stages}:  # what a launcher does, but for the imports, which all share
    children = []
    for rank in range(2):
        if child := os.fork():
            children.append(child)
            continue
        signal.alarm(90)  # it may wait for one that has failed
        try:
            train(stage, rank)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        sys.stdout.flush()
        os._exit(0)
    if any([os.waitpid(child, 0)[1] for child in children]):
        sys.exit(1)
"""


def test_zero_3_on_two_processes_gives_the_numbers_of_one(steady, tmp_path):
    pytest.importorskip("deepspeed")
    from safetensors.torch import load_file

    data = write_pairs(tmp_path / "pairs.jsonl", dialogue_pairs(18))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    paths = {"model": str(steady), "data": str(data), "folder": f"{tmp_path}/two/"}
    code = TWO_PROCESSES.format(port=port, stages=STAGES, flags=FLAGS, **paths)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.count("DeepSpeed ZeRO-3 over 2 processes") == len(STAGES)

    for stage in STAGES:
        load(stage)(str(steady), str(data), save_path=str(tmp_path / "one" / stage), quiet=True, **FLAGS)
        ours, theirs = (
            [
                json.loads(line)
                for line in (tmp_path / name / stage / "metrics.jsonl").read_text().splitlines()
            ]
            for name in ("two", "one")
        )
        assert len(theirs) == 4
        for mine, other in zip(ours, theirs, strict=True):
            for name in NUMBERS & set(other):
                assert mine[name] == pytest.approx(other[name], rel=1e-3, abs=1e-5), stage
        ours, theirs = (load_file(tmp_path / name / stage / "model.safetensors") for name in ("two", "one"))
        assert all((ours[name] - theirs[name]).abs().max() < 1e-5 for name in theirs)
