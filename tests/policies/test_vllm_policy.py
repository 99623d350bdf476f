"""The policy with a server of its own, played by a stand-in (tests/vllm has the real one)."""

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from sweet_rl.chat import EMBEDDED, PlainChat, model_path
from sweet_rl.errors import ServiceError
from sweet_rl.openai_client import RetryPolicy
from sweet_rl.policies.vllm import VLLMPolicy, VLLMServer


@pytest.fixture
def start(tmp_path):
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} {Path(__file__).with_name("fake_vllm.py")} "$@"\n')
    python.chmod(0o755)

    def make(model="M"):
        server = VLLMServer(model, python=str(python), log_path=tmp_path / "log")
        retry = RetryPolicy(attempts=2, first_wait_s=0.01)
        return VLLMPolicy.start(server, chat_format=PlainChat(), retry=retry)

    return make


def test_a_server_that_dies_once_costs_nobody_a_turn(start, observe):
    async def main():
        policy = await start()
        try:
            first = (await policy.act(observe("Hi."))).completion.text
            (sampled,) = await policy.sample(["Hi."], 1)
            os.kill(int(first.removeprefix("pid ")), signal.SIGKILL)
            turns = await asyncio.gather(*(policy.act(observe(f"Hi {i}.")) for i in range(5)))
            with pytest.raises(ServiceError, match=r"died \(status 7\), again after a restart"):
                await policy.act(observe("kill yourself"))
        finally:
            await policy.close()
        return first, sampled[0].text, {turn.completion.text for turn in turns}

    first, sampled, later = asyncio.run(main())
    assert first == sampled
    assert len(later) == 1  # all by the second server
    assert first not in later


def test_a_model_with_a_name_of_ours_is_served_under_that_name(start, observe, tmp_path):
    """The server loads its folder; with no other name it would know nothing but the folder's."""

    async def main():
        policy = await start(EMBEDDED)
        try:
            return (await policy.act(observe("Hi."))).completion.text
        finally:
            await policy.close()

    assert asyncio.run(main()).startswith("pid ")
    assert f"--model {model_path(EMBEDDED)} " in (tmp_path / "log").read_text()
