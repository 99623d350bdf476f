"""The goldens, where they are; the tiny model of the taxi."""

import os

import pytest

os.environ.setdefault("OMP_NUM_THREADS", "1")

from tests.online.models import Goldens
from tests.online.reflect import taxi


@pytest.fixture(scope="session")
def goldens(shared):
    return Goldens(shared / "goldens" / "archer")


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    return taxi.make_model(tmp_path_factory.mktemp("model"))
