"""The worlds of `examples/worlds`, by their names in a run that begins there."""

import sys
from importlib import import_module

import pytest

from tests.conftest import ROOT


@pytest.fixture(scope="session")
def worlds():
    sys.path.insert(0, str(ROOT / "examples/worlds"))
    yield {name: import_module(name).WORLD for name in ("meeting", "number", "notice")}
    sys.path.remove(str(ROOT / "examples/worlds"))
