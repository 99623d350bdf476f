"""Starting, watching and ending a server process, with a stand-in for vLLM (tests/vllm has the real one), and the agent in it."""

import asyncio
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sweet_rl.chat import EMBEDDED, PlainChat, model_path
from sweet_rl.errors import ServiceError, UsageError
from sweet_rl.openai_client import RetryPolicy
from sweet_rl.policies.vllm import VLLMPolicy, VLLMServer


@pytest.fixture
def fake(tmp_path):
    """Makes servers whose interpreter runs the stand-in."""
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} {Path(__file__).with_name("fake_vllm.py")} "$@"\n')
    python.chmod(0o755)

    def make(*args, model="M", **options):
        options |= {"args": ["--pids", str(tmp_path / "pids"), *args], "log_path": tmp_path / "log"}
        return VLLMServer(model, python=str(python), **options)

    return make


def pids(folder):
    return [int(pid) for pid in (folder / "pids").read_text().split()]


def alive(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):  # the other one if it ends while we read
        return False
    return state != "Z"


def wait_until_dead(these, timeout_s=10):
    end = time.monotonic() + timeout_s
    while any(map(alive, these)):
        assert time.monotonic() < end, f"still alive: {[pid for pid in these if alive(pid)]}"
        time.sleep(0.05)


async def until(condition, timeout_s=10):
    end = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end
        await asyncio.sleep(0.02)


async def test_start_and_stop_with_everything_it_started(fake, tmp_path):
    async with fake("--tensor-parallel-size", "2") as server:
        assert server.running and server.base_url.startswith("http://127.0.0.1:")
        started = pids(tmp_path)
    assert len(started) == 2
    wait_until_dead(started)
    assert not server.running
    command = (tmp_path / "log").read_text().splitlines()[0]
    begins = "-m vllm.entrypoints.openai.api_server --model M --served-model-name M --host 127.0.0.1 --port"
    assert begins in command and "--data-parallel-size 1" in command
    assert command.endswith("--tensor-parallel-size 2")


MEMORY = "ValueError: Available memory on node 0 (16.6/18.3 GiB)" + "\n".join(map(str, range(50)))


@pytest.mark.parametrize(
    ("last_words", "told"),
    [
        ("the model does not fit", r"(?s)did not start.*the model does not fit"),
        (MEMORY, "VLLM_CPU_KVCACHE_SPACE"),  # with what to do
    ],
)
def test_a_server_that_does_not_start_shows_its_log(fake, last_words, told):
    with pytest.raises(ServiceError, match=told):
        asyncio.run(fake("--die", last_words).start())


def test_an_interpreter_without_vllm_is_told_what_to_do(tmp_path):
    server = VLLMServer("M", python=sys.executable, log_path=tmp_path / "log")
    with pytest.raises(ServiceError, match="has no vLLM: install it in an environment of its own"):
        asyncio.run(server.start())
    with pytest.raises(UsageError, match="no Python interpreter '/no/python'"):
        asyncio.run(VLLMServer("M", python="/no/python", log_path=tmp_path / "log").start())


def test_loading_takes_too_long(fake):
    server = fake("--never-healthy", start_timeout_s=0.5)
    with pytest.raises(ServiceError, match=r"not ready after 0\.5 s"):
        asyncio.run(server.start())
    assert not server.running


async def test_a_start_tells_its_logs_last_line_and_leaves_nothing_if_cancelled(fake, tmp_path, monkeypatch):
    monkeypatch.setattr("sweet_rl.policies.vllm._PROGRESS_S", 0.1)
    said = []
    start = asyncio.create_task(fake("--never-healthy", on_progress=said.append).start())
    await until(lambda: said and "--never-healthy" in said[-1], timeout_s=60)
    await until((tmp_path / "pids").exists, timeout_s=60)
    start.cancel()
    with pytest.raises(asyncio.CancelledError):
        await start
    assert all("vLLM is loading M" in each for each in said)
    wait_until_dead(pids(tmp_path))


def test_the_server_does_not_outlive_a_killed_run(fake, tmp_path):
    server = fake()
    code = (
        "import asyncio, sys\n"
        "from sweet_rl.policies.vllm import VLLMServer\n"
        "async def main():\n"
        f"    await VLLMServer('M', python={server._python!r}, log_path={str(tmp_path / 'log')!r},\n"
        f"                     args={server._args[-2:]!r}).start()\n"
        "    print('ready', flush=True)\n"
        "    await asyncio.sleep(60)\n"
        "asyncio.run(main())\n"
    )
    run = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    with run:
        assert run.stdout.readline() == "ready\n"
        started = pids(tmp_path)
        assert all(map(alive, started))
        run.kill()
    wait_until_dead(started)


def with_policy(server, work):
    async def main():
        retry = RetryPolicy(attempts=2, first_wait_s=0.01)
        policy = await VLLMPolicy.start(server, chat_format=PlainChat(), retry=retry)
        try:
            return await work(policy)
        finally:
            await policy.close()

    return asyncio.run(main())


def test_a_server_that_dies_ends_the_run_with_its_log(fake, observe, tmp_path):
    async def work(policy):
        first = (await policy.act(observe("Hi."))).completion.text
        (sampled,) = await policy.sample(["Hi."], 1)
        assert sampled[0].text == first == f"pid {pids(tmp_path)[0]}"
        died = r"died \(status 7\)\. The end of its log (?s:.*)continue the run"
        with pytest.raises(ServiceError, match=died):
            await policy.act(observe("kill yourself"))

    with_policy(fake(), work)
    wait_until_dead(pids(tmp_path))


def test_a_model_with_a_name_of_ours_is_served_under_that_name(fake, observe, tmp_path):
    """The server loads its folder; with no other name it would know nothing but the folder's."""
    generation = with_policy(fake(model=EMBEDDED), lambda policy: policy.act(observe("Hi.")))
    assert generation.completion.text.startswith("pid ")
    assert f"--model {model_path(EMBEDDED)} " in (tmp_path / "log").read_text()
