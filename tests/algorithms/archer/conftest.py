"""Goldens, and tiny models for everything else."""

import os

import pytest

os.environ.setdefault("OMP_NUM_THREADS", "1")

from tests.algorithms.archer.golden_models import Goldens


@pytest.fixture(scope="session")
def goldens(shared):
    return Goldens(shared / "goldens" / "archer")
