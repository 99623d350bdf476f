"""The goldens, where they are."""

import os

import pytest

os.environ.setdefault("OMP_NUM_THREADS", "1")

from tests.online.models import Goldens


@pytest.fixture(scope="session")
def goldens(shared):
    return Goldens(shared / "goldens" / "archer")
