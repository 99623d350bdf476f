"""Two runs of 10,000 rows compared, page and all: seconds of the command, start-up included.

A hundred tasks of `mini:test` are played by two scripted agents, and each row is written a hundred times
under names of its own.

Run: python benchmarks/compare.py [--rows 10000]
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from _measure import heading

TASKS = 100


def command(*words: object) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "sweet_rl", *map(str, words)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"{words}\n{done.stdout}{done.stderr}")


def written(folder: Path, agent: str, rows: int) -> Path:
    here = ("--output_dir", folder / agent, "--quiet")
    command("eval", "--model", agent, "--tasks", "mini:test", "--num_tasks", TASKS, *here)
    played = [json.loads(line) for line in (folder / agent / "episodes.jsonl").open()]
    path = folder / f"{agent}.jsonl"
    with path.open("w") as file:
        for number in range(rows):
            row = played[number % TASKS]
            file.write(json.dumps(row | {"task_id": f"{row['task_id']}-{number // TASKS}"}) + "\n")
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000)
    options = parser.parse_args()
    print(heading())
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        paths = [written(folder, agent, options.rows) for agent in ("expert", "random")]
        size = sum(path.stat().st_size for path in paths) / 1e6
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        began = time.perf_counter()
        command("compare", *paths, "--html", folder / "page.html")
        wall_s = time.perf_counter() - began
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        page_mb = (folder / "page.html").stat().st_size / 1e6
    print(
        f"2 x {options.rows:,} rows, {size:.0f} MB: {wall_s:.1f} s, {cpu_s:.1f} s of them computing; "
        f"page {page_mb:.1f} MB"
    )


if __name__ == "__main__":
    main()
