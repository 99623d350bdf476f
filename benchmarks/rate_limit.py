"""A server that takes eight requests at a time, asked with 8, 64 and 1,000 episodes in flight.

The server is our simulator behind real HTTP; it answers 429 to whatever comes while it has eight requests in
work. The agent is the noisy expert of the mini worlds, so that the score is neither 0 nor 1. The bound is
what the server needs for the same replies with all its places taken all the time.

Run: python benchmarks/rate_limit.py [--tasks 500] [--places 8]
"""

from __future__ import annotations

import json
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path

from _measure import flags, heading, show, stage

from sweet_rl.users.server import start_server

BATCH_SIZES = (8, 64, 1000)
LATENCY_MS = 60
SIGMA = 0.3


def measure(tasks: int, places: int, batch_size: int, folder: Path) -> Mapping[str, float]:
    output = folder / f"{batch_size}.jsonl"
    with start_server(max_in_flight=places, latency_median_ms=LATENCY_MS, latency_sigma=SIGMA) as server:
        began = time.perf_counter()
        stage(
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
        with urllib.request.urlopen(server.base_url.removesuffix("/v1") + "/stats") as response:
            stats = json.load(response)
    stage("evaluate_code", saved_path=output, quiet=True)
    report = json.loads(output.with_suffix(".report.json").read_text())
    turned_away = stats["faults"].get("turned_away", 0)
    return {
        "success": report["columns"]["fixed"]["success"]["mean"], "failed": report["failed"],
        "wall_s": wall_s, "requests": stats["requests"] - turned_away, "turned_away": turned_away,
        "bound_s": stats["service_s"] / places,
    }  # fmt: skip


def main() -> None:
    options = flags(__doc__, tasks=500, places=8)
    print(heading())
    print(
        f"{options.tasks} tasks of mini:test, replies of {LATENCY_MS} ms in the median (log-normal), "
        f"{options.places} places; start-up of the command included\n"
    )

    def rows() -> Iterator[list[object]]:
        with tempfile.TemporaryDirectory() as folder:
            for size in BATCH_SIZES:
                got = measure(options.tasks, options.places, size, Path(folder))
                seconds = [
                    f"{got['wall_s']:.1f}",
                    f"{got['bound_s']:.1f}",
                    f"{got['wall_s'] / got['bound_s']:.2f}",
                ]
                counts = [f"{got[name]:,}" for name in ("requests", "turned_away")]
                yield [f"{size:,}", f"{100 * got['success']:.1f} %", got["failed"], *seconds, *counts]

    heads = ("batch_size", "success", "failed", "seconds", "bound", "of bound", "requests", "turned away")
    show(heads, rows())


if __name__ == "__main__":
    main()
