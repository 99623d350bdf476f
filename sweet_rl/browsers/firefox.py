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

from sweet_rl.browsers import browser as common
from sweet_rl.browsers.assets import FONTS
from sweet_rl.browsers.browser import Browser, BrowserGone, CommandFailed
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
        wire, settings = self.wire, self.settings
        request, url = params["request"]["request"], params["request"]["url"]
        tab = self._tabs.get(params["context"] or "")
        main = tab is not None and params.get("navigation") is not None
        if tab is not None and main and not tab.served and url == common.PAGE_URL:
            tab.served = True
            self._provide(request, common.page_headers(settings), tab.html.encode())
            return
        own = url.startswith(("data:", "blob:", "about:", "resource:", "chrome:"))  # nothing that is fetched
        if (own or settings.network == "allow") and not main:
            wire.send("network.continueRequest", request=request)
            return
        owner = tab  # of a frame: its page, if only one page is on its way
        if tab is None and len(self._tabs) == 1:
            (owner,) = self._tabs.values()
        problems = owner.problems if owner is not None else common.Problems()
        if main:
            problems.add(f"blocked navigation to {url}")
        page = tab.html if tab is not None and not settings.allow_scripts else None
        asset = None if main else common.find_asset(url, page, problems)
        if asset is None and params.get("navigation") is not None:  # "no content": what is shown stays
            wire.send("network.provideResponse", request=request, statusCode=204, reasonPhrase="No Content")
        elif asset is None:
            wire.send("network.failRequest", request=request)
        else:
            self._provide(request, common.asset_headers(asset), asset.body)

    def _provide(self, request: str, headers: dict[str, str], body: bytes) -> None:
        self.wire.send(
            "network.provideResponse",
            request=request,
            statusCode=200,
            reasonPhrase="OK",
            headers=[
                {"name": name, "value": {"type": "string", "value": value}} for name, value in headers.items()
            ],
            body={"type": "base64", "value": base64.b64encode(body).decode()},
        )


class _Tab:
    """One page on its way."""

    def __init__(self, browser: Firefox, html: str) -> None:
        self.wire, self.settings = browser.wire, browser.settings
        self.html, self.script = html, browser.script
        self.problems = common.Problems()
        self.context = ""
        self.served = self.destroyed = False

    async def render(self, context: str) -> RenderedPage:
        """From an empty tab to the picture."""
        self.context = context
        window = self.settings.viewport
        size = {"width": window.width, "height": window.height}
        await self.wire.send(
            "browsingContext.setViewport", context=context, viewport=size, devicePixelRatio=1.0
        )
        await self.wire.send(
            "browsingContext.navigate", context=context, url=common.PAGE_URL, wait="complete"
        )
        measured, height = common.parse_measured(
            await self._evaluate(self.script), self.settings, self.problems
        )
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
        return common.rendered(shot.get("data", ""), measured, self.problems)

    async def _evaluate(self, expression: str) -> Json:
        found = await self.wire.send(
            "script.evaluate",
            expression=expression,
            target={"context": self.context, "sandbox": "sweet_rl"},
            awaitPromise=True,
        )
        return found.get("result", {}).get("value")
