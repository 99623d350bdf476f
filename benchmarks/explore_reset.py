"""How long an episode of AutoExplore takes to begin, beside a copy of the repository for each, as published.

The repository is looked at once for a whole run; an episode is a view of it. The other side copies the folder
with `shutil.copytree`, hidden names left out, and deletes it again. Both with and without leaving files out.

Run: python benchmarks/explore_reset.py [--files 2000] [--bytes 2000] [--resets 200] [--where DIR]
     [--output results/explore_reset.json]
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random

from _measure import flags, heading, save, show

from sweet_rl.records import task_from_row
from sweet_rl.worlds.auto_explore.game import ExploreGame
from sweet_rl.worlds.auto_explore.repositories import Library

PER_FOLDER = 20


def make_repository(folder: Path, files: int, size: int) -> str:
    last = ""
    for number in range(files):
        group = number // PER_FOLDER
        last = f"part_{group // PER_FOLDER}/group_{group}/file_{number}.md"
        (folder / last).parent.mkdir(parents=True, exist_ok=True)
        (folder / last).write_text("line of text\n" * (size // 13))
    return last


def measured(what: str, work: Callable[[int], object], times: int) -> list[object]:
    """A line of the table: milliseconds of `work`, each time alone."""
    spent = []
    for number in range(times):
        started = time.perf_counter()
        work(number)
        spent.append(1000 * (time.perf_counter() - started))
    return [what, f"{statistics.median(spent):.3f}", f"{max(spent):.3f}", times]


def copied(source: Path, work: Path, leaveout_prob: float) -> Callable[[int], None]:
    rng = Random(0)

    def ignore(_folder: str, names: list[str]) -> set[str]:
        return {name for name in names if name[0] == "." or rng.random() < leaveout_prob}

    def copy(number: int) -> None:
        target = work / f"episode_{number}"
        shutil.copytree(source, target, ignore=ignore)
        shutil.rmtree(target)

    return copy


def rows(given: argparse.Namespace) -> list[list[object]]:
    with tempfile.TemporaryDirectory(dir=given.where) as folder:
        repositories = Path(folder) / "repos"
        target = make_repository(repositories / "big", given.files, given.bytes)
        task = task_from_row(
            {"task_id": "t", "problem_description": "?", "ground_truth": target, "root": "big"}
        )
        library = Library(repositories)
        once = "look through the repository, once for a run"
        found = [measured(once, lambda _: Library(repositories).get("big"), 5)]
        library.get("big")
        for share in (0.0, 0.5):
            game = ExploreGame(library, leaveout_prob=share)
            reset = partial(game.reset, task)
            found.append(
                measured(f"reset, leaving out {share:g}", lambda n, r=reset: r(seed=n), given.resets)
            )
            copy = copied(repositories / "big", Path(folder), share)
            found.append(
                measured(f"copy and delete, leaving out {share:g}", copy, max(5, given.resets // 20))
            )
    return found


def main() -> None:
    given = flags(__doc__, files=2000, bytes=2000, resets=200, where="/dev/shm", output=None)
    print(f"{heading()}\n\n{given.files:,} files of {given.bytes:,} bytes in {given.where}\n")
    found = rows(given)
    show(("what", "median ms", "slowest ms", "times"), found)
    save(given.output, files=given.files, bytes=given.bytes, rows=found)


if __name__ == "__main__":
    main()
