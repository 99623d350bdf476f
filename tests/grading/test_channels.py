"""What one answer does, another one does not see: each way of telling is tried with two messages."""

import os

import pytest

from sweet_rl.grading.sandbox import Job, Outcome, Program, Sandbox
from tests.grading.channels import CHANNELS


@pytest.fixture(scope="module")
def one_worker():
    with Sandbox(workers=1, timeout_s=1) as sandbox:
        yield sandbox


@pytest.fixture(scope="module")
def two_workers():
    with Sandbox(workers=2, timeout_s=2) as sandbox:
        yield sandbox


def job(source, kind="fixed"):
    return Job(kind, [Program(source, ["f()"])])


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="system calls by the numbers of x86_64")
@pytest.mark.parametrize("channel", [pytest.param(channel, id=channel.name) for channel in CHANNELS])
def test_what_is_seen_does_not_depend_on_what_was_told(one_worker, two_workers, channel):
    sandbox = two_workers if channel.at_once else one_worker
    seen = []
    for bit in (0, 1):
        values = list(sandbox.run([job(channel.writer(bit)), job(channel.reader())]))
        seen.append(values[1][0])
    assert [value.outcome for value in seen] == [Outcome.VALUE] * 2, seen
    assert seen[0].text == seen[1].text
