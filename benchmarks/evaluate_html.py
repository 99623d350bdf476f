"""How fast pages are graded without a model, against the plain arithmetic, and where the time goes.

Answers are real ColBench targets, perturbed: other sizes, colours and texts. Their pictures are made first,
as a finished run has them. Then both sides grade them in turn, round after round, with the same browsers and
as many pages at once; targets are rendered, and answers for their elements:

- cold: nothing in the render cache, browsers started within the time;
- warm: another evaluation with everything in the render cache (another metric, another margin, --regrade).

The plain side (`_plain_pages.py`) decodes and scales each picture when it is compared and computes everything
for each comparison; it writes no rows. Both grade alike, or this ends with an error. Seconds are by the clock
and of computing, browsers included; a ratio is the median over the rounds.

Run: python benchmarks/evaluate_html.py [--tasks frontend_tasks_500.jsonl] [--pages 200] [--cold_pages 40]
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import io
import json
import os
import re
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from _measure import circumstances, heading
from _plain_pages import plain_grades

from sweet_rl.browsers import RenderFailed, RenderSettings, open_renderer
from sweet_rl.browsers.service import RenderService
from sweet_rl.commands.evaluate_html import PageGradingFlags, run
from sweet_rl.concurrency import for_each
from sweet_rl.grading.pages.metrics import (
    WEIGHT_FREE,
    Looks,
    black,
    compare,
    decode,
    pixels_of,
    scale,
    view_of,
)
from sweet_rl.records import replace_file, replace_rows
from sweet_rl.worlds import load_tasks

ROOT = Path(__file__).resolve().parent.parent


def default_tasks() -> str:
    shared = Path(os.environ.get("SWEET_RL_SHARED", ROOT.parent / "shared"))
    path = shared / "data/colbench/frontend_tasks_500.jsonl"
    if path.exists():
        return str(path)
    print("No ColBench file at hand (--tasks, or SWEET_RL_SHARED): measuring on mini-web:test instead.")
    return "mini-web:test"


def perturbed(page: str) -> str:
    page = page.replace("text-3xl", "text-xl").replace("p-4", "p-6").replace("bg-green-", "bg-red-")
    texts = list(re.finditer(r"<p[^>]*>([^<]{20,})</p>", page))
    for text in reversed(texts[::3]):
        page = page[: text.start(1)] + "Something else stands here." + page[text.end(1) :]
    return page


async def draw_answers(
    tasks: list[dict[str, Any]], settings: RenderSettings, folder: Path
) -> list[dict[str, Any]]:
    async with open_renderer(settings) as renderer:

        async def one(index: int, task: dict[str, Any]) -> dict[str, Any] | None:
            page = perturbed(task["ground_truth"])
            try:
                picture = (await renderer.render(page)).image
            except RenderFailed:
                return None
            name = f"{index}.png"
            replace_file(folder / name, [picture])
            history = [
                {"role": "user", "content": task["problem_description"]},
                {"role": "assistant", "content": page, "input": "", "output": page},
            ]
            return {"task": task, "dialogue_history": history, "answer": name, "task_id": str(index)}

        rows = await asyncio.gather(*[one(index, task) for index, task in enumerate(tasks)])
    return [row for row in rows if row is not None]


def tree_cpu_s() -> float:
    """Computing time of this process and of all that are below it, the browsers' among them."""
    parents: dict[int, int] = {}
    spent: dict[int, float] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = stat.read_text().rpartition(")")[2].split()
            pid = int(stat.parent.name)
            parents[pid] = int(fields[1])
            spent[pid] = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")

    def is_ours(pid: int) -> bool:
        return pid == os.getpid() or (pid in parents and is_ours(parents[pid]))

    return sum(seconds for pid, seconds in spent.items() if is_ours(pid))


class Took(NamedTuple):
    wall_s: float
    cpu_s: float
    means: dict[str, float]

    def over(self, other: Took) -> tuple[float, float]:
        return self.wall_s / other.wall_s, self.cpu_s / other.cpu_s


Grading = Callable[[Path, RenderService], Awaitable[dict[str, float]]]
"""Grades the rows of a file with a renderer and gives the mean grades."""


async def ours(path: Path, renderer: RenderService) -> dict[str, float]:
    flags = PageGradingFlags(
        saved_path=str(path),
        regrade=True,
        browsers=renderer.settings.browsers,
        render_cache=str(renderer.settings.cache),
        quiet=True,
    )
    with contextlib.redirect_stdout(io.StringIO()):
        await run(flags, renderer)
    metrics = json.loads(path.with_name(f"{path.stem}.report.json").read_text())["metrics"]
    return {name: metrics[name]["mean"]["mean"] for name in WEIGHT_FREE}


def read_rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


async def plainly(path: Path, renderer: RenderService) -> dict[str, float]:
    """The plain side, as many pages at once, in as many threads."""
    grades: list[dict[str, float]] = []

    async def one(row: dict[str, Any]) -> None:
        target = await renderer.render(row["task"]["ground_truth"])
        answer = await renderer.render(row["dialogue_history"][-1]["content"])
        data = await asyncio.to_thread((path.parent / row["answer"]).read_bytes)
        grades.append((await asyncio.to_thread(plain_grades, data, answer, target))["answer"])

    await for_each(read_rows(path), one, at_once=4 * renderer.settings.browsers)
    return {name: statistics.fmean(grade[name] for grade in grades) for name in WEIGHT_FREE}


def timed(side: Grading, path: Path, settings: RenderSettings) -> Took:
    async def main() -> Took:
        used, started = tree_cpu_s(), time.perf_counter()
        async with open_renderer(settings) as renderer:
            means = await side(path, renderer)
            return Took(time.perf_counter() - started, tree_cpu_s() - used, means)

    return asyncio.run(main())


def in_turn(
    path: Path, rounds: int, settings: Callable[[str, int], RenderSettings]
) -> list[tuple[Took, Took]]:
    found = []
    for number in range(rounds):
        sides: list[Grading] = [plainly, ours] if number % 2 == 0 else [ours, plainly]
        took = {side: timed(side, path, settings(side.__name__, number)) for side in sides}
        plain, own = took[plainly], took[ours]
        apart = max(abs(plain.means[name] - own.means[name]) for name in WEIGHT_FREE)
        if apart > 1e-6:
            raise SystemExit(
                f"The mean grades of the two sides differ by {apart:g}: {plain.means}, {own.means}"
            )
        found.append((plain, own))
    return found


async def split(rows: list[dict[str, Any]], settings: RenderSettings, folder: Path) -> dict[str, float]:
    spent: dict[str, float] = {}
    assert settings.cache is not None
    looks = Looks(settings.cache)
    black_view = view_of(pixels_of(scale(black())), None)

    def timed(name: str, work: Callable[[], Any]) -> Any:
        started = time.thread_time()
        result = work()
        spent[name] = spent.get(name, 0.0) + time.thread_time() - started
        return result

    async with open_renderer(settings) as renderer:
        for row in rows:
            target = await renderer.render(row["task"]["ground_truth"])
            answer = await renderer.render(row["dialogue_history"][-1]["content"])
            data = (folder / row["answer"]).read_bytes()
            timed(
                "decode and scale, twice, where a picture is new",
                lambda d=data, t=target: [scale(decode(picture)) for picture in (d, t.image)],
            )
            pixels = timed("looks, read", lambda d=data, t=target: [looks.of(d), looks.of(t.image)])
            one, other = timed(
                "elements", lambda p=pixels, a=answer, t=target: [view_of(p[0], a), view_of(p[1], t)]
            )
            timed("grades of the answer", lambda o=one, t=other: compare(o, t))
            timed("black picture", lambda t=other: compare(black_view, t))
    return spent


def sizes(folder: Path) -> dict[str, int]:
    kinds = {"pictures": "*.png", "boxes": "*.json", "looks": "*.zz"}
    return {kind: sum(path.stat().st_size for path in folder.rglob(name)) for kind, name in kinds.items()}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--tasks", help="a .jsonl file of Frontend Design; default: ColBench's, or mini-web:test"
    )
    parser.add_argument("--pages", type=int, default=200)
    parser.add_argument("--cold_pages", type=int, default=40, help="of these, with an empty cache")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--browsers", type=int, default=2)
    parser.add_argument("--output", default=None)
    arguments = parser.parse_args()
    tasks = [
        dict(task.row) for task in load_tasks(arguments.tasks or default_tasks(), num_tasks=arguments.pages)
    ]
    print(f"{heading()}\nload {os.getloadavg()[0]:.1f} before\n")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        cached = RenderSettings(browsers=arguments.browsers, cache=folder / "cache")
        rows = asyncio.run(draw_answers(tasks, cached, folder))
        for file, some in (("warm.jsonl", rows), ("cold.jsonl", rows[: arguments.cold_pages])):
            replace_rows(folder / file, some)
        timed(ours, folder / "warm.jsonl", cached)  # fills the cache
        found = {
            "warm": in_turn(folder / "warm.jsonl", arguments.rounds, lambda _side, _number: cached),
            "cold": in_turn(
                folder / "cold.jsonl",
                arguments.rounds,
                lambda side, number: replace(cached, cache=folder / f"cold-{side}-{number}"),
            ),
        }
        spent = asyncio.run(split(rows, cached, folder))
        taken = sizes(folder / "cache")
    counts = {"warm": len(rows), "cold": min(len(rows), arguments.cold_pages)}
    print(f"{'':<8}{'side':<10}{'wall, ms a page':>18}{'computing, ms a page':>24}")
    for kind, pairs in found.items():
        for label, takes in zip(("plain", "sweet_rl"), zip(*pairs, strict=True), strict=True):
            wall, cpu = (1000 * statistics.median(t[place] for t in takes) / counts[kind] for place in (0, 1))
            print(f"{kind:<8}{label:<10}{wall:>18.1f}{cpu:>24.1f}")
        ratios = zip(*(plain.over(own) for plain, own in pairs), strict=True)
        wall, cpu = map(statistics.median, ratios)
        print(f"{kind:<8}{'ratio':<10}{wall:>18.2f}{cpu:>24.2f}")
    print("\nof ours, computing, ms a page")
    for step, seconds in spent.items():
        print(f"{step:<52}{1000 * seconds / len(rows):>8.2f}")
    pages = 2 * len(rows)
    print("\nrender cache, KB a page: " + ", ".join(f"{k} {v / 1000 / pages:.1f}" for k, v in taken.items()))
    print(f"load {os.getloadavg()[0]:.1f} after")
    if arguments.output:
        numbers = {
            **circumstances(),
            "arguments": vars(arguments),
            "rounds": found,
            "computing_s": spent,
            "cache_bytes": taken,
        }
        replace_file(arguments.output, [json.dumps(numbers, indent=1).encode() + b"\n"])


if __name__ == "__main__":
    main()
