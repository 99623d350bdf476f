"""Simulations: killed, interrupted or faulted they lose at most the episodes in flight; with pages, and a household on its real engine."""

import io
import json
import os
import random
import signal
import subprocess
import sys
import time
from multiprocessing import get_context

import pytest
from PIL import Image

from sweet_rl.commands.simulate_interactions import simulate_interactions
from sweet_rl.errors import UsageError
from sweet_rl.records import load_trajectories, read_rows
from sweet_rl.types import StopReason
from sweet_rl.users.server import start_server
from sweet_rl.worlds.alfworld.game import TOMATO
from tests.browsers.fake_renderer import FakeRenderer
from tests.conftest import ROOT, called, ran

SCRIPT = ROOT / "scripts/simulate_interactions.py"


def command(output, **flags):
    base = {"input_path": "mini:test", "output_path": output, "env_model": "scripted", "batch_size": 8}
    words = [sys.executable, str(SCRIPT)]
    for name, value in (base | flags).items():
        words += [f"--{name}", str(value)]
    return words


def run(output, **flags):
    return called("simulate_interactions", *command(output, **flags)[2:])


def rows_of(path):
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def keys_of(path):
    return [(row["task_id"], row["sample_index"]) for row in rows_of(path)]


def play(output, **flags):
    done = run(output, **flags, to_continue=True, quiet=True)
    assert done.returncode == 0, done.stderr


def test_kills_lose_and_double_nothing(tmp_path):
    """kill -9 at random moments of one run, resumed each time; rows never vanish, and all come in the end."""
    output = tmp_path / "out.jsonl"
    flags = {"num_tasks": 150, "best_of_n": 4, "batch_size": 4, "max_steps": 6, "num_questions": 5}
    moments = random.Random(0)
    kills, before = 0, set()
    while kills < 12:
        process = get_context("fork").Process(target=play, args=(output,), kwargs=flags)
        process.start()
        # half of the kills hit the start and the reading of the file, half come when rows are being written
        size = output.stat().st_size if output.exists() else 0
        if moments.random() < 0.6:
            deadline = time.monotonic() + 30
            while process.is_alive() and time.monotonic() < deadline:
                if output.exists() and output.stat().st_size > size:
                    break
                time.sleep(0.001)
            time.sleep(moments.random() * 0.02)
        else:
            time.sleep(moments.random() * 0.4)
        process.kill()
        process.join()
        assert process.exitcode in {-signal.SIGKILL, 0}
        kills += process.exitcode == -signal.SIGKILL
        if not output.exists():
            continue
        whole = output.read_bytes()
        lines = whole.split(b"\n")[:-1]
        now = [(row["task_id"], row["sample_index"]) for row in map(json.loads, lines)]
        assert len(now) == len(set(now))
        assert before <= set(now)
        before = set(now)
        if process.exitcode == 0:
            output.unlink()  # it was complete before all kills: begin a new one
            before = set()
    done = run(output, **flags, to_continue=True)
    assert done.returncode == 0, done.stderr
    keys = keys_of(output)
    assert len(keys) == len(set(keys)) == 600
    assert [sample for _, sample in keys] == [j for j in range(4) for _ in range(150)]
    assert sorted(os.listdir(tmp_path)) == ["out.jsonl", "out.jsonl.run.json"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_ends_cleanly_with_what_is_done(tmp_path, number):
    output = tmp_path / "out.jsonl"
    with start_server(latency_median_ms=30) as server:
        flags = {"num_tasks": 300, "env_base_url": server.base_url}
        process = subprocess.Popen(command(output, **flags), stderr=subprocess.PIPE, text=True)
        while not output.exists() or output.stat().st_size == 0:
            time.sleep(0.01)
        process.send_signal(number)
        _, errors = process.communicate(timeout=30)
        assert process.returncode == 130
        assert "Traceback" not in errors
        assert "the same command with --to_continue plays the rest" in errors
        first = keys_of(output)
        assert f"{len(first)} of 300 episodes" in errors
    gone = {"env_base_url": server.base_url, "request_attempts": 1, "server_wait_s": 0}
    done = run(output, num_tasks=300, to_continue=True, **gone)
    assert done.returncode == 1  # the server is gone by now
    assert "No server answers" in done.stderr
    assert set(first) <= set(keys_of(output))


def test_faults_of_the_server_end_no_episode_and_are_recorded(tmp_path):
    """20 % of the requests fail in every way a server can; only two attempts, so that some fail for good."""
    output = tmp_path / "out.jsonl"
    with start_server(fault_rate=0.2, hang_s=20, seed=1) as server:
        flags = {"num_tasks": 40, "best_of_n": 2, "batch_size": 64, "user_failure": "reply"}
        flags |= {"env_base_url": server.base_url, "request_timeout_s": 1, "request_attempts": 2}
        done = run(output, **flags)
    assert done.returncode == 0, done.stderr
    rows = rows_of(output)
    assert len(rows) == 80
    assert {row["stop_reason"] for row in rows} == {"answered"}
    failures = [failure for row in rows for failure in row.get("failures", [])]
    kinds = {failure["kind"] for failure in failures}
    assert len(kinds) > 1  # which ones depends on whose second attempt meets which fault
    every = "empty_reply timeout rate_limited server_error connection malformed_reply"
    assert kinds <= set(every.split())
    for row in rows:
        for failure in row.get("failures", []):
            assert row["dialogue_history"][2 * failure["turn"] + 2]["content"] == "No response."
            assert failure["attempts"] >= 2
    assert "Failures, each recorded in its row:" in done.stdout


def test_a_bad_request_is_answered_as_published(tmp_path):
    output = tmp_path / "out.jsonl"
    with start_server(fault_rate=1, faults="bad_request") as server:
        done = run(output, num_tasks=1, env_base_url=server.base_url, user_failure="reply")
    assert done.returncode == 0, done.stderr
    for row in rows_of(output):
        assert [m["content"] for m in row["dialogue_history"][2::2]] == ["No response."] * 3
        assert {(f["kind"], f["status"], f["attempts"]) for f in row["failures"]} == {("bad_request", 400, 1)}


def test_a_full_disk_ends_the_run_and_loses_nothing(tmp_path):
    """A file-size limit of 200 kB stands in for the disk; the kernel's answer takes the same path."""
    output = tmp_path / "out.jsonl"
    words = ["bash", "-c", 'ulimit -f 200; trap "" XFSZ; exec "$@"', "bash"]
    done = ran(*words, *command(output, num_tasks=100))
    assert done.returncode == 1
    assert "Cannot write to" in done.stderr
    assert "Traceback" not in done.stderr
    first = keys_of(output)
    assert len(first) > 10
    assert run(output, num_tasks=100, to_continue=True).returncode == 0
    assert len(set(keys_of(output))) == 100
    assert set(first) <= set(keys_of(output))


@pytest.fixture
def renderer(monkeypatch):
    fake = FakeRenderer(fails={"unpaintable": "timeout"})
    monkeypatch.setattr("sweet_rl.browsers.open_renderer", lambda settings: fake)
    return fake


@pytest.fixture
def tasks(tmp_path):
    rows = [
        {"problem_description": f"Shop {word}: a page", "ground_truth": f"<html><h1>{word}</h1></html>"}
        for word in ("Bread", "Cakes", "unpaintable")
    ]
    path = tmp_path / "tasks.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def simulate(tasks, out, **flags):
    given = {"task_type": "html", "env_model": "scripted", "max_steps": 3, "quiet": True}
    given |= {"render_cache": "none", "max_failed": 1.0}  # one of three pages cannot be drawn
    simulate_interactions(str(tasks), str(out), **given | flags)
    return load_trajectories(out)


def test_rows_tell_their_pictures(tasks, tmp_path, renderer):
    good, other, failed = simulate(tasks, tmp_path / "out.jsonl")
    assert renderer.closed
    assert good.stop_reason in {StopReason.TURN_LIMIT, StopReason.ANSWERED}
    assert good.provenance["agent_model"] == "improver"
    assert good.provenance["settings"]["viewport"] == "1366x768"
    assert [draft["turn"] for draft in good.extra["drafts"]] == [0, 1, 2]
    assert good.answer == good.extra["drafts"][-1]["image"]
    assert good.answer.startswith("out_images/")
    for path in [good.extra["target_image"], *(draft["image"] for draft in good.extra["drafts"])]:
        Image.open(io.BytesIO((tmp_path / path).read_bytes())).load()
    assert good.answer != other.answer
    assert (failed.stop_reason, failed.answer) == (StopReason.WORLD_FAILED, "No answer")
    assert [message.role for message in failed.dialogue_history] == ["user"]
    assert failed.error.kind == "render_timeout"


def test_a_run_cut_off_is_finished_with_the_same_pictures(tasks, tmp_path, renderer):
    whole = tmp_path / "whole.jsonl"
    simulate(tasks, whole, best_of_n=2, batch_size=1)
    pictures = {path.name: path.read_bytes() for path in (tmp_path / "whole_images").glob("*.png")}
    lines = whole.read_bytes().splitlines(keepends=True)
    whole.write_bytes(b"".join(lines[:2]) + lines[2][:40])
    for path in list((tmp_path / "whole_images").glob("*.png"))[::2]:
        path.unlink()
    simulate(tasks, whole, best_of_n=2, batch_size=1, to_continue=True)
    assert whole.read_bytes() == b"".join(lines)
    again = {path.name: path.read_bytes() for path in (tmp_path / "whole_images").glob("*.png")}
    assert again.items() <= pictures.items()
    with pytest.raises(UsageError, match="viewport was '1366x768', is '800x600'"):
        simulate(tasks, whole, best_of_n=2, to_continue=True, viewport="800x600")


@pytest.mark.parametrize("agent", ["blank", "generic", "target"])
def test_floors_and_ceiling(agent, tasks, tmp_path, renderer):
    rows = simulate(tasks, tmp_path / "out.jsonl", agent_model=agent, temp_path=str(tmp_path / "elsewhere"))
    assert [row.stop_reason for row in rows[:2]] == [StopReason.ANSWERED] * 2
    assert all(row.answer.startswith("elsewhere/") for row in rows[:2])
    if agent == "target":
        target = tmp_path / rows[0].extra["target_image"]
        assert (tmp_path / rows[0].answer).read_bytes() == target.read_bytes()


def test_pictures_of_another_run_are_not_drawn_over(tasks, tmp_path, renderer):
    folder = tmp_path / "pictures"
    folder.mkdir()
    (folder / "theirs.png").write_bytes(b"precious")
    flags = {"temp_path": str(folder), "agent_model": "blank"}
    with pytest.raises(UsageError, match="holds pictures of another run"):
        simulate(tasks, tmp_path / "out.jsonl", **flags)
    simulate(tasks, tmp_path / "out.jsonl", overwrite=True, **flags)
    simulate(tasks, tmp_path / "out.jsonl", to_continue=True, **flags)
    assert (folder / "theirs.png").read_bytes() == b"precious"


def test_the_planner_solves_what_is_played(tmp_path):
    for package in ("textworld", "alfworld"):
        pytest.importorskip(package, reason="needs the extra 'alfworld'")
    path = tmp_path / "house.jsonl"
    flags = {"task_type": "alfworld", "num_tasks": 1, "shuffle_action": True}
    simulate_interactions(f"alfworld:{TOMATO}:test", str(path), **flags)
    (row,) = [row for _, row in read_rows(path)]
    assert (row["reward"], row["stop_reason"]) == (1, "ended")
    assert (row["game"]["won"], row["game"]["cost"]) == (True, -1)
