"""Rendering services for tests: one event loop for a module, browsers only where there are some."""

import asyncio
import contextlib
import os

import pytest

from sweet_rl.browsers import RenderSettings, open_renderer
from sweet_rl.browsers.browser import descendants
from sweet_rl.browsers.chromium import Chromium
from sweet_rl.browsers.firefox import Firefox
from sweet_rl.errors import UsageError


class Service:
    """A rendering service as a test uses it: waiting for each answer."""

    def __init__(self, runner, service):
        self.runner, self.service = runner, service

    def render(self, html):
        return self.runner.run(self.service.render(html))

    def render_all(self, pages):
        async def all_at_once():
            return await asyncio.gather(*map(self.service.render, pages), return_exceptions=True)

        return self.runner.run(all_at_once())

    def close(self):
        self.runner.run(self.service.close())

    def pids(self):
        return [
            pid
            for seat in self.service._seats
            for browser in seat.running
            for pid in descendants(browser.process.pid)
        ]


@pytest.fixture(scope="session")
def services():
    """Opens services: `with services(browser="chromium", ...) as service`. Skips where there is no browser."""

    @contextlib.contextmanager
    def opened(**settings):
        kind = Firefox if settings.get("browser") == "firefox" else Chromium
        try:
            kind.find()
        except UsageError as error:
            if os.environ.get("SWEET_RL_REQUIRE_BROWSER") == "1" and kind is Chromium:
                pytest.fail(str(error))
            pytest.skip(str(error))
        with asyncio.Runner() as runner:
            service = Service(
                runner, open_renderer(RenderSettings(**{"browsers": 1, "page_timeout_s": 90} | settings))
            )
            try:
                yield service
            finally:
                service.close()

    return opened


@pytest.fixture(scope="module")
def service(services):
    """Scripts off, as usual."""
    with services() as opened:
        yield opened


@pytest.fixture(scope="module")
def scripted(services):
    """Scripts on, and little patience."""
    with services(allow_scripts=True, page_timeout_s=6) as opened:
        yield opened
