"""The rendering service: a few browsers shared by all episodes; implements `Renderer`."""

from __future__ import annotations

import asyncio
import functools
import sys
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Self

from sweet_rl.errors import UsageError, without_linux
from sweet_rl.pages import cache, chromium, firefox
from sweet_rl.pages.assets import VERSION
from sweet_rl.pages.browser import version_of
from sweet_rl.pages.html import normalise_urls
from sweet_rl.pages.pool import Seat, StartBrowser
from sweet_rl.pages.process import namespaces
from sweet_rl.pages.settings import RenderSettings
from sweet_rl.pages.types import RenderedPage, RenderFailed
from sweet_rl.pages.wire import BrowserGone
from sweet_rl.types import Failure, Json, digest

TABS = 2
"""Pages that one browser renders at once: while one waits, the other computes."""


def open_renderer(settings: RenderSettings | None = None) -> RenderService:
    """The rendering service; `async with` stops its browsers."""
    if sys.platform != "linux":
        raise UsageError(without_linux("Rendering pages"))
    settings = settings or RenderSettings()
    module = {"firefox": firefox, "chromium": chromium}[settings.browser]
    return RenderService(
        settings,
        functools.partial(module.start, settings),
        program=module.find(),
        protection=_protection(settings),
    )


class RenderService:
    """Pages to pictures, by real browsers.

    Browsers are started when the first page needs them. A page whose browser dies is tried once more, in a
    browser of its own, so that no page suffers for its neighbour.

    Args:
        settings: how pages are rendered.
        start: starts one browser.
        program: the browser's path; its version is part of the cache's keys.
        protection: what keeps pages from the network, in words.
    """

    def __init__(
        self, settings: RenderSettings, start: StartBrowser, *, program: str, protection: str = ""
    ) -> None:
        self.settings, self.protection = settings, protection
        self._program, self._version = program, ""
        self._new_seat = functools.partial(
            Seat, start, pages=settings.pages_per_browser, memory_mb=settings.browser_memory_mb
        )
        self._seats = [self._new_seat() for _ in range(settings.browsers)]
        self._places = asyncio.Semaphore(settings.browsers * TABS)
        self._same_page: dict[str, asyncio.Lock] = {}

    async def __aenter__(self) -> Self:
        """The service, which stops with the block."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
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
        self._version = self._version or await asyncio.to_thread(version_of, self._program)
        key = digest([html, self._identity()], 32)
        async with self._same_page.setdefault(key, asyncio.Lock()):
            page = await asyncio.to_thread(cache.load, folder, key)
            if page is None:
                page = await self._render(html)
                if self.settings.network == "none":
                    await asyncio.to_thread(cache.save, folder, key, page)
        self._same_page.pop(key, None)
        return page

    def _identity(self) -> Json:
        """What decides about a picture, beside the page."""
        settings = self.settings
        window = asdict(settings.viewport)
        return [self._version, VERSION, window, settings.allow_scripts, settings.max_height]

    async def _render(self, html: str) -> RenderedPage:
        """Render a page, with a second try if its browser dies."""
        async with self._places:
            try:
                return await self._limited(min(self._seats, key=_pages_in_flight), html)
            except BrowserGone:
                alone = self._new_seat()
            try:
                return await self._limited(alone, html)
            except BrowserGone as error:
                raise RenderFailed(Failure("crash", f"{error}, twice", attempts=2)) from error
            finally:
                await alone.close()

    async def _limited(self, seat: Seat, html: str) -> RenderedPage:
        try:
            return await seat.render(html)
        except TimeoutError:
            limit = f"the page took more than {self.settings.page_timeout_s:g} s"
            raise RenderFailed(Failure("timeout", limit)) from None


def _pages_in_flight(seat: Seat) -> int:
    return seat.in_flight


def _protection(settings: RenderSettings) -> str:
    if settings.network == "allow":
        return "none: --network allow"
    walls = "every request is answered or refused by us; the browser has no proxy and no name server"
    return f"{walls}; a network namespace without interfaces" if namespaces() else walls
