"""Chromium over its DevTools protocol: a context of its own for every page, every request answered by us.

The protocol is spoken directly rather than through a driver: it is stable for the dozen commands used here,
works with whichever Chromium is installed, and saves a second process and two hops for each request.
"""

from __future__ import annotations

import asyncio
import base64
import os
import subprocess
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sweet_rl.browsers.assets import FONTS
from sweet_rl.browsers.browser import CLOSED, PAGE_URL, Browser, BrowserGone, CommandFailed, Page, Response
from sweet_rl.browsers.page import RenderedPage, RenderFailed, RenderSettings
from sweet_rl.types import Failure, Json

_OFF = (
    "IsolateOrigins", "site-per-process", "HttpsUpgrades", "HttpsFirstBalancedModeAutoEnable", "Translate",
    "BackForwardCache", "OptimizationHints", "MediaRouter", "PaintHolding", "OverlayScrollbar",
)  # fmt: skip


class Chromium(Browser):
    """One running Chromium, driven over its debugging pipe."""

    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
    places = ("/usr/lib/chromium/chromium",)  # Debian's launcher adds flags of its own
    install = "apt-get install chromium (or Google Chrome's package)"
    start_s = 60.0

    def __init__(self, process: subprocess.Popen[bytes], home: Path, settings: RenderSettings) -> None:
        super().__init__(process, home, settings)
        self._idle: list[_Window] = []

    @classmethod
    def command(cls, program: str, home: Path, settings: RenderSettings) -> Sequence[str]:
        """See `Browser`."""
        own = (f"disable-features={','.join(_OFF)}", f"user-data-dir={home / 'profile'}")
        known = tomllib.loads((FONTS.parent / "chromium.toml").read_text())
        flags = [*known["flags"], *own, *(known["no_network"] if settings.network == "none" else ())]
        if os.geteuid() == 0:
            flags.append("no-sandbox")  # it refuses to start as root with its sandbox
        return [program, *(f"--{flag}" for flag in flags)]

    async def begin(self) -> None:
        """See `Browser`."""
        await self.wire.send("Browser.setDownloadBehavior", behavior="deny")

    async def render(self, html: str) -> RenderedPage:
        """Render one page in a window of its own; raises what the contract names."""
        window: _Window | None = None
        may_be_reused = False
        try:
            async with asyncio.timeout(self.settings.page_timeout_s):
                window = await self._window()
                page = await _Page(self, window, html).render()
                may_be_reused = not self.settings.allow_scripts  # without them a page leaves nothing behind
                return page
        except TimeoutError:
            if window is None:
                await self.kill()
            else:
                await self.end_page("Target.disposeBrowserContext", browserContextId=window.context)
            raise
        finally:
            if window is not None and may_be_reused:
                self._idle.append(window)
            elif window is not None:
                self.wire.handlers.pop(window.session, None)
                self.wire.send("Target.disposeBrowserContext", browserContextId=window.context)

    async def _window(self) -> _Window:
        """An empty window: one that is free, or a new one in a context of its own.

        The page before is emptied rather than left for about:blank, which would be a navigation more. Its
        elements, and what they load, are gone in either case before the next page is asked for.
        """
        if self._idle:
            window = self._idle.pop()
            await self.wire.send("Page.setDocumentContent", window.session, frameId=window.target, html="")
            return window
        wire, settings = self.wire, self.settings
        size: dict[str, Json] = {"width": settings.viewport.width, "height": settings.viewport.height}
        context = (await wire.send("Target.createBrowserContext", disposeOnDetach=True))["browserContextId"]
        opened = await wire.send(
            "Target.createTarget", url="about:blank", browserContextId=context, newWindow=True, **size
        )
        target = opened["targetId"]
        session = (await wire.send("Target.attachToTarget", targetId=target, flatten=True))["sessionId"]
        kind = {} if settings.network == "none" else {"resourceType": "Document"}
        commands: dict[str, Json] = {
            "Page.enable": {},
            "Log.enable": {},
            "Inspector.enable": {},
            "Emulation.setDeviceMetricsOverride": {**size, "deviceScaleFactor": 1, "mobile": False},
            "Emulation.setScriptExecutionDisabled": {"value": not settings.allow_scripts},
            "Fetch.enable": {"patterns": [{"urlPattern": "*", **kind}]},
        }
        # Awaited, because a page that is quicker than these would be loaded before we listen.
        await asyncio.gather(*(wire.send(method, session, **params) for method, params in commands.items()))
        return _Window(context, target, session)


@dataclass(frozen=True, slots=True)
class _Window:
    """A window that shows one page at a time: its context, its tab, and the session to it."""

    context: str
    target: str
    session: str


class _Page(Page):
    """One page in its window."""

    def __init__(self, browser: Chromium, window: _Window, html: str) -> None:
        super().__init__(browser.settings, html)
        self.wire, self.script = browser.wire, browser.script
        self.session, self.target = window.session, window.target
        self.crashed = False
        self.loaded: asyncio.Future[Json] = asyncio.get_running_loop().create_future()
        self.pending: asyncio.Future[Json] | None = None

    async def render(self) -> RenderedPage:
        """From an empty window to the picture."""
        self.wire.handlers[self.session] = self.on_event
        try:
            went = await self._send("Page.navigate", url=PAGE_URL)
            if went.get("errorText"):
                raise RenderFailed(Failure("navigation", went["errorText"]))
            await self._until(self.loaded)
            frame = (await self._send("Page.getFrameTree"))["frameTree"]["frame"]["id"]
            world = await self._send("Page.createIsolatedWorld", frameId=frame, worldName="sweet_rl")
            found = await self._send(
                "Runtime.evaluate",
                expression=self.script,
                contextId=world["executionContextId"],
                awaitPromise=True,
                returnByValue=True,
            )
            if "exceptionDetails" in found:
                raise RenderFailed(Failure("empty", str(found["exceptionDetails"].get("exception"))[:300]))
            height = self.measured(found["result"].get("value"))
            shot = await self._send(
                "Page.captureScreenshot",
                format="png",
                clip={"x": 0, "y": 0, "width": self.settings.viewport.width, "height": height, "scale": 1},
                captureBeyondViewport=True,
            )
        except CommandFailed as error:
            self.check()
            raise RenderFailed(Failure("navigation", str(error)[:300])) from error
        return self.drawn(shot.get("data", ""))

    def check(self) -> None:
        """Raise the cause of a refused command, if the page's process has died."""
        if self.crashed:
            raise BrowserGone("the page's process has ended")

    def on_event(self, method: str, params: Json) -> None:
        """React to an event of the tab: a request, the end of loading, a crash."""
        if method == "Fetch.requestPaused":
            self._answer(params)
        elif method == "Page.frameStoppedLoading":  # comes also where going elsewhere was refused
            if params["frameId"] == self.target and self.served and not self.loaded.done():
                self.loaded.set_result(None)
        elif method in {"Inspector.targetCrashed", "Inspector.detached", CLOSED}:
            self.crashed = True
            if self.pending is not None and not self.pending.done():
                self.pending.set_exception(BrowserGone("the page's process has ended"))
        elif method == "Log.entryAdded" and "load local resource" in params["entry"].get("text", ""):
            self.note(f"blocked {params['entry']['text'].split()[-1]}")

    def _answer(self, params: Json) -> None:
        """One request of the page: itself, an asset, or nothing."""
        request, url = params["requestId"], params["request"]["url"]
        document = params.get("resourceType") == "Document"
        main = document and params.get("frameId") == self.target
        if not self.served and not (main and url == PAGE_URL):
            # from the page before, in this window: refused, and not this one's problem
            response = Response() if document else None
        elif self.settings.network == "allow" and self.served and not main:
            self._later("Fetch.continueRequest", requestId=request)
            return
        elif url == f"{PAGE_URL}favicon.ico":  # the browser's own idea, not the page's
            response = None
        else:
            response = self.respond(url, main=main, document=document)
        if response is None:
            self._later("Fetch.failRequest", requestId=request, errorReason="BlockedByClient")
            return
        content: dict[str, Json] = {"responseCode": response.status}
        if response.status == 200:
            headers = response.headers.items()
            content["responseHeaders"] = [{"name": name, "value": value} for name, value in headers]
            content["body"] = base64.b64encode(response.body).decode()
        self._later("Fetch.fulfillRequest", requestId=request, **content)

    def _later(self, method: str, **params: Json) -> None:
        self.wire.send(method, self.session, **params)

    async def _send(self, method: str, **params: Json) -> Json:
        return await self._until(self.wire.send(method, self.session, **params))

    async def _until(self, answer: asyncio.Future[Json]) -> Json:
        """Await an answer, or the end of the page's process, after which none comes."""
        self.check()
        self.pending = answer
        return await answer
