"""How long an episode of AutoExplore takes to begin, beside a copy of the repository for each, as published.

The repository is looked at once for a whole run; an episode is a view of it. The other side copies the folder
with `shutil.copytree`, hidden names left out, and deletes it again. Both with and without leaving files out.

Run: python benchmarks/explore_reset.py [--files 2000] [--bytes 2000] [--resets 200] [--where DIR]
     [--json results/explore_reset.json]
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random

from _measure import circumstances, heading

from sweet_rl.records import task_from_row
from sweet_rl.worlds.auto_explore.game import ExploreGame
from sweet_rl.worlds.auto_explore.repositories import Library

PER_FOLDER = 20


@dataclass(frozen=True)
class Row:
    what: str
    median_ms: float
    slowest_ms: float
    times: int


def make_repository(folder: Path, files: int, size: int) -> str:
    last = ""
    for number in range(files):
        group = number // PER_FOLDER
        last = f"part_{group // PER_FOLDER}/group_{group}/file_{number}.md"
        (folder / last).parent.mkdir(parents=True, exist_ok=True)
        (folder / last).write_text("line of text\n" * (size // 13))
    return last


def measured(what: str, work: Callable[[int], None], times: int) -> Row:
    spent = []
    for number in range(times):
        started = time.perf_counter()
        work(number)
        spent.append(1000 * (time.perf_counter() - started))
    return Row(what, statistics.median(spent), max(spent), times)


def copied(source: Path, work: Path, leaveout_prob: float) -> Callable[[int], None]:
    rng = Random(0)

    def ignore(_folder: str, names: list[str]) -> set[str]:
        return {name for name in names if name[0] == "." or rng.random() < leaveout_prob}

    def copy(number: int) -> None:
        target = work / f"episode_{number}"
        shutil.copytree(source, target, ignore=ignore)
        shutil.rmtree(target)

    return copy


def rows(flags: argparse.Namespace) -> list[Row]:
    with tempfile.TemporaryDirectory(dir=flags.where) as folder:
        repositories = Path(folder) / "repos"
        target = make_repository(repositories / "big", flags.files, flags.bytes)
        task = task_from_row(
            {"task_id": "t", "problem_description": "?", "ground_truth": target, "root": "big"}
        )
        library = Library(repositories)
        found = [measured("look through the repository, once for a run", lambda _: look(repositories), 5)]
        library.get("big")
        for share in (0.0, 0.5):
            game = ExploreGame(library, leaveout_prob=share)
            found.append(
                measured(
                    f"reset, leaving out {share:g}",
                    lambda number, game=game: game.reset(task, seed=number),  # type: ignore[misc]
                    flags.resets,
                )
            )
            copy = copied(repositories / "big", Path(folder), share)
            found.append(
                measured(f"copy and delete, leaving out {share:g}", copy, max(5, flags.resets // 20))
            )
    return found


def look(repositories: Path) -> None:
    Library(repositories).get("big")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--files", type=int, default=2000)
    parser.add_argument("--bytes", type=int, default=2000, help="of each file")
    parser.add_argument("--resets", type=int, default=200)
    parser.add_argument("--where", default="/dev/shm", help="the published place of sandboxes, in memory")
    parser.add_argument("--json")
    return parser.parse_args()


if __name__ == "__main__":
    FLAGS = parse()
    print(heading())
    ROWS = rows(FLAGS)
    print(f"\n{FLAGS.files:,} files of {FLAGS.bytes:,} bytes in {FLAGS.where}\n")
    print("| what | median ms | slowest ms | times |")
    print("|---|---|---|---|")
    for row in ROWS:
        print(f"| {row.what} | {row.median_ms:.3f} | {row.slowest_ms:.3f} | {row.times} |")
    if FLAGS.json:
        RESULT = {
            **circumstances(),
            "files": FLAGS.files,
            "bytes": FLAGS.bytes,
            "rows": [asdict(row) for row in ROWS],
        }
        Path(FLAGS.json).write_text(json.dumps(RESULT, indent=1) + "\n")
