"""Firefox over WebDriver BiDi, without geckodriver: the same contract, walls and limits as `chromium`."""

from __future__ import annotations

import asyncio
import base64
import json
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from sweet_rl.browsers.assets import FONTS
from sweet_rl.browsers.browser import PAGE_URL, Browser, BrowserGone, CommandFailed, Page
from sweet_rl.browsers.page import RenderedPage, RenderFailed, RenderSettings
from sweet_rl.types import Failure, Json

_RELAY = Path(__file__).parent / "firefox_relay.py"


class Firefox(Browser):
    """One running Firefox, driven over WebDriver BiDi."""

    names = ("firefox-esr", "firefox")
    install = "apt-get install firefox-esr"
    start_s = 90.0
    environment: ClassVar = {
        "MOZ_HEADLESS": "1",
        "MOZ_CRASHREPORTER_DISABLE": "1",
        "MOZ_DATA_REPORTING": "0",
        "MOZ_REMOTE_SETTINGS_DEVTOOLS": "1",
    }

    def __init__(self, process: subprocess.Popen[bytes], home: Path, settings: RenderSettings) -> None:
        super().__init__(process, home, settings)
        self._tabs: dict[str, _Tab] = {}

    @classmethod
    def command(cls, program: str, home: Path, settings: RenderSettings) -> Sequence[str]:
        """See `Browser`."""
        profile = home / "profile"
        profile.mkdir()
        known = tomllib.loads((FONTS.parent / "firefox.toml").read_text())
        fonts = {"security.sandbox.content.read_path_whitelist": f"{FONTS}/"}
        wanted = known["always"] | fonts | (known["no_network"] if settings.network == "none" else {})
        lines = [f"user_pref({json.dumps(name)}, {json.dumps(value)});\n" for name, value in wanted.items()]
        (profile / "user.js").write_text("".join(lines))
        window = [f"--width={settings.viewport.width}", f"--height={settings.viewport.height}"]
        browser = [program, "--headless", "--no-remote", *window, "--profile", str(profile)]
        return [sys.executable, str(_RELAY), *browser, "--remote-debugging-port", "0"]

    async def begin(self) -> None:
        """Open the session, and have every request come to us first."""
        wire = self.wire
        wire.handlers[""] = self._on_event
        await wire.send("session.new", capabilities={})
        await wire.send(
            "session.subscribe", events=["network.beforeRequestSent", "browsingContext.contextDestroyed"]
        )
        await wire.send("network.addIntercept", phases=["beforeRequestSent"])

    async def render(self, html: str) -> RenderedPage:
        """Render one page in a user context of its own; raises what the contract names."""
        wire = self.wire
        user = (await wire.send("browser.createUserContext"))["userContext"]
        tab = _Tab(self, html)
        try:
            async with asyncio.timeout(self.settings.page_timeout_s):
                opened = await wire.send("browsingContext.create", type="tab", userContext=user)
                self._tabs[opened["context"]] = tab
                try:
                    return await tab.render(opened["context"])
                except CommandFailed as error:
                    kind = BrowserGone if tab.destroyed else RenderFailed
                    raise kind(Failure("navigation", str(error)[:300])) from error
        except TimeoutError:
            await self.end_page("browser.removeUserContext", userContext=user)
            raise
        finally:
            self._tabs.pop(tab.context, None)
            wire.send("browser.removeUserContext", userContext=user)

    def _on_event(self, method: str, params: Json) -> None:
        if method == "network.beforeRequestSent":
            self._answer(params)
        elif method == "browsingContext.contextDestroyed" and params["context"] in self._tabs:
            self._tabs[params["context"]].destroyed = True

    def _answer(self, params: Json) -> None:
        """One request: a page itself, an asset, or nothing."""
        if not params["isBlocked"]:
            return
        request, url = params["request"]["request"], params["request"]["url"]
        tab = self._tabs.get(params["context"] or "")
        document = params.get("navigation") is not None
        main = tab is not None and document
        own = url.startswith(("data:", "blob:", "about:", "resource:", "chrome:"))  # nothing that is fetched
        if (own or self.settings.network == "allow") and not main:
            self.wire.send("network.continueRequest", request=request)
            return
        if tab is None:  # of a frame: of its page, if only one page is on its way
            tab = next(iter(self._tabs.values())) if len(self._tabs) == 1 else _Tab(self, "")
        response = tab.respond(url, main=main, document=document)
        if response is None:
            self.wire.send("network.failRequest", request=request)
            return
        content: dict[str, Json] = {"statusCode": response.status, "reasonPhrase": "No Content"}
        if response.status == 200:
            headers = response.headers.items()
            content = {
                "statusCode": 200,
                "reasonPhrase": "OK",
                "headers": [
                    {"name": name, "value": {"type": "string", "value": value}} for name, value in headers
                ],
                "body": {"type": "base64", "value": base64.b64encode(response.body).decode()},
            }
        self.wire.send("network.provideResponse", request=request, **content)


class _Tab(Page):
    """One page in its tab."""

    def __init__(self, browser: Firefox, html: str) -> None:
        super().__init__(browser.settings, html)
        self.wire, self.script = browser.wire, browser.script
        self.context, self.destroyed = "", False

    async def render(self, context: str) -> RenderedPage:
        """From an empty tab to the picture."""
        self.context = context
        window = self.settings.viewport
        size = {"width": window.width, "height": window.height}
        await self.wire.send(
            "browsingContext.setViewport", context=context, viewport=size, devicePixelRatio=1.0
        )
        await self.wire.send("browsingContext.navigate", context=context, url=PAGE_URL, wait="complete")
        height = self.measured(await self._evaluate(self.script))
        higher = height > window.height
        if higher:  # where `html` is lower than `body`, Firefox would leave out the rest
            style = f"document.documentElement.style.setProperty('min-height', '{height}px', 'important')"
            await self._evaluate(style)
        shot = await self.wire.send(
            "browsingContext.captureScreenshot",
            context=context,
            origin="document" if higher else "viewport",
            clip={"type": "box", "x": 0, "y": 0, "width": window.width, "height": height},
        )
        return self.drawn(shot.get("data", ""))

    async def _evaluate(self, expression: str) -> Json:
        found = await self.wire.send(
            "script.evaluate",
            expression=expression,
            target={"context": self.context, "sandbox": "sweet_rl"},
            awaitPromise=True,
        )
        return found.get("result", {}).get("value")
