"""The flags of every command that renders pages, and the service that they ask for."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sweet_rl.errors import UsageError

if TYPE_CHECKING:
    from sweet_rl.pages import RenderSettings
    from sweet_rl.pages.service import RenderService

MAX_SIDE = 8_192
"""Pixels; a larger window is a slip of the keyboard."""


@dataclass(frozen=True, slots=True)
class RenderFlags:
    """How pages are rendered; the fields are flags under the same names.

    Args:
        browser: chromium or firefox.
        network: none or allow.
        allow_scripts: run the scripts of pages.
        viewport: WIDTHxHEIGHT in pixels.
        page_timeout_s: how long one page may take.
        browsers: browsers at once.
        render_cache: a folder, none, or "default": the user's cache.
    """

    browser: str = "chromium"
    network: str = "none"
    allow_scripts: bool = False
    viewport: str = "1366x768"
    page_timeout_s: float = 30.0
    browsers: int = 2
    render_cache: str = "default"

    def settings(self) -> RenderSettings:
        """The settings that the flags stand for.

        Raises:
            UsageError: a flag has a value that it cannot have.
        """
        from sweet_rl.pages import RenderSettings, Viewport

        if self.browser not in {"chromium", "firefox"}:
            raise UsageError(f"--browser must be chromium or firefox, got {self.browser!r}.")
        if self.network not in {"none", "allow"}:
            raise UsageError(f"--network must be none or allow, got {self.network!r}.")
        if self.page_timeout_s <= 0 or self.browsers < 1:
            raise UsageError("--page_timeout_s and --browsers must be positive.")
        found = re.fullmatch(r"(\d{1,5})x(\d{1,5})", self.viewport)
        sides = [int(side) for side in found.groups()] if found else []
        if not sides or not all(1 <= side <= MAX_SIDE for side in sides):
            raise UsageError(
                f"--viewport must be WIDTHxHEIGHT in pixels, such as 1366x768, each at most {MAX_SIDE}; "
                f"got {self.viewport!r}."
            )
        return RenderSettings(
            browser="firefox" if self.browser == "firefox" else "chromium",
            network="allow" if self.network == "allow" else "none",
            allow_scripts=self.allow_scripts,
            viewport=Viewport(*sides),
            page_timeout_s=self.page_timeout_s,
            browsers=self.browsers,
            cache=self._cache(),
        )

    def _cache(self) -> Path | None:
        from sweet_rl.pages.cache import default_folder

        if self.render_cache == "none":
            return None
        if self.render_cache == "default":
            return default_folder()
        folder = Path(self.render_cache).expanduser()
        if folder.exists() and not folder.is_dir():
            raise UsageError(f"--render_cache must be a folder or none; {str(folder)!r} is a file.")
        return folder


def render_settings(
    *,
    browser: str = "chromium",
    network: str = "none",
    allow_scripts: bool = False,
    viewport: str = "1366x768",
    page_timeout_s: float = 30.0,
    browsers: int = 2,
    render_cache: str = "default",
) -> RenderSettings:
    """As `RenderFlags.settings`, from the flags themselves."""
    flags = RenderFlags(browser, network, allow_scripts, viewport, page_timeout_s, browsers, render_cache)
    return flags.settings()


def make_renderer(flags: RenderFlags) -> RenderService:
    """The rendering service; `async with` stops its browsers.

    Raises:
        UsageError: wrong flags, or the browser is not installed.
    """
    from sweet_rl.pages import open_renderer

    return open_renderer(flags.settings())
