"""The mini study: its commands and its marks."""

import json
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from sweet_rl.cli import load, values_of
from sweet_rl.command_line import read
from sweet_rl.errors import ServiceError, UsageError
from sweet_rl.studies import runner
from sweet_rl.studies.chains import Call, Chain
from sweet_rl.studies.sweet.recipe import SWEETS, data, rounds
from sweet_rl.studies.sweet.results import METHODS


def test_every_command_of_the_study_is_one_that_a_person_can_type(study):
    with_pages = replace(study, page_tasks=2)
    calls = [call for chains in rounds(with_pages) for chain in chains for call in chain.calls]
    assert {"simulate_interactions", "train_sft", "train_dpo", "rank_best_of_n", "evaluate_html"} <= {
        call.stage for call in calls
    }
    for call in calls:
        words = [*call.positional, *(f"--{name}={value}" for name, value in call.flags.items())]
        stage = load(call.stage)
        values_of(stage, read(stage, words))
    assert len({call.output for call in calls}) == len(calls)


def test_every_way_of_sweet_rl_is_measured():
    assert {way.name for way in SWEETS} <= set(METHODS)


def test_a_stage_that_is_done_is_not_run_again_and_a_failed_one_is_named(tmp_path, monkeypatch, capsys):
    ran = []

    def stage(call, log):
        ran.append(call.stage)
        if call.stage == "fails":
            raise ValueError("no such thing")
        call.output.write_text("made")

    monkeypatch.setattr(runner, "_run_call", stage)
    good, bad = Call("works", tmp_path / "a.txt"), Call("fails", tmp_path / "b.txt", ("x",), {"flag": 1})
    runner._run_chain(Chain("first", (good,)), tmp_path)
    with pytest.raises(ServiceError, match=r"stage fails failed: no such thing\n.*sweet-rl fails x --flag 1"):
        runner._run_chain(Chain("second", (good, bad)), tmp_path)
    assert ran == ["works", "fails"]
    (tmp_path / "a.txt").unlink()  # a mark without what it stands for is no proof
    runner._run_chain(Chain("first", (good,)), tmp_path)
    assert ran == ["works", "fails", "works"]
    assert "[first] $ sweet-rl works" in capsys.readouterr().out


def test_another_port_of_the_human_runs_nothing_again_and_another_seed_does(study, tmp_path, monkeypatch):
    ran = []

    def stage(call, log):
        ran.append(call.stage)
        call.output.write_text("made")

    monkeypatch.setattr(runner, "_run_call", stage)
    offline = data(study)
    runner._run_chain(offline, tmp_path)
    assert "http://127.0.0.1:1/v1" in offline.calls[2].command  # what is printed is what can be typed
    everything = list(ran)
    assert everything == ["generate_tasks", "generate_tasks", "simulate_interactions", "evaluate_code"]
    runner._run_chain(data(replace(study, human="http://127.0.0.1:2/v1")), tmp_path)
    assert ran == everything
    runner._run_chain(data(replace(study, seed=1)), tmp_path)
    assert "simulate_interactions" in ran[len(everything) :]


def test_marks_name_the_command_so_that_other_settings_run_again(tmp_path):
    call = Call("works", tmp_path / "a.txt", flags={"seed": 1})
    call.output.write_text("made")
    mark = Path(tmp_path / "done.json")
    mark.write_text(json.dumps({"command": "sweet-rl works --seed 0", "seconds": 1}))
    assert not runner._is_done(mark, call)


@pytest.fixture
def done(tmp_path):
    """Two rounds, all done: a then b, beside c; then d."""

    def call(name):
        made = Call(name, tmp_path / name, flags={"seed": 0})
        made.output.write_text("made")
        mark = runner._mark(made, tmp_path)
        mark.parent.mkdir(exist_ok=True)
        mark.write_text(json.dumps({"command": made.identity, "seconds": 1}))
        return made

    a, b, c, d = map(call, "abcd")
    return [[Chain("first", (a, b)), Chain("other", (c,))], [Chain("last", (d,))]]


def there(folder):
    return {path.name for path in folder.iterdir() if path.is_file()}


@pytest.mark.parametrize(("gone", "left"), [("a", "c"), ("b", "ac"), ("c", "ab"), ("d", "abc")])
def test_what_follows_something_that_is_gone_is_made_anew(done, tmp_path, gone, left):
    (tmp_path / gone).unlink()
    runner._forget_stale(done, tmp_path)
    assert there(tmp_path) == set(left)


def test_an_interrupted_output_stays_to_go_on_from(done, tmp_path):
    runner._mark(done[0][0].calls[1], tmp_path).unlink()
    runner._forget_stale(done, tmp_path)
    assert there(tmp_path) == set("abc")


def test_what_another_command_made_is_refused_and_kept(done, tmp_path):
    (first, other), later = done
    changed = replace(first.calls[0], flags={"seed": 1})
    with pytest.raises(UsageError, match=r"a' was made by another command:\n.*--seed 0\n.*\n.*--seed 1\n"):
        runner._forget_stale([[Chain("first", (changed, first.calls[1])), other], later], tmp_path)
    assert there(tmp_path) == set("abcd")


def test_workers_end_with_the_study_that_wanted_them():
    code = (
        "import os, time\n"
        "from sweet_rl.studies import runner as study\n"
        "if __name__ == '__main__':\n"
        "    with study._workers(1) as pool:\n"
        "        print(pool.submit(os.getpid).result(), flush=True)\n"
        "        pool.submit(time.sleep, 60).result()\n"
    )
    study = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    worker = int(study.stdout.readline())
    assert psutil.pid_exists(worker)
    study.kill()
    study.communicate()
    deadline = time.monotonic() + 20
    while psutil.pid_exists(worker) and psutil.Process(worker).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < deadline, "the worker goes on by itself"
        time.sleep(0.1)
