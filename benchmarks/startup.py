"""How long `--help` of every script takes, as a person feels it: process start to exit.

Run: python benchmarks/startup.py [--runs 7] [--scripts play.py,demo.py]
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

from _measure import flags, heading

ROOT = Path(__file__).resolve().parent.parent
LIMIT_S = 0.5


def median_seconds(command: list[str], runs: int) -> float:
    times = []
    for _ in range(runs + 1):
        started = time.perf_counter()
        subprocess.run(command, capture_output=True, check=True)
        times.append(time.perf_counter() - started)
    return statistics.median(times[1:])


def main() -> None:
    scripts = sorted([*ROOT.glob("scripts/*.py"), *ROOT.glob("visualizers/*.py")])
    given = flags(__doc__, runs=7, scripts=[script.name for script in scripts])
    print(heading())
    empty = median_seconds([sys.executable, "-c", "pass"], given.runs)
    print(f"\n{'--help of':<34}{'median s':>10}{'x empty Python':>16}   limit {LIMIT_S} s")
    print(f"{'(python -c pass)':<34}{empty:>10.3f}{1:>16.1f}")
    for script in (script for script in scripts if script.name in given.scripts):
        seconds = median_seconds([sys.executable, str(script), "--help"], given.runs)
        verdict = "" if seconds < LIMIT_S else "   over the limit"
        print(f"{script.name:<34}{seconds:>10.3f}{seconds / empty:>16.1f}{verdict}")


if __name__ == "__main__":
    main()
