"""How long `--help` of every script takes, as a person feels it: process start to exit.

Run: python benchmarks/startup.py
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

from _machine import machine_line

ROOT = Path(__file__).resolve().parent.parent
RUNS = 7
LIMIT_S = 0.5


def median_seconds(command: list[str]) -> float:
    """Median wall-clock time of the command over some runs, after one that is not counted."""
    times = []
    for _ in range(RUNS + 1):
        started = time.perf_counter()
        subprocess.run(command, capture_output=True, check=True)
        times.append(time.perf_counter() - started)
    return statistics.median(times[1:])


def main() -> None:
    """Print one line a script, with an empty Python process beside it."""
    print(machine_line())
    empty = median_seconds([sys.executable, "-c", "pass"])
    print(f"\n{'--help of':<34}{'median s':>10}{'x empty Python':>16}   limit {LIMIT_S} s")
    print(f"{'(python -c pass)':<34}{empty:>10.3f}{1:>16.1f}")
    for script in sorted([*ROOT.glob("scripts/*.py"), *ROOT.glob("visualizers/*.py")]):
        seconds = median_seconds([sys.executable, str(script), "--help"])
        verdict = "" if seconds < LIMIT_S else "   over the limit"
        print(f"{script.name:<34}{seconds:>10.3f}{seconds / empty:>16.1f}{verdict}")


if __name__ == "__main__":
    main()
