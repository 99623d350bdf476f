"""What one answer does, another one does not see: each way of telling is tried with two messages."""

import os

import pytest

from sweet_rl.grading.sandbox import Sandbox
from tests.grading.attacks import seen_through
from tests.grading.channels import CHANNELS, OPEN_WITHOUT_MOUNTS


@pytest.fixture(scope="module")
def one_worker():
    with Sandbox(workers=1, timeout_s=1) as sandbox:
        yield sandbox


@pytest.fixture(scope="module")
def two_workers():
    with Sandbox(workers=2, timeout_s=2) as sandbox:
        yield sandbox


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="system calls by the numbers of x86_64")
@pytest.mark.parametrize("channel", [pytest.param(channel, id=channel.name) for channel in CHANNELS])
def test_what_is_seen_does_not_depend_on_what_was_told(one_worker, two_workers, channel):
    if channel.name in OPEN_WITHOUT_MOUNTS and "mount" not in one_worker.layers:
        pytest.skip("files of the machine's own mounts have their access times")
    first, second = seen_through(channel, two_workers if channel.at_once else one_worker)
    assert first == second
    assert first[0] in "'\"", first  # it has seen something: no error
