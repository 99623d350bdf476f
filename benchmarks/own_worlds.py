"""Whether an agent gets better in a user's world: in each of examples/worlds a policy to begin with, then `learn`, by each method.

A seed has its own policy to begin with, demonstrations, dialogues and trainings; the tasks are the world's. Nothing is tuned here:
settings are those of `learn`, which tries them on development tasks. What is reported is of test tasks, paired with the start.
A run that a gate stopped is shown with the gate's reason. The method `shuffled` breaks the cause on purpose: what `sweet` ran last, with
the critic's scores of each turn's candidates shuffled among them.

Run: python benchmarks/own_worlds.py [--worlds meeting,number] [--methods sweet,archer] [--seeds 5] [--minutes 15] [--steps 600]
     [--jobs 2] [--folder outputs/own_worlds] [--output benchmarks/results/own_worlds.json] [--markdown]
(ten minutes on a core for each cell of each seed; an interrupted run resumes; --markdown shows the table of what is there)
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

from _measure import flags, save, show

from sweet_rl.learning.gates import compared
from sweet_rl.records import load_trajectories, read_rows, replace_file, replace_rows
from sweet_rl.statistics import mean_of, mean_over_tasks

WORLDS = {"meeting": 32, "number": 32, "notice": 64}  # tokens of a turn
METHODS = ["sweet", "archer", "dpo", "rft", "shuffled"]
EXAMPLES = Path(__file__).resolve().parent.parent / "examples" / "worlds"


def run(log: Path, *words: object) -> str:
    """A command in the folder of the worlds; what it printed last if it failed."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output:
        command = [sys.executable, "-m", "sweet_rl", *map(str, words)]
        done = subprocess.run(command, cwd=EXAMPLES, stdout=output, stderr=output, check=False)
    return log.read_text().strip().splitlines()[-1] if done.returncode else ""


def shuffle(at: Path) -> str:
    """What `sweet` ran last in a folder, with shuffled scores; what went wrong."""
    sweet, output, rng = at / "sweet", at / "shuffled", Random(0)
    output.mkdir(exist_ok=True)
    rows = [row for _, row in read_rows(sweet / "ranked.jsonl")]
    for row in rows:
        scores = dict(
            zip(row["additional_outputs"], row["judge_result"], strict=True)
        )  # equal texts have one
        shuffled = dict(zip(scores, rng.sample(list(scores.values()), len(scores)), strict=True))
        row["judge_result"] = [shuffled[text] for text in row["additional_outputs"]]
    replace_rows(output / "ranked.jsonl", rows)
    policy = (sweet / "policy").resolve()
    for record in ("turn_pairs.jsonl.run.json", f"{policy.name}/run.json", "policy.test.jsonl.run.json"):
        command = json.loads((sweet / record).read_text())["command"].replace(f"{sweet}/", f"{output}/")
        words = shlex.split(command.replace(f"{output}/tasks", f"{sweet}/tasks"))[1:]
        if failed := run(at / "shuffled.log", *words):
            return failed
    before, after = (
        by_task(folder / f"{name}.test.jsonl") for folder, name in ((sweet, "start"), (output, "policy"))
    )
    found = compared(after, before)
    start, mean = (mean_over_tasks(list(one.values())).mean for one in (before, after))
    numbers = {"start": start, "policy": mean, "difference": found.mean, "low": found.low, "high": found.high}
    replace_file(output / "report.json", [json.dumps(numbers, indent=1).encode()])
    return ""


def by_task(path: Path) -> dict[str, list[float]]:
    """The returns of a file's episodes, by task."""
    found = defaultdict[str, list[float]](list)
    for one in load_trajectories(path):
        found[one.task.task_id].append(one.reward or 0.0)
    return found


def played(
    folder: Path, world: str, seed: int, methods: Sequence[str], minutes: float, steps: int
) -> Iterator[dict[str, Any]]:
    """The cells of a world and seed."""
    at, name, tokens = folder / world / str(seed), f"{world}:WORLD", WORLDS[world]
    start, same = at / "start", ("--max_tokens", tokens, "--seed", seed)
    unable = run(at / "start.log", "make_policy", name, start, "--steps", steps, *same)
    for method in methods:
        report = at / method / "report.json"
        words = ("learn", name, start, at / method, "--method", method, "--minutes", minutes, *same)
        stopped = unable
        if not stopped and not report.exists():
            stopped = shuffle(at) if method == "shuffled" else run(at / f"{method}.log", *words)
        cell = {"world": world, "seed": seed, "method": method}
        yield ({"stopped": stopped} if stopped else json.loads(report.read_text())) | cell
        print(f"{world} {seed} {method}: {stopped or report.read_text()}", flush=True)


def table(cells: Sequence[dict[str, Any]]) -> Iterator[tuple[object, ...]]:
    """A row for each world and method: means over seeds with Student's interval, and how many seeds alone are better."""
    for world, method in product(WORLDS, METHODS):
        some = [one for one in cells if (one["world"], one["method"]) == (world, method)]
        known = [one for one in some if "stopped" not in one]
        if known:
            start, policy, gain = (
                mean_of([one[key] for one in known]) for key in ("start", "policy", "difference")
            )
            interval = "" if gain.low is None else f" [{gain.low:+.2f}, {gain.high:+.2f}]"
            better = f"{sum(one['low'] > 0 for one in known)} of {len(some)}"
            yield (
                world,
                method,
                f"{start.mean:.2f}",
                f"{policy.mean:.2f}",
                f"{gain.mean:+.2f}{interval}",
                better,
            )
        elif some:
            yield world, method, "", "", some[0]["stopped"], f"0 of {len(some)}"


if __name__ == "__main__":
    given = flags(
        __doc__, worlds=list(WORLDS), methods=METHODS, seeds=5, first_seed=1, minutes=15.0, steps=600, jobs=2,
        folder="outputs/own_worlds", output=None, markdown=False,
    )  # fmt: skip
    folder = Path(given.folder).resolve()
    seeds = range(given.first_seed, given.first_seed + given.seeds)

    def one(cell: tuple[int, str]) -> list[dict[str, Any]]:
        return list(played(folder, cell[1], cell[0], given.methods, given.minutes, given.steps))

    if given.markdown:
        cells = json.loads(Path(given.output).read_text())["cells"]
    else:
        with ThreadPoolExecutor(given.jobs) as pool:
            cells = [cell for some in pool.map(one, product(seeds, given.worlds)) for cell in some]
        save(given.output, cells=cells)
    show(("world", "method", "start", "policy", "difference", "seeds better"), table(cells))
