"""ZeRO-3 over two processes gives the numbers and the weights of one."""

import json
import os
import socket
import subprocess
import sys

import pytest

from sweet_rl.cli import load
from tests.training.pairs import dialogue_pairs, write_pairs

STAGES = (
    "train_dpo",
    "train_reward_model",
)  # with a reference, and with weights that are not in the checkpoint
FLAGS = {"train_batch_size": 8, "micro_train_batch_size": 3, "learning_rate": 1e-3, "eval_fraction": 0.1}
NUMBERS = {"total_loss", "loss", "grad_norm", "chosen_reward", "eval_loss"}
ALL = """
import os, sys, traceback
os.environ["DS_ACCELERATOR"] = "cpu"
import torch
torch.compile = lambda function=None, **_: function or (lambda it: it)  # for an optimizer that is not ours
import deepspeed
import sweet_rl.training.trainer
from sweet_rl.cli import load
for stage in {stages}:
    if child := os.fork():  # a process trains once; the imports are shared
        if os.waitpid(child, 0)[1]:
            sys.exit(1)
        continue
    try:
        load(stage)({model!r}, {data!r}, save_path={folder!r} + stage, quiet=True, zero_stage=3, **{flags})
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    sys.stdout.flush()
    os._exit(0)
"""


def side_by_side(command, folder):
    """What two processes print that a launcher would start so; none of them outlives a test that fails."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    shared = os.environ | {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    logs = [folder / f"log{rank}" for rank in range(2)]
    processes = []
    try:
        for rank, log in enumerate(logs):
            place = {"RANK": str(rank), "LOCAL_RANK": str(rank)}
            with log.open("w") as file:
                processes.append(
                    subprocess.Popen(command, env=shared | place, stdout=file, stderr=file, cwd=folder)
                )
        statuses = [process.wait(timeout=60) for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert statuses == [0, 0], logs[0].read_text()[-3000:]
    return logs[0].read_text()


def test_zero_3_on_two_processes_gives_the_numbers_of_one(steady, tmp_path):
    pytest.importorskip("deepspeed")
    from safetensors.torch import load_file

    data = write_pairs(tmp_path / "pairs.jsonl", dialogue_pairs(25))
    for stage in STAGES:
        load(stage)(str(steady), str(data), save_path=str(tmp_path / "one" / stage), quiet=True, **FLAGS)
    code = ALL.format(
        stages=STAGES, model=str(steady), data=str(data), folder=f"{tmp_path}/two/", flags=FLAGS
    )
    output = side_by_side([sys.executable, "-c", code], tmp_path)
    assert output.count("DeepSpeed ZeRO-3 over 2 processes") == len(STAGES)
    for stage in STAGES:
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
        assert all((ours[name] - theirs[name]).abs().max() < 1e-4 for name in theirs)
