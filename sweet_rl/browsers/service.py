"""The rendering service: a few browsers shared by all episodes, and a disk cache of their pictures."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import hashlib
import json
import subprocess
import sys
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from pathlib import Path
from typing import Self

from sweet_rl.browsers.assets import VERSION
from sweet_rl.browsers.browser import Browser, BrowserGone, namespaces
from sweet_rl.browsers.chromium import Chromium
from sweet_rl.browsers.firefox import Firefox
from sweet_rl.browsers.page import Box, RenderedPage, RenderFailed, RenderSettings, normalise_urls
from sweet_rl.errors import UsageError, without_linux
from sweet_rl.records import replace_file
from sweet_rl.types import Failure, digest

StartBrowser = Callable[[], Awaitable[Browser]]

WATCH_S = 1.0
"""How often a browser's memory is looked at."""

TABS = 2
"""Pages that one browser renders at once: while one waits, the other computes."""


class Seat:
    """A slot for one browser, which is replaced when it holds too much memory: an old one finishes its pages while
    the next one serves new ones; at twice as much it is killed.
    """

    def __init__(self, start: StartBrowser, memory_mb: float) -> None:
        self.in_flight = 0
        self.running: dict[Browser, int] = {}  # and the pages that each has in work
        self._start, self._memory_mb = start, memory_mb
        self._starting = asyncio.Lock()
        self._current: Browser | None = None
        self._watchers: list[asyncio.Task[None]] = []
        self._endings: set[asyncio.Task[None]] = set()

    async def render(self, html: str) -> RenderedPage:
        """Render one page in the seat's browser, as `Browser.render` does."""
        self.in_flight += 1
        try:
            browser = await self.ready()
            self.running[browser] += 1
            try:
                return await browser.render(html)
            finally:
                self.running[browser] -= 1
                self._end_if_done(browser)
        finally:
            self.in_flight -= 1

    async def ready(self) -> Browser:
        """The seat's browser, started if there is none."""
        async with self._starting:
            before = self._current
            if before is None or not before.alive:
                self._current = await self._start()
                self.running[self._current] = 0
                self._watchers.append(asyncio.create_task(self._watch(self._current)))
                if before is not None:
                    self._end_if_done(before)
            assert self._current is not None
            return self._current

    async def close(self) -> None:
        """End every browser of this seat, those that are still starting included."""
        async with self._starting:
            self._current = None
            for watcher in self._watchers:
                watcher.cancel()
            await asyncio.gather(*self._watchers, return_exceptions=True)
            await asyncio.gather(*(browser.kill() for browser in self.running), *self._endings)

    async def _watch(self, browser: Browser) -> None:
        while browser.alive:
            await asyncio.sleep(WATCH_S)
            memory_mb = browser.memory_mb()
            if memory_mb > self._memory_mb and browser is self._current:
                self._current = None
                self._end_if_done(browser)
            if memory_mb > 2 * self._memory_mb:
                await browser.kill()

    def _end_if_done(self, browser: Browser) -> None:
        if not self.running.get(browser, 1) and (browser is not self._current or not browser.alive):
            del self.running[browser]
            ending = asyncio.create_task(browser.kill())
            self._endings.add(ending)
            ending.add_done_callback(self._endings.discard)


class RenderService:
    """Pages to pictures, by real browsers.

    Browsers are started when the first page needs them. A page whose browser dies is tried once more, in a
    browser of its own, so that no page suffers for its neighbour.
    """

    def __init__(
        self, settings: RenderSettings, start: StartBrowser, *, program: str, protection: str = ""
    ) -> None:
        self.settings, self.protection = settings, protection
        self._program, self._version = program, ""
        self._new_seat = functools.partial(Seat, start, settings.browser_memory_mb)
        self._seats = [self._new_seat() for _ in range(settings.browsers)]
        self._places = asyncio.Semaphore(settings.browsers * TABS)
        self._same_page: dict[str, asyncio.Lock] = {}

    @classmethod
    def of(cls, settings: RenderSettings) -> Self:
        """The service with installed browsers."""
        if sys.platform != "linux":
            raise UsageError(without_linux("Rendering pages"))
        kind: type[Browser] = {"firefox": Firefox, "chromium": Chromium}[settings.browser]
        protection = "none: --network allow"
        if settings.network == "none":
            protection = (
                "every request is answered or refused by us; the browser has no proxy and no name server"
            )
            if namespaces():
                protection += "; a network namespace without interfaces"
        start = functools.partial(kind.start, settings)
        return cls(settings, start, program=kind.find(), protection=protection)

    async def __aenter__(self) -> Self:
        """The service, which stops with the block."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop the browsers."""
        await self.close()

    async def render(self, html: str) -> RenderedPage:
        """As in the contract; pictures with random content are normalised first (`normalise_urls`)."""
        page = normalise_urls(html).encode("utf-8", "replace")
        limit = self.settings.max_page_bytes
        if len(page) > limit:
            raise RenderFailed(Failure("too_large", f"the page has {len(page)} bytes; the limit is {limit}"))
        if self.settings.cache is None:
            return await self._render(page.decode())
        return await self._cached(page.decode(), self.settings.cache.expanduser())

    async def close(self) -> None:
        """End the browsers of all seats."""
        await asyncio.gather(*(seat.close() for seat in self._seats))

    async def _cached(self, html: str, folder: Path) -> RenderedPage:
        """Read the page, or render and keep it; who asks for the same page meanwhile waits for that."""
        self._version = self._version or await asyncio.to_thread(_version_of, self._program)
        settings, window = self.settings, asdict(self.settings.viewport)
        drawn_by = [self._version, VERSION, window, settings.allow_scripts, settings.max_height]
        key = digest([html, drawn_by], 32)  # all that decides about a picture
        path = folder / key[:2] / key
        async with self._same_page.setdefault(key, asyncio.Lock()):
            page = await asyncio.to_thread(_load, path)
            if page is None:
                page = await self._render(html)
                if self.settings.network == "none":
                    await asyncio.to_thread(_save, path, page)
        self._same_page.pop(key, None)
        return page

    async def _render(self, html: str) -> RenderedPage:
        """Render a page, with a second try if its browser dies."""
        async with self._places:
            try:
                with contextlib.suppress(BrowserGone):
                    return await min(self._seats, key=lambda seat: seat.in_flight).render(html)
                alone = self._new_seat()
                try:
                    return await alone.render(html)
                finally:
                    await alone.close()
            except BrowserGone as error:
                raise RenderFailed(Failure("crash", f"{error}, twice", attempts=2)) from error
            except TimeoutError:
                limit = f"the page took more than {self.settings.page_timeout_s:g} s"
                raise RenderFailed(Failure("timeout", limit)) from None


def _version_of(program: str) -> str:
    """What an installed browser says it is."""
    try:
        done = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise UsageError(
            f"{program} --version fails: {error}. Is the browser installed completely?"
        ) from error
    return done.stdout.strip()


def _load(path: Path) -> RenderedPage | None:
    """The page that lies there; None where it was never kept, or where its files are damaged."""
    try:
        image, found = (
            path.with_suffix(".png").read_bytes(),
            json.loads(path.with_suffix(".json").read_bytes()),
        )
        if found["sha256"] != hashlib.sha256(image).hexdigest():
            return None
        boxes = tuple(
            Box(**box | {name: box[name] and tuple(box[name]) for name in ("color", "background")})
            for box in found["boxes"]
        )
        return RenderedPage(image, found["width"], found["height"], boxes, tuple(found["problems"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _save(path: Path, page: RenderedPage) -> None:
    """Keep a page: a picture that a person can open, then its boxes, which name its digest."""
    found = {
        "sha256": hashlib.sha256(page.image).hexdigest(),
        "width": page.width,
        "height": page.height,
        "problems": page.problems,
        "boxes": [asdict(box) for box in page.boxes],
    }
    replace_file(path.with_suffix(".png"), [page.image])
    replace_file(path.with_suffix(".json"), [json.dumps(found, separators=(",", ":")).encode()])
