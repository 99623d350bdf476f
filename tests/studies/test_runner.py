"""The mini study: its commands, and the processes that they run in."""

import subprocess
import sys
import time
from dataclasses import replace

import psutil

from sweet_rl.cli import load, values_of
from sweet_rl.command_line import read
from sweet_rl.pipelines.state import Records
from sweet_rl.pipelines.steps import in_rounds
from sweet_rl.studies.sweet.recipe import SWEETS, rounds
from sweet_rl.studies.sweet.results import METHODS


def test_every_command_of_the_study_is_one_that_a_person_can_type(study):
    with_pages = replace(study, page_tasks=2)
    calls = [call for chains in rounds(with_pages) for chain in chains for call in chain]
    assert {"simulate_interactions", "train_sft", "train_dpo", "rank_best_of_n", "evaluate_html"} <= {
        call.run for call in calls
    }
    for call in calls:
        words = [*call.words, *(f"--{name}={value}" for name, value in call.flags.items())]
        stage = load(call.run)
        values_of(stage, read(stage, words))
    assert len({call.name for call in calls}) == len(calls)


def test_every_way_of_sweet_rl_is_measured():
    assert {way.name for way in SWEETS} <= set(METHODS)


def test_another_port_of_the_human_is_no_other_setting(study, tmp_path):
    """Marked as done under one address, a step is done under another; under another seed it is not."""
    step = next(step for step in in_rounds(rounds(study)) if step.run == "simulate_interactions")
    record = {
        "step": {"name": step.name, "flags": step.settings},
        "inputs": [],
        "outputs": [],
        "status": "finished",
    }
    records = Records(tmp_path)
    records._last[step.name] = record
    assert "http://127.0.0.1:1/v1" in step.command  # what is printed is what can be typed
    moved = replace(step, flags=dict(step.flags) | {"env_base_url": "http://127.0.0.1:2/v1"}, needs=())
    assert records.look(moved).state == "done"
    assert records.look(replace(moved, flags=dict(moved.flags) | {"seed": 1})).why == "seed was 0, is 1"


def test_workers_end_with_the_study_that_wanted_them():
    code = (
        "import os, time\n"
        "from sweet_rl.pipelines import running\n"
        "if __name__ == '__main__':\n"
        "    with running._workers(running.How(small=True, fresh=False)) as pool:\n"
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
