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

from _measure import flags, heading, save, shared_tasks, show
from _plain_pages import plain_grades

from sweet_rl.browsers import RenderFailed, RenderSettings, open_renderer
from sweet_rl.browsers.service import RenderService
from sweet_rl.commands.evaluate_html import PageGradingFlags, run
from sweet_rl.concurrency import for_each
from sweet_rl.grading.pages.metrics import WEIGHT_FREE, PageView, black, compare, decode, look, scale
from sweet_rl.records import replace_file, replace_rows
from sweet_rl.worlds import load_tasks


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
    """Seconds of computing of each step of ours, with everything in the cache."""
    spent: dict[str, float] = {}
    assert settings.cache is not None
    nothing = PageView(scale(black()))

    def timed(step: str, work: Callable[..., Any], *given: Any) -> Any:
        started = time.thread_time()
        found = work(*given)
        spent[step] = spent.get(step, 0.0) + time.thread_time() - started
        return found

    async with open_renderer(settings) as renderer:
        for row in rows:
            target = await renderer.render(row["task"]["ground_truth"])
            answer = await renderer.render(row["dialogue_history"][-1]["content"])
            pictures = [(folder / row["answer"]).read_bytes(), target.image]
            for picture in pictures:
                timed("decode and scale, where a picture is new", lambda data: scale(decode(data)), picture)
            seen = [timed("looks, read", look, picture, settings.cache) for picture in pictures]
            one, other = (
                timed("elements", PageView, *each) for each in zip(seen, (answer, target), strict=True)
            )
            timed("grades of the answer", compare, one, other)
            timed("black picture", compare, nothing, other)
    return spent


def main() -> None:
    given = flags(__doc__, tasks=None, pages=200, cold_pages=40, rounds=3, browsers=2, output=None)
    source = given.tasks or shared_tasks("frontend_tasks_500.jsonl", "mini-web:test")
    tasks = [dict(task.row) for task in load_tasks(source, num_tasks=given.pages)]
    print(f"{heading()}\nload {os.getloadavg()[0]:.1f} before\n")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        cached = RenderSettings(browsers=given.browsers, cache=folder / "cache")
        rows = asyncio.run(draw_answers(tasks, cached, folder))
        for file, some in (("warm.jsonl", rows), ("cold.jsonl", rows[: given.cold_pages])):
            replace_rows(folder / file, some)
        timed(ours, folder / "warm.jsonl", cached)  # fills the cache

        def empty(side: str, number: int) -> RenderSettings:
            return replace(cached, cache=folder / f"cold-{side}-{number}")

        found = {
            "warm": in_turn(folder / "warm.jsonl", given.rounds, lambda _side, _number: cached),
            "cold": in_turn(folder / "cold.jsonl", given.rounds, empty),
        }
        spent = asyncio.run(split(rows, cached, folder))
    counts = {"warm": len(rows), "cold": min(len(rows), given.cold_pages)}
    lines = []
    for kind, pairs in found.items():
        for label, takes in zip(("plain", "sweet_rl"), zip(*pairs, strict=True), strict=True):
            took = [1000 * statistics.median(t[place] for t in takes) / counts[kind] for place in (0, 1)]
            lines.append([kind, label, *(f"{each:.1f}" for each in took)])
        ratios = zip(*(plain.over(own) for plain, own in pairs), strict=True)
        lines.append([kind, "ratio", *(f"{statistics.median(each):.2f}" for each in ratios)])
    show(("cache", "side", "wall, ms a page", "computing, ms a page"), lines)
    print()
    show(
        ("of ours", "computing, ms a page"),
        [(step, f"{1000 * spent[step] / len(rows):.2f}") for step in spent],
    )
    print(f"load {os.getloadavg()[0]:.1f} after")
    save(given.output, arguments=vars(given), rounds=found, computing_s=spent)


if __name__ == "__main__":
    main()
