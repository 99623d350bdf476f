"""What a record (run.json) costs a stage.

Run: python benchmarks/records.py [--runs 20] [--mib 1024]
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from _measure import flags, heading

from sweet_rl import tracking
from sweet_rl.cli.stage import recorded
from sweet_rl.runs.facts import digest_of


@recorded("a stage", reads=("source",))
def stage(output: str, source: str | None = None) -> None:
    """Write a line.

    Args:
        output: the file.
        source: not read.
    """
    plain(output, source)


def plain(output: str, source: str | None = None) -> None:
    """The same without a record."""
    del source
    tracking.writes(output)
    Path(output).write_text("{}\n", encoding="utf-8")


def milliseconds(work: Callable[[], object], runs: int) -> float:
    times = []
    for _ in range(runs):
        started = time.perf_counter()
        work()
        times.append(time.perf_counter() - started)
    return 1000 * statistics.median(times)


def main() -> None:
    given = flags(__doc__, runs=20, mib=1024)
    print(heading())
    with tempfile.TemporaryDirectory() as folder:
        output, large, weights = (f"{folder}/{name}" for name in ("a.jsonl", "large.jsonl", "w.safetensors"))
        first = milliseconds(lambda: stage(output), 1)
        for name in (large, weights):
            with Path(name).open("wb") as file:
                file.writelines(b"x" * (1 << 20) for _ in range(given.mib))
        print(f"a stage that does nothing          {milliseconds(lambda: plain(output), given.runs):8.2f} ms")
        print(f"the same with a record             {milliseconds(lambda: stage(output), given.runs):8.2f} ms")
        print(f"the first record of a process      {first:8.2f} ms")
        for label, name in ((f"a file of {given.mib} MiB", large), (f"{given.mib} MiB of weights", weights)):
            took = milliseconds(lambda name=name: digest_of(Path(name)), 1)
            print(f"digest of {label:<24} {took:8.2f} ms, beside the work")


if __name__ == "__main__":
    main()
