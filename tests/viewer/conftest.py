"""The sample file in the forms in which they look at it."""

from pathlib import Path

import pytest

from sweet_rl.records import trajectories_from_rows
from sweet_rl.types import Trajectory
from sweet_rl.viewer.export import export
from sweet_rl.viewer.library import Library
from tests.viewer.samples import sample_rows, write_rows


@pytest.fixture(scope="session")
def trajectories() -> list[Trajectory]:
    return trajectories_from_rows(list(enumerate(sample_rows(), start=1)))


@pytest.fixture(scope="session")
def sample_file(tmp_path_factory) -> Path:
    return write_rows(tmp_path_factory.mktemp("viewer") / "sample.jsonl", sample_rows())


@pytest.fixture(scope="session")
def exported(sample_file) -> str:
    """The address of the exported sample file."""
    out = sample_file.with_suffix(".html")
    export(Library([sample_file]), out)
    return out.as_uri()
