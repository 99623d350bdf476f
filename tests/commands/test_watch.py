"""A terminal's view of runs: frames of records as they are, of a run that is killed, and of a chain."""

import json
import os
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta

import pytest

from sweet_rl.cli import load
from sweet_rl.commands.frames import Style, frame
from sweet_rl.errors import UsageError
from sweet_rl.runs import facts
from sweet_rl.runs.prices import Price
from sweet_rl.runs.watching import Watch
from tests.conftest import ROOT

AT = datetime(2026, 11, 23, 12, 0, tzinfo=UTC)
PLAIN = Style(width=80, plain=True)


def ago(seconds):
    return (AT - timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")


def keep(folder, name, *, status="running", silent=1, begun=100, parent=None, **more):
    """A record of a run, as one that says so little may look."""
    place = folder / f"{name}.run.json"
    content = {
        "id": name,
        "stage": "simulate_interactions",
        "status": status,
        "started": ago(begun),
        "updated": ago(silent),
        "finished": ago(silent) if status != "running" else None,
        "wall_s": begun - silent,
        "outputs": [{"path": name}],
        "usage": {},
        "sessions": [{"started": ago(begun), "pid": os.getpid(), "boot": facts.boot()}],
    }
    content |= {} if parent is None else {"parent": parent}
    place.write_text(json.dumps(content | more))
    return place


def progress(done, *, total=500, moved=1, per_s=2.0, **more):
    return {
        "unit": "episode", "done": done, "total": total, "failed": 0, "phase": "", "per_s": per_s,
        "moved": ago(moved),
    } | more  # fmt: skip


def shown(folder, *, style=PLAIN, ended=8, prices=None):
    return frame(Watch(folder).look(AT), "outputs", style, ended=ended, prices=prices, at=AT)


def test_a_frame_says_how_far_a_run_is_what_it_uses_and_its_newest_numbers(tmp_path):
    row = {"requests": 9, "retries": 2, "replies": 9, "replies_without_usage": 0}
    keep(
        tmp_path, "a.jsonl", progress=progress(400, failed=3, phase="play 3/8"),
        usage={"agent": {"gpt": row | {"prompt_tokens": 1_000_000, "completion_tokens": 2_000}}},
        numbers={"step": 400, "reward": 0.5, "turns_per_episode": 4.0}, curves={"reward": [0.0, 0.25, 0.5]},
    )  # fmt: skip
    head, run, bar, spent, numbers = shown(tmp_path, prices={"gpt": Price(2.0, 0.0)})
    assert head.endswith("  1 at work  outputs")
    assert run == f"> simulate_interactions  a.jsonl{'running  1:40':>48}"
    assert bar == "    ############.... 400/500 episodes  2/s  50.0 s left  3 failed  play 3/8"
    assert spent == "    agent 1,000,000 in 2,000 out, 2 retries, $2.0000"
    assert numbers == "    reward 0.5 _-#"
    assert "    reward 0.5 ▁▅█" in shown(tmp_path, style=Style())


@pytest.mark.parametrize(
    ("record", "state"),
    [
        ({"progress": progress(5, moved=50)}, "running"),
        ({"progress": progress(5, moved=90)}, "nothing done for 1:30"),
        ({"progress": progress(5, moved=90, per_s=0.05)}, "running"),  # a piece takes 20 s
        ({"progress": progress(0, moved=500, per_s=None), "begun": 500}, "running"),  # models are loaded
        ({"progress": progress(500, moved=90)}, "running"),  # what is left has no bar
        ({"silent": 90}, "no word for 1:30"),
        ({"silent": 20}, "running"),
        ({"silent": 20, "pid": 2**22 + 1}, "process 4194305 is gone"),
        ({"silent": 3, "pid": 2**22 + 1}, "running"),  # in another container, say
        ({"silent": 20, "pid": 2**22 + 1, "boot": "another"}, "running"),  # on another machine
        ({"silent": 90, "pid": 2**22 + 1, "boot": "another"}, "no word for 1:30"),
        ({"status": "failed", "error": "No space left.\nReally."}, "failed"),
        ({"status": "interrupted"}, "interrupted"),
    ],
)
def test_what_stands_still_and_what_is_gone_says_so(record, state, tmp_path):
    session = {name: record.pop(name) for name in ("pid", "boot") if name in record}
    place = keep(tmp_path, "a.jsonl", **record)
    content = json.loads(place.read_text())
    content["sessions"][0] |= session
    place.write_text(json.dumps(content))
    lines = shown(tmp_path)
    assert f" {state}  " in lines[1]
    if state == "failed":
        assert lines[2] == "    No space left."


def test_parts_stand_below_and_what_ended_long_ago_is_counted(tmp_path):
    keep(tmp_path, "chain", stage="run", progress=progress(1, total=3, unit="stage", moved=90), silent=2)
    keep(tmp_path, "one.jsonl", parent="chain", status="finished", silent=90)
    deep = f"{'deep/' * 20}two.jsonl"
    keep(tmp_path, "two.jsonl", parent="chain", step={"name": "play"}, outputs=[{"path": deep}])
    for number in range(4):
        keep(tmp_path, f"old{number}", status="finished", silent=1000 + number)
    lines = shown(tmp_path, ended=3)
    assert "2 at work, 5 finished" in lines[0]
    assert [line.split()[:2] for line in lines[1:]] == [
        [">", "run"],  # it waits for its parts
        ["#####...........", "1/3"],
        [">", "play"],
        ["+", "simulate_interactions"],
        ["+", "simulate_interactions"],
        ["+", "simulate_interactions"],
        ["2", "more"],
    ]
    assert lines[3].startswith("  > play  ~")
    assert lines[3].endswith("deep/two.jsonl  running  1:40")
    assert "one.jsonl" in lines[4]
    assert "old0" in lines[5]


def test_a_run_that_failed_is_shown_among_many_that_ended_later(tmp_path):
    keep(tmp_path, "bad", status="failed", error="No space left.", silent=5000)
    for number in range(4):
        keep(tmp_path, f"fine{number}", status="finished", silent=1000 + number)
    lines = shown(tmp_path, ended=3)
    assert [line.split()[:3] for line in lines[1:4]] == [
        ["+", "simulate_interactions", "fine0"],
        ["+", "simulate_interactions", "fine1"],
        ["x", "simulate_interactions", "bad"],
    ]
    assert lines[4:] == ["    No space left.", "2 more have ended (--ended, or sweet-rl runs outputs)"]


def test_torn_records_and_names_that_move_the_cursor_do_no_harm(tmp_path):
    keep(tmp_path, "a.jsonl", status="failed", error="\x1b[2J gone ☠", stage="w" * 200)
    (tmp_path / "b.jsonl.run.json").write_text('{"id": "b", "sta')
    (tmp_path / "c.jsonl.run.json").write_bytes(b"\xff\xfe")
    watch = Watch(tmp_path)
    lines = frame(watch.look(AT), "x", PLAIN, ended=8, at=AT)
    assert len(lines) == 3
    assert all(len(line) <= 80 and line.isascii() and line.isprintable() for line in lines)
    place = keep(tmp_path, "b.jsonl")
    assert [one.content["id"] for one in watch.look(AT)] == ["b.jsonl", "a.jsonl"]
    place.unlink()
    assert [one.content["id"] for one in watch.look(AT)] == ["a.jsonl"]


@pytest.mark.parametrize(
    "odd",
    [
        {"progress": {"unit": "turn", "done": "many", "total": 3}},
        {"progress": {"unit": "turn", "done": 1, "total": None}},
        {"progress": [1]},
        {"usage": {"agent": {"m": {"prompt_tokens": "x"}}}},
        {"usage": {"agent": 3}},
        {"cost": 3},
        {"numbers": {"loss": "x"}},
        {"curves": {"loss": [None, "x"]}},
        {"outputs": ["a"]},
        {"inputs": {"a": 1}},
        {"sessions": [3]},
        {"step": 3},
        {"wall_s": "x"},
        {"seeds": 3},
        {"id": 3},
    ],
)
def test_a_run_json_of_another_form_is_no_record(tmp_path, odd, capsys):
    keep(tmp_path, "a.jsonl")
    keep(tmp_path, "b.jsonl", **odd)
    for stage in ("watch", "runs"):
        load(stage)(str(tmp_path))
        text = capsys.readouterr().out
        assert "a.jsonl" in text
        assert "b.jsonl" not in text


def test_an_empty_folder_and_one_that_is_not_there(tmp_path, capsys):
    load("watch")(str(tmp_path))
    assert "  no run has left a record here  " in capsys.readouterr().out
    with pytest.raises(UsageError, match="There is no folder"):
        load("watch")(str(tmp_path / "gone"))


RUN = """
import sys, time
sys.path.insert(0, {root!r})
from sweet_rl import tracking
from sweet_rl.command_line.recording import recorded
from sweet_rl.command_line.running import progress
from sweet_rl.runs import record
record._EVERY_S = 0.05

@recorded("train")
def train(output: str) -> None:
    tracking.writes(output)
    open(output, "w").write("x")
    bar = progress(8, 0, unit="update", quiet=True)
    for step in (1, 2):
        bar.update()
        tracking.logs(step, {{"loss": 1 / step}})
    print("there", flush=True)
    time.sleep(60)

train("out.txt")
"""


def test_a_run_at_work_is_seen_from_outside_and_so_is_its_death(tmp_path, monkeypatch):
    from sweet_rl.runs import watching

    monkeypatch.setattr(watching, "_GONE_S", 0.0)
    code = [sys.executable, "-c", RUN.format(root=str(ROOT))]
    with subprocess.Popen(code, stdout=subprocess.PIPE, cwd=tmp_path) as child:
        assert child.stdout.readline() == b"there\n"
        watch, deadline = Watch(tmp_path), time.monotonic() + 30
        while len(lines := frame(watch.look(), ".", PLAIN, ended=8)) < 4 and time.monotonic() < deadline:
            time.sleep(0.02)
        child.send_signal(signal.SIGKILL)
    assert lines[1].startswith("> train  out.txt")
    assert lines[2].startswith("    ####............ 2/8 updates")
    assert lines[3] == "    loss 0.5 #_"
    lines = frame(watch.look(), ".", PLAIN, ended=8)
    assert lines[1].startswith("x train  out.txt")
    assert f"process {child.pid} is gone" in lines[1]
