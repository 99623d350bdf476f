"""Stages on a real Ray cluster of this machine: the files of a local run, whoever dies on the way."""

import asyncio
import importlib.util
import json
import os
import pickle
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from sweet_rl.browsers import RenderFailed
from sweet_rl.commands.evaluate_code import evaluate_code
from sweet_rl.commands.evaluate_html import evaluate_html
from sweet_rl.commands.rank_best_of_n import rank_best_of_n
from sweet_rl.commands.sample_best_of_n import sample_best_of_n
from sweet_rl.errors import DataError, EpisodeError, ServiceError, UsageError
from sweet_rl.integrations import ray as over_ray
from sweet_rl.integrations.ray import Workers, open_workers
from sweet_rl.records import replace_rows
from sweet_rl.types import Failure, StopReason
from tests.commands.test_evaluate_code import make_row
from tests.commands.test_step_stages import rows_of, trajectories
from tests.tiny_models import save_tiny_llama

RAY = importlib.util.find_spec("ray")  # not imported: it reads the environment then, and we set a token there

# One cluster for all of them; its workers import torch, on a busy machine for a minute.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(300), pytest.mark.xdist_group("ray")]


@pytest.fixture(scope="module")
def address():
    """A cluster that answers to nobody who lacks its token; its head's processes end with it."""
    if not RAY:
        pytest.skip("needs Ray: pip install 'sweet_rl[ray]'")
    short = tempfile.TemporaryDirectory(prefix="ray", ignore_cleanup_errors=True)  # for sockets
    with pytest.MonkeyPatch.context() as patch, short as folder:
        patch.setenv("RAY_AUTH_MODE", "token")
        patch.setenv("RAY_AUTH_TOKEN", secrets.token_hex(32))
        ray = str(Path(sys.executable).with_name("ray"))
        command = [ray, "start", "--head", "--port=0", "--num-cpus=2", "--include-dashboard=false"]
        command += ["--disable-usage-stats", f"--temp-dir={folder}", "--block"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as head:
            try:
                said = []
                for line in head.stdout:
                    said.append(line)
                    if found := re.search(r"--address='([\d.]+:\d+)'", line):
                        break
                else:
                    pytest.fail("".join(said))
                yield found[1]
            finally:
                head.terminate()


@pytest.fixture
def ray_flags(address):
    return {"fan_out": "ray", "ray_address": address, "ray_workers": 2, "quiet": True}


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    names = enumerate(("policy", "critic"))
    return {name: str(save_tiny_llama(folder / name, seed=seed)) for seed, name in names}


@pytest.fixture
def killed(monkeypatch):
    """Kill one of two workers while it has work in hand; holds its process id then."""
    pids, taken, take = [], [], Workers._take

    async def take_and_kill(self, most):
        worker = await take(self, most)
        # both are to be up, or the first one would be through before; the event in there is not ours to clear
        while not pids and len(self._ready) < 2:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        taken.append(worker)
        if not pids and taken.count(worker) == 2:
            pids.append(int(worker.name.split()[0]))
            asyncio.get_running_loop().call_soon(os.kill, pids[0], signal.SIGKILL)  # when it has been asked
        return worker

    monkeypatch.setattr(Workers, "_take", take_and_kill)
    return pids


def test_sampling_goes_on_when_a_worker_is_killed(models, ray_flags, killed, tmp_path, capsys):
    replace_rows(tmp_path / "in.jsonl", trajectories(15))
    flags = {"best_of_n": 4, "max_tokens": 24, "batch_size": 4, "quiet": True}
    whole, output = tmp_path / "local.jsonl", tmp_path / "ray.jsonl"
    sample_best_of_n(tmp_path / "in.jsonl", whole, models["policy"], **flags)
    begun = whole.read_bytes().splitlines(keepends=True)[7:9]
    output.write_bytes(b"".join(begun) + begun[0][:50])  # by a local run, which was stopped while it wrote
    sample_best_of_n(tmp_path / "in.jsonl", output, models["policy"], to_continue=True, **flags | ray_flags)
    assert f"The Ray worker {killed[0]} on " in capsys.readouterr().err
    for ours, local in zip(rows_of(output), rows_of(whole), strict=True):
        for name in ("additional_reference_logprobs", "additional_reference_logprobs_sum"):
            assert ours.pop(name) == pytest.approx(local.pop(name), abs=1e-4)  # the batches were other ones
        assert ours == local


def test_ranking_goes_on_when_a_worker_is_killed(models, ray_flags, killed, tmp_path, capsys):
    replace_rows(tmp_path / "in.jsonl", trajectories(10))
    sampled, whole, output = (tmp_path / name for name in ("sampled.jsonl", "local.jsonl", "ray.jsonl"))
    sample_best_of_n(tmp_path / "in.jsonl", sampled, models["policy"], best_of_n=4, max_tokens=8, quiet=True)
    flags = {"save_steps": 1, "reference_model": models["policy"], "advantage": "paper", "quiet": True}
    rank_best_of_n(sampled, whole, models["critic"], **flags)
    rank_best_of_n(sampled, output, models["critic"], **flags | ray_flags)
    assert f"The Ray worker {killed[0]} on " in capsys.readouterr().err
    assert output.read_bytes() == whole.read_bytes()


def both_places(tmp_path, rows):
    """Folders for a local run of the same rows, and for one over Ray."""
    places = tmp_path / "local", tmp_path / "ray"
    for folder in places:
        folder.mkdir()
        replace_rows(folder / "runs.jsonl", rows)
    return places


def test_grading_goes_on_when_a_worker_is_killed(ray_flags, killed, tmp_path, capsys):
    answer = "import time\ndef f(x):\n    time.sleep(0.02)\n    return x * "
    tests = {"expressions": ("f(0)", "f(1)", "f(2)")}
    rows = [make_row(f"{answer}{(2, 3, 1)[i % 3]}", task=f"t{i}", **tests) for i in range(60)]
    local, ray = both_places(tmp_path, rows)
    flags = {"workers": 1, "quiet": True}
    evaluate_code(str(local / "runs.jsonl"), **flags)
    expected = capsys.readouterr().out.replace(str(local), str(ray)).splitlines()
    evaluate_code(str(ray / "runs.jsonl"), **flags | ray_flags)
    said = capsys.readouterr()
    assert f"The Ray worker {killed[0]} on " in said.err
    assert [line for line in said.out.splitlines() if "(raylet)" not in line] == expected
    assert (ray / "runs.jsonl").read_bytes() == (local / "runs.jsonl").read_bytes()
    reports = [json.loads((folder / "runs.report.json").read_text()) for folder in (local, ray)]
    assert reports[0] | {"saved_path": ""} == reports[1] | {"saved_path": ""}


@pytest.mark.browser
def test_rendering_goes_on_when_a_worker_is_killed(ray_flags, killed, tmp_path, capsys):
    if shutil.which("chromium") is None and os.environ.get("SWEET_RL_REQUIRE_BROWSER") != "1":
        pytest.skip("no chromium on the PATH")
    rows = []
    for number in range(8):
        page = f"<html><body><h1>Page {number}</h1><p>{'word ' * number}</p></body></html>"
        task = {"problem_description": f"page {number}", "ground_truth": page}
        turn = {"role": "assistant", "content": page, "input": "a", "output": page}
        said = [{"role": "user", "content": task["problem_description"]}, turn]
        rows.append({"task": task, "dialogue_history": said, "answer": None})
    local, ray = both_places(tmp_path, rows)
    flags = {"browsers": 1, "page_timeout_s": 90, "render_cache": "none", "quiet": True}
    evaluate_html(str(local / "runs.jsonl"), **flags)
    evaluate_html(str(ray / "runs.jsonl"), **flags | ray_flags)
    assert f"The Ray worker {killed[0]} on " in capsys.readouterr().err
    assert (ray / "runs.jsonl").read_bytes() == (local / "runs.jsonl").read_bytes()
    assert all(row["floors"]["blank page"] for row in rows_of(ray / "runs.jsonl"))


def test_why_a_page_gives_no_picture_comes_from_over_there():
    error = pickle.loads(pickle.dumps(RenderFailed(Failure("timeout", "<p>"))))
    assert (error.failure, str(error)) == (Failure("timeout", "<p>"), "timeout: <p>")


@dataclass
class Odd:
    """A part that does what it is told."""

    facts: str = "odd"

    async def fail(self, error):
        raise error

    async def die(self):
        os.kill(os.getpid(), signal.SIGKILL)

    async def add(self, a, b):
        return a + b


async def build(error=None):
    if error:
        raise error
    return Odd()


def cluster(address, gpus=None):
    return SimpleNamespace(ray_address=address, ray_workers=1, ray_gpus_per_worker=gpus)


def ask(address, method, *arguments, error=None):
    with open_workers(cluster(address), partial(build, error), use_gpus=False) as workers:
        return asyncio.run(workers.ask(method, *arguments))


def test_what_a_part_raises_arrives_as_it_is(address, capsys):
    assert ask(address, "add", 1, 2) == 3
    assert "Ray worker" not in capsys.readouterr().err
    failure = Failure("context_full", "the prompt has 9 tokens")
    with pytest.raises(EpisodeError) as caught:
        ask(address, "fail", EpisodeError(StopReason.CONTEXT_FULL, failure))
    assert (caught.value.failure, str(caught.value)[:12]) == (failure, "context_full")
    with pytest.raises(DataError, match=r"^in.jsonl, line 3: field 'input'"):
        ask(address, "fail", DataError("is wrong", path="in.jsonl", line=3, field="input"))
    with pytest.raises(ZeroDivisionError, match="in fail"):  # a bug: where it was raised over there
        ask(address, "fail", ZeroDivisionError("oh"))
    with pytest.raises(UsageError, match=r"^A Ray worker on \S+ could not start: No model"):
        ask(address, "add", 1, 2, error=UsageError("No model."))


def test_work_that_kills_every_worker_is_given_up(address):
    with pytest.raises(ServiceError, match="3 Ray workers died over one and the same piece of work"):
        ask(address, "die")


def test_more_than_the_cluster_has_is_refused(address):
    workers = open_workers(cluster(address, 0.5), build, use_gpus=True)
    with (
        pytest.raises(UsageError, match=r"--ray_gpus_per_worker is 0.5, but the cluster has 0 GPUs"),
        workers,
    ):
        pass


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"fan_out": "spark"}, "--fan_out must be local or ray"),
        ({"ray_address": "head"}, "--ray_address must be auto, local or HOST:PORT"),
        ({"ray_workers": 0}, "--ray_workers must be at least 1"),
        ({"ray_gpus_per_worker": -1.0}, "--ray_gpus_per_worker must be at least 0"),
        ({"agent": "openai", "agent_base_url": "http://127.0.0.1:1/v1"}, "openai runs none"),
    ],
)
def test_wrong_flags_are_named(flags, message, tmp_path):
    replace_rows(tmp_path / "in.jsonl", trajectories(1))
    with pytest.raises(UsageError, match=message):
        sample_best_of_n(tmp_path / "in.jsonl", tmp_path / "out.jsonl", "m", **{"fan_out": "ray"} | flags)


@pytest.mark.skipif(not RAY, reason="needs Ray: pip install 'sweet_rl[ray]'")
def test_no_cluster_and_no_ray_are_named(monkeypatch):
    repair = r"127.0.0.1:1\) cannot be reached: .*Start one with `ray start --head`"
    with pytest.raises(ServiceError, match=repair):
        ask("127.0.0.1:1", "add", 1, 2)
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UsageError, match=r"pip install 'sweet_rl\[ray\]'"):
        ask("auto", "add", 1, 2)


async def test_a_head_that_is_gone_ends_the_run_with_what_to_do(monkeypatch):
    """Without Ray: its calls wait for ever, and its head is a socket that is closed in the middle."""
    monkeypatch.setattr(over_ray, "_PROBE_S", 0.1)
    head = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    address = f"127.0.0.1:{head.sockets[0].getsockname()[1]}"

    async def started():
        return "1 on here", {}

    killed, waits = [], SimpleNamespace(remote=lambda *_: asyncio.Event().wait())
    actor = SimpleNamespace(start=SimpleNamespace(remote=started), ask=waits)
    made = SimpleNamespace(options=lambda **_: SimpleNamespace(remote=lambda *_: actor))
    ray = SimpleNamespace(
        remote=lambda _: made,
        kill=lambda *_, **__: killed.append(1),
        get_runtime_context=lambda: SimpleNamespace(gcs_address=address),
        exceptions=SimpleNamespace(RayTaskError=KeyError, RayError=LookupError),
    )
    workers = Workers(ray, None, count=1, each=1, options={}, threads=1)
    asking = [asyncio.create_task(workers.ask("nap")) for _ in range(2)]  # one waits for a free worker
    await asyncio.sleep(0.5)
    assert not any(task.done() for task in asking)
    head.close()
    await head.wait_closed()
    async with asyncio.timeout(30):
        found = await asyncio.gather(*asking, return_exceptions=True)
    workers.close()
    assert all(isinstance(error, ServiceError) for error in found)
    assert all(f"The head of the Ray cluster, {address}," in str(error) for error in found)
    assert not killed  # Ray would wait for its head
