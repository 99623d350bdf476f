"""Browsers that are replaced when they die, use too much memory or grow old. It does not know pages."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

from sweet_rl.pages.browser import Browser
from sweet_rl.pages.types import RenderedPage

StartBrowser = Callable[[], Awaitable[Browser]]

WATCH_S = 1.0
"""How often a browser's memory is looked at."""


class Seat:
    """A slot for one browser. An old one finishes its pages while the next one serves new ones.

    Args:
        start: starts a browser.
        pages: a browser is replaced after so many.
        memory_mb: and when it holds more than this; it is killed when it holds twice as much.
    """

    def __init__(self, start: StartBrowser, *, pages: int, memory_mb: float) -> None:
        self.in_flight = 0
        self._start, self._pages, self._memory_mb = start, pages, memory_mb
        self._starting = asyncio.Lock()
        self._current: _Running | None = None
        self._running: set[_Running] = set()
        self._endings: set[asyncio.Task[None]] = set()

    async def render(self, html: str) -> RenderedPage:
        """Render one page in the seat's browser, as `Browser.render` does."""
        self.in_flight += 1
        try:
            running = await self._ready()
            running.pages += 1
            running.in_flight += 1
            try:
                return await running.browser.render(html)
            finally:
                running.in_flight -= 1
                if running.pages >= self._pages or not running.browser.alive:
                    self._retire(running)
                self._end_if_idle(running)
        finally:
            self.in_flight -= 1

    async def close(self) -> None:
        """End every browser of this seat, those that are still starting included."""
        async with self._starting:
            self._current = None
            for running in list(self._running):
                self._end(running)
        await asyncio.gather(*self._endings)

    async def _ready(self) -> _Running:
        """The seat's browser, started if there is none."""
        async with self._starting:
            if self._current is not None and not self._current.browser.alive:
                self._retire(self._current)
            if self._current is None:
                self._current = _Running(await self._start())
                self._running.add(self._current)
                self._current.watcher = asyncio.create_task(self._watch(self._current))
            return self._current

    async def _watch(self, running: _Running) -> None:
        while running.browser.alive:
            await asyncio.sleep(WATCH_S)
            memory_mb = running.browser.memory_mb()
            if memory_mb > 2 * self._memory_mb:
                break
            if memory_mb > self._memory_mb:
                self._retire(running)
                self._end_if_idle(running)
        self._retire(running)
        self._end(running)

    def _retire(self, running: _Running) -> None:
        running.retired = True
        if self._current is running:
            self._current = None

    def _end_if_idle(self, running: _Running) -> None:
        if running.retired and running.in_flight == 0:
            self._end(running)

    def _end(self, running: _Running) -> None:
        if running in self._running:
            self._running.discard(running)
            ending = asyncio.create_task(running.end())
            self._endings.add(ending)
            ending.add_done_callback(self._endings.discard)


class _Running:
    """A browser and what it has done."""

    def __init__(self, browser: Browser) -> None:
        self.browser = browser
        self.pages = self.in_flight = 0
        self.retired = False
        self.watcher: asyncio.Task[None] | None = None

    async def end(self) -> None:
        """Kill it, and look after it no more."""
        await self.browser.kill()
        if self.watcher is not None:
            self.watcher.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self.watcher
