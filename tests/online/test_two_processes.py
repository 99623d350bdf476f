"""Two processes over gloo compute the update of one (the published mean made gradients half as large)."""

import os
import subprocess
import sys

import pytest
import torch

from tests.online import test_learners as learners
from tests.online.two_processes import train


def test_two_processes_do_what_one_does(tmp_path):
    command = [sys.executable, "-m", "tests.online.two_processes", str(tmp_path)]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    for kind in learners.KINDS:
        theirs = torch.load(tmp_path / f"{kind}.pt", weights_only=True)
        alone, infos = train(kind)
        assert learners.distance(learners.weights(alone), theirs["weights"]) < 1e-6
        for ours, found in zip(infos, theirs["infos"], strict=True):
            assert ours == pytest.approx(found, rel=1e-6, abs=1e-6)
