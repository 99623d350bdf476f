"""A server that takes eight requests at a time, asked with 8, 64 and 1,000 episodes in flight.

The server is our simulator behind real HTTP; it answers 429 to whatever comes while it has eight requests in
work. The agent is the noisy expert of the mini worlds, so that the score is neither 0 nor 1. The bound is
what the server needs for the same replies with all its places taken all the time.

Run: python benchmarks/rate_limit.py [--tasks 500] [--places 8]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from _measure import heading

from sweet_rl.users.server import start_server

BATCH_SIZES = (8, 64, 1000)
LATENCY_MS = 60
SIGMA = 0.3


def stats_of(base_url: str) -> dict[str, Any]:
    with urllib.request.urlopen(base_url.removesuffix("/v1") + "/stats") as response:
        stats: dict[str, Any] = json.load(response)
    return stats


def command(stage: str, **flags: object) -> None:
    words = [sys.executable, "-m", "sweet_rl", stage]
    for name, value in flags.items():
        words += [f"--{name}", str(value)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(words)}\n{done.stdout}{done.stderr}")


def measure(tasks: int, places: int, batch_size: int, folder: Path) -> Mapping[str, float]:
    output = folder / f"{batch_size}.jsonl"
    with start_server(max_in_flight=places, latency_median_ms=LATENCY_MS, latency_sigma=SIGMA) as server:
        began = time.perf_counter()
        command(
            "simulate_interactions",
            input_path="mini:test",
            output_path=output,
            num_tasks=tasks,
            agent_model="expert",
            env_base_url=server.base_url,
            batch_size=batch_size,
            quiet=True,
        )
        wall_s = time.perf_counter() - began
        stats = stats_of(server.base_url)
    command("evaluate_code", saved_path=output, quiet=True)
    report = json.loads(output.with_suffix(".report.json").read_text())
    turned_away = stats["faults"].get("turned_away", 0)
    return {
        "success": report["columns"]["fixed"]["success"]["mean"],
        "failed": report["failed"],
        "wall_s": wall_s,
        "requests": stats["requests"] - turned_away,
        "turned_away": turned_away,
        "bound_s": stats["service_s"] / places,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=500)
    parser.add_argument("--places", type=int, default=8)
    options = parser.parse_args()
    print(heading())
    print(
        f"{options.tasks} tasks of mini:test, replies of {LATENCY_MS} ms in the median (log-normal), "
        f"{options.places} places; start-up of the command included\n"
    )
    header = ("batch_size", "success", "failed", "seconds", "bound", "of bound", "requests", "turned away")
    print("".join(f"{name:>13}" for name in header))
    with tempfile.TemporaryDirectory() as folder:
        for batch_size in BATCH_SIZES:
            got = measure(options.tasks, options.places, batch_size, Path(folder))
            cells = (
                f"{batch_size:,}",
                f"{100 * got['success']:.1f} %",
                f"{got['failed']}",
                f"{got['wall_s']:.1f}",
                f"{got['bound_s']:.1f}",
                f"{got['wall_s'] / got['bound_s']:.2f}",
                f"{got['requests']:,}",
                f"{got['turned_away']:,}",
            )
            print("".join(f"{cell:>13}" for cell in cells), flush=True)


if __name__ == "__main__":
    main()
