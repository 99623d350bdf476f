"""Two runs of 10,000 rows compared, page and all: seconds of the command, start-up included.

A hundred tasks of `mini:test` are played by two scripted agents, and each row is written a hundred times
under names of its own.

Run: python benchmarks/compare.py [--rows 10000]
"""

from __future__ import annotations

import json
import resource
import tempfile
import time
from pathlib import Path

from _measure import flags, heading, stage

TASKS = 100


def main() -> None:
    rows = flags(__doc__, rows=10_000).rows
    print(heading())
    with tempfile.TemporaryDirectory() as name:
        folder, paths = Path(name), []
        for agent in ("expert", "random"):
            stage(
                "eval", model=agent, tasks="mini:test", num_tasks=TASKS, output_dir=folder / agent, quiet=True
            )
            played = [json.loads(line) for line in (folder / agent / "episodes.jsonl").open()]
            paths.append(folder / f"{agent}.jsonl")
            with paths[-1].open("w") as file:
                for number in range(rows):
                    row = played[number % TASKS]
                    file.write(json.dumps(row | {"task_id": f"{row['task_id']}-{number // TASKS}"}) + "\n")
        size = sum(path.stat().st_size for path in paths) / 1e6
        before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        stage("compare", *paths, html=folder / "page.html")
        wall_s, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        page_mb = (folder / "page.html").stat().st_size / 1e6
    print(
        f"2 x {rows:,} rows, {size:.0f} MB: {wall_s:.1f} s, {cpu_s:.1f} s of them computing; page {page_mb:.1f} MB"
    )


if __name__ == "__main__":
    main()
