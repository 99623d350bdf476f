"""How fast pages are graded without a model, and where the time goes.

Answers are real ColBench targets, perturbed: other sizes, colours and texts. Their pictures are made first,
as a finished run has them. Then `evaluate_html` grades them; targets are rendered, and answers for their
elements:

- cold: nothing in the render cache, browsers started and stopped within the time;
- warm: a second evaluation with everything in the render cache (another metric, another margin, --regrade).

The split beside it is computing time on the same pages, one after the other, in one thread.

Run: python benchmarks/evaluate_html.py [--tasks frontend_tasks_500.jsonl] [--pages 500] [--output FILE.json]
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import io
import json
import os
import re
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from _machine import machine_line

from sweet_rl.commands.page_evaluation import PageEvaluation, rendering_of, run
from sweet_rl.grading.pages.elements import elements_of, layout_agreement, text_agreement
from sweet_rl.grading.pages.pictures import decode, look_at
from sweet_rl.grading.pages.visual import colour, structure
from sweet_rl.pages import RenderedPage, RenderFailed, RenderSettings, open_renderer
from sweet_rl.records import replace_file, replace_rows
from sweet_rl.worlds import load_tasks

ROOT = Path(__file__).resolve().parent.parent


def default_tasks() -> str:
    """The real tasks where they are at hand, else the embedded ones, said aloud."""
    shared = Path(os.environ.get("SWEET_RL_SHARED", ROOT.parent / "shared"))
    path = shared / "data/colbench/frontend_tasks_500.jsonl"
    if path.exists():
        return str(path)
    print("No ColBench file at hand (--tasks, or SWEET_RL_SHARED): measuring on mini-web:test instead.")
    return "mini-web:test"


def perturbed(page: str) -> str:
    """A page like it: headings smaller, paddings larger, greens red, every third text another."""
    page = page.replace("text-3xl", "text-xl").replace("p-4", "p-6").replace("bg-green-", "bg-red-")
    texts = list(re.finditer(r"<p[^>]*>([^<]{20,})</p>", page))
    for text in reversed(texts[::3]):
        page = page[: text.start(1)] + "Something else stands here." + page[text.end(1) :]
    return page


async def draw_answers(
    tasks: list[dict[str, Any]], settings: RenderSettings, folder: Path
) -> list[dict[str, Any]]:
    """A finished run: rows whose pictures are files."""
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


def evaluation_s(path: Path, settings: RenderSettings) -> float:
    """Seconds of one evaluation by the clock."""

    async def main() -> None:
        job = PageEvaluation(
            str(path),
            rendering=rendering_of(settings),
            regrade=True,
            at_once=4 * settings.browsers,
            quiet=True,
        )
        async with open_renderer(settings) as renderer:
            await run(job, renderer)

    started = time.perf_counter()
    with contextlib.redirect_stdout(io.StringIO()):
        asyncio.run(main())
    return time.perf_counter() - started


async def split(rows: list[dict[str, Any]], settings: RenderSettings, folder: Path) -> dict[str, float]:
    """Seconds of computing of each step over all rows; rendering from the cache is not among them."""
    spent: dict[str, float] = {}

    def timed(name: str, work: Callable[[], Any]) -> Any:
        started = time.thread_time()
        result = work()
        spent[name] = spent.get(name, 0.0) + time.thread_time() - started
        return result

    async with open_renderer(settings) as renderer:
        for row in rows:
            target: RenderedPage = await renderer.render(row["task"]["ground_truth"])
            answer = await renderer.render(row["dialogue_history"][-1]["content"])
            data = timed("read", (folder / row["answer"]).read_bytes)
            images = [timed("decode", lambda d=d: decode(d)) for d in (target.image, data)]
            looks = [timed("scale", lambda i=i: look_at(i).pixels) for i in images]
            found = [timed("elements", lambda p=p: elements_of(p.boxes)) for p in (target, answer)]
            timed("ssim", lambda looks=looks: structure(*looks))
            timed("colour", lambda looks=looks: colour(*looks))
            timed("text", lambda found=found: text_agreement(*found))
            timed("layout", lambda found=found: layout_agreement(*found))
    return spent


def main() -> None:
    """Measure, print the table, write the numbers."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--tasks", help="a .jsonl file of Frontend Design; default: ColBench's, or mini-web:test"
    )
    parser.add_argument("--pages", type=int, default=500)
    parser.add_argument("--browsers", type=int, default=2)
    parser.add_argument("--output", default=None)
    arguments = parser.parse_args()
    tasks = [dict(task.row) for task in load_tasks(arguments.tasks or default_tasks(), limit=arguments.pages)]
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows = asyncio.run(draw_answers(tasks, RenderSettings(browsers=arguments.browsers), folder))
        path = folder / "run.jsonl"
        replace_rows(path, rows)
        cached = RenderSettings(browsers=arguments.browsers, cache=folder / "cache")
        cold_s = evaluation_s(path, cached)
        warm_s = evaluation_s(path, cached)
        spent = asyncio.run(split(rows, cached, folder))
        metrics = json.loads((folder / "run.report.json").read_text())["metrics"]
    print(
        f"{machine_line()}\n{len(rows)} pages of {len(tasks)}, two renderings each; load {load:.1f} before\n"
    )
    print(f"{'':<28}{'seconds':>9}{'pages/s':>9}")
    for label, seconds in (("evaluate_html, cold", cold_s), ("evaluate_html, warm", warm_s)):
        print(f"{label:<28}{seconds:>9.1f}{len(rows) / seconds:>9.2f}")
    print(f"\n{'computing, ms a page':<28}{'':>9}{'share':>9}")
    total = sum(spent.values())
    for step, seconds in spent.items():
        print(f"{step:<28}{1000 * seconds / len(rows):>9.2f}{seconds / total:>9.0%}")
    print(f"{'all but rendering':<28}{1000 * total / len(rows):>9.2f}")
    print(
        "\nmean grades: " + ", ".join(f"{name} {line['mean']['mean']:.3f}" for name, line in metrics.items())
    )
    if arguments.output:
        numbers = {
            "machine": machine_line(),
            "arguments": vars(arguments),
            "pages": len(rows),
            "load_before": load,
            "cold_s": cold_s,
            "warm_s": warm_s,
            "computing_s": spent,
            "mean_grades": {name: line["mean"]["mean"] for name, line in metrics.items()},
        }
        replace_file(arguments.output, [json.dumps(numbers, indent=1).encode() + b"\n"])


if __name__ == "__main__":
    main()
