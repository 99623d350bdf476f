"""Two processes over gloo make the run of one: episodes, gradients, critic (published: none of them was shared)."""

import os
import subprocess
import sys

import pytest
import torch

from tests.online.reflect import taxi
from tests.online.reflect.two_processes import RUNS, run


def test_two_processes_do_what_one_does(tmp_path):
    model = taxi.make_model(tmp_path / "model")
    done = subprocess.run(
        [sys.executable, "-m", "tests.online.reflect.two_processes", model, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=110,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    for kind in RUNS:
        theirs = torch.load(tmp_path / f"{kind}.pt", weights_only=True)
        parameters, entries = run(model, kind)
        for one, other in zip(parameters, theirs["parameters"], strict=True):
            assert torch.allclose(one, other, atol=2e-5)
        for one, other in zip(entries, theirs["entries"], strict=True):
            assert one["cost"] == pytest.approx(other["cost"])
            assert one["loss"] == pytest.approx(other["loss"], rel=1e-3, abs=1e-5)
            assert one["critic_loss"] == pytest.approx(other["critic_loss"], rel=1e-3)
