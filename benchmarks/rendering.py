"""Real pages to pictures: the rendering service against one fresh driver per page, as published.

- ours: `open_renderer`, no cache, browsers started and stopped within the time.
- published: for every page a new headless Chromium through selenium, the page from a file, a picture of the
  whole page, quit; as many at once as there are cores. It has no hermetic assets: the network is refused by
  name, so that it waits for nothing, and its pages are therefore poorer (no Tailwind to parse, no pictures).

Memory is the proportional set size of all browser processes: of ours while 100 episodes render at once, of
the published way with some drivers open, each with its page, extrapolated to 100.

Run: python benchmarks/rendering.py [--tasks frontend_tasks_500.jsonl] [--pages 200] [--output FILE.json]
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import contextlib
import hashlib
import itertools
import json
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from _measure import circumstances, heading

from sweet_rl.browsers import RenderedPage, RenderSettings, open_renderer
from sweet_rl.browsers.browser import descendants


def main() -> None:
    arguments = _arguments()
    pages = load_pages(arguments)
    first, first_s, _ = ours(pages, arguments.browsers)
    second, second_s, _ = ours(pages, arguments.browsers)
    same = sum(a == b for a, b in zip(first, second, strict=True))
    many = list(itertools.islice(itertools.cycle(pages), arguments.episodes))
    _, _, our_mb = ours(many, arguments.browsers)
    print(f"ours: {first_s:.1f} and {second_s:.1f} s, at most {our_mb:.0f} MB", flush=True)
    their_pages, published_s = published(pages)
    print(f"driver per page: {published_s:.1f} s, {their_pages} pictures", flush=True)
    drivers_mb = drivers_memory(pages, arguments.drivers)
    their_mb = drivers_mb / arguments.drivers * arguments.episodes
    ours_s = (first_s + second_s) / 2
    found = {
        **circumstances(),
        "arguments": vars(arguments),
        "pages": len(pages),
        "rendered": sum(page is not None for page in first),
        "byte_identical": same,
        "ours_s": [first_s, second_s],
        "published_rendered": their_pages,
        "published_s": published_s,
        "times_faster": published_s / ours_s,
        "ours_pss_mb_at_once": our_mb,
        "published_pss_mb": drivers_mb,
        "published_pss_mb_at_once": their_mb,
        "times_smaller": their_mb / our_mb,
        "digest": hashlib.sha256(b"".join(page.image for page in first if page is not None)).hexdigest(),
    }
    print(heading())
    print(f"{found['rendered']} of {len(pages)} pages rendered, {same} byte-identical in two complete runs")
    print(f"| | pages/s | s a page | MB at {arguments.episodes} episodes |\n|---|---|---|---|")
    print(f"| ours | {len(pages) / ours_s:.2f} | {ours_s / len(pages):.3f} | {our_mb:.0f} |")
    theirs = f"| driver per page | {len(pages) / published_s:.2f} | {published_s / len(pages):.3f} |"
    print(f"{theirs} {their_mb:.0f} (from {arguments.drivers} drivers) |")
    print(f"| ratio | {found['times_faster']:.1f} | | {found['times_smaller']:.1f} |")
    if arguments.output:
        Path(arguments.output).write_text(json.dumps(found, indent=1) + "\n")


def load_pages(arguments: argparse.Namespace) -> list[str]:
    path = arguments.tasks
    shared = os.environ.get("SWEET_RL_SHARED")
    if path is None and shared:
        path = Path(shared) / "data/colbench/frontend_tasks_500.jsonl"
    if path is None:
        from sweet_rl.worlds import load_tasks

        return [task.ground_truth for task in load_tasks("mini-web:train")][: arguments.pages]
    with Path(path).open() as file:
        return [json.loads(line)["ground_truth"] for line in file][: arguments.pages]


def ours(pages: list[str], browsers: int) -> tuple[list[RenderedPage | None], float, float]:
    """Pictures, seconds and the largest PSS in MB."""

    async def work() -> list[RenderedPage | None]:
        async with open_renderer(RenderSettings(browsers=browsers, page_timeout_s=120)) as renderer:
            found = await asyncio.gather(*map(renderer.render, pages), return_exceptions=True)
            return [page if isinstance(page, RenderedPage) else None for page in found]

    started = time.perf_counter()
    with _peak_memory() as peak:
        found = asyncio.run(work())
    return found, time.perf_counter() - started, max(peak)


def published(pages: list[str]) -> tuple[int, float]:
    """Pictures and seconds for all pages, one fresh driver for each; one that fails gives none."""
    from selenium.common.exceptions import WebDriverException

    def one(page: str) -> bool:
        try:
            with _driver() as driver:
                return bool(_screenshot(driver, page))
        except WebDriverException as error:
            print("driver:", str(error.msg).splitlines()[0], flush=True)
            return False

    started = time.perf_counter()
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        rendered = sum(threads.map(one, pages))
    return rendered, time.perf_counter() - started


def drivers_memory(pages: list[str], count: int) -> float:
    with contextlib.ExitStack() as stack:
        for page in pages[:count]:
            _screenshot(stack.enter_context(_driver()), page)
        return _pss_mb()


@contextlib.contextmanager
def _driver() -> Iterator[Any]:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or shutil.which("google-chrome") or ""
    flags = ["headless=new", "window-size=1366,768", "disable-gpu", "host-resolver-rules=MAP * ~NOTFOUND"]
    if os.geteuid() == 0:
        flags.append("no-sandbox")
    for flag in flags:
        options.add_argument(f"--{flag}")
    driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    try:
        yield driver
    finally:
        driver.quit()


def _screenshot(driver: Any, page: str) -> bytes:
    with tempfile.NamedTemporaryFile("w", suffix=".html") as file:
        file.write(page)
        file.flush()
        driver.get(f"file://{file.name}")
    shot = driver.execute_cdp_cmd("Page.captureScreenshot", {"format": "png", "captureBeyondViewport": True})
    return base64.b64decode(shot["data"])


@contextlib.contextmanager
def _peak_memory() -> Iterator[list[float]]:
    found, done = [0.0], threading.Event()

    def watch() -> None:
        while not done.wait(1.0):
            found.append(_pss_mb())

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield found
    finally:
        done.set()
        thread.join()


def _pss_mb() -> float:
    total_kb = 0
    for pid in descendants(os.getpid())[1:]:
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
                total_kb += int(line.split()[1]) if line.startswith("Pss:") else 0
    return total_kb / 1024


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tasks", help="task file of Frontend Design; default: mini-web")
    parser.add_argument("--pages", type=int, default=200)
    parser.add_argument("--browsers", type=int, default=2)
    parser.add_argument("--drivers", type=int, default=10, help="drivers opened at once for their memory")
    parser.add_argument("--episodes", type=int, default=100, help="at once, for our memory")
    parser.add_argument("--output", help="JSON file for the figures")
    return parser.parse_args()


if __name__ == "__main__":
    main()
