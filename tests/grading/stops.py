"""Honest answers while somebody stops the grading and lets it go on: how many are lost.

Half of them sleep, half compute, each for the better part of its limit. Run as a command, it is the grading.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress

from sweet_rl.grading.sandbox import Job, Program, Sandbox
from sweet_rl.grading.sandbox.worker import children_of
from tests.conftest import ROOT

_SOURCE = """
import time
def sleeps(seconds):
    time.sleep(seconds)
    return 1
def computes(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass
    return 1
"""
WAYS = ("Ctrl-Z", "the whole tree")
"""Ctrl-Z stops a terminal's foreground processes, of which a worker's inner process is none; a frozen container, all."""


def lost(way: str, *, answers: int, stops: int, limit_s: float) -> int:
    """How many answers got no value. A stop is longer than what a test may take by the clock."""
    command = [sys.executable, "-m", "tests.grading.stops", str(answers), str(limit_s)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, process_group=0) as grading:
        assert grading.stdout is not None
        assert grading.stdout.readline() == "begun\n"
        for _ in range(stops):
            time.sleep(0.4 * limit_s)
            if way == "Ctrl-Z":
                os.killpg(grading.pid, signal.SIGTSTP)
                time.sleep(1.8 * limit_s)
                os.killpg(grading.pid, signal.SIGCONT)
                continue
            tree = [grading.pid]
            for process in tree:  # grows: whoever is stopped starts no more
                with suppress(ProcessLookupError):  # it has ended meanwhile
                    os.kill(process, signal.SIGSTOP)
                tree += children_of(process)
            time.sleep(1.8 * limit_s)
            for process in tree:
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGCONT)
                time.sleep(0.1 * limit_s)  # we are awake, they are not
        return answers - int(grading.stdout.readline())


if __name__ == "__main__":
    answers, limit_s = int(sys.argv[1]), float(sys.argv[2])
    tests = [f"sleeps({0.9 * limit_s})", f"computes({0.6 * limit_s})"]
    jobs = (Job("fixed", [Program(_SOURCE, [tests[number % 2]])]) for number in range(answers))
    with Sandbox(workers=2, timeout_s=limit_s) as sandbox:
        print("begun", flush=True)
        print(sum(values[0].text == "1" for values in sandbox.run(jobs)))
