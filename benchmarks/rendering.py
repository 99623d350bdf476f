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

import asyncio
import base64
import contextlib
import hashlib
import itertools
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from _measure import flags, heading, save, shared_tasks, show

from sweet_rl.browsers import RenderedPage, RenderSettings, open_renderer
from sweet_rl.browsers.browser import descendants
from sweet_rl.worlds import load_tasks


def main() -> None:
    given = flags(__doc__, tasks=None, pages=200, browsers=2, drivers=10, episodes=100, output=None)
    source = given.tasks or shared_tasks("frontend_tasks_500.jsonl", "mini-web:train")
    pages = [task.ground_truth for task in load_tasks(source, num_tasks=given.pages)]
    first, first_s, _ = ours(pages, given.browsers)
    second, second_s, _ = ours(pages, given.browsers)
    same = sum(a == b for a, b in zip(first, second, strict=True))
    _, _, our_mb = ours(list(itertools.islice(itertools.cycle(pages), given.episodes)), given.browsers)
    print(f"ours: {first_s:.1f} and {second_s:.1f} s, at most {our_mb:.0f} MB", flush=True)
    their_pages, published_s = published(pages)
    print(f"driver per page: {published_s:.1f} s, {their_pages} pictures", flush=True)
    drivers_mb = drivers_memory(pages, given.drivers)
    their_mb, ours_s = drivers_mb / given.drivers * given.episodes, (first_s + second_s) / 2
    rendered, count = sum(page is not None for page in first), len(pages)
    print(f"{heading()}\n{rendered} of {count} pages rendered, {same} byte-identical in two complete runs")
    theirs = f"{their_mb:.0f} (from {given.drivers} drivers)"
    show(
        ("", "pages/s", "s a page", f"MB at {given.episodes} episodes"),
        [
            ["ours", f"{count / ours_s:.2f}", f"{ours_s / count:.3f}", f"{our_mb:.0f}"],
            ["driver per page", f"{count / published_s:.2f}", f"{published_s / count:.3f}", theirs],
            ["ratio", f"{published_s / ours_s:.1f}", "", f"{their_mb / our_mb:.1f}"],
        ],
    )
    save(
        given.output,
        arguments=vars(given),
        pages=count,
        rendered=rendered,
        byte_identical=same,
        ours_s=[first_s, second_s],
        published_rendered=their_pages,
        published_s=published_s,
        times_faster=published_s / ours_s,
        ours_pss_mb_at_once=our_mb,
        published_pss_mb=drivers_mb,
        published_pss_mb_at_once=their_mb,
        times_smaller=their_mb / our_mb,
        digest=hashlib.sha256(b"".join(page.image for page in first if page is not None)).hexdigest(),
    )


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


if __name__ == "__main__":
    main()
