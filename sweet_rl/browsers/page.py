"""Pages: found in an agent's text, the settings they are rendered with, and the result. Independent of any
browser.

Published behaviour: docs/published/sweet_rl.md#frontend-design.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, Protocol

from sweet_rl.chat.formats import user_cache
from sweet_rl.errors import UsageError
from sweet_rl.flags import Settings, flag, group
from sweet_rl.types import Failure, Json, UserContext

Color = tuple[int, int, int]
"""Red, green, blue, each 0 to 255."""

MAX_SIDE: Final = 8_192
"""Pixels; a larger window is a slip of the keyboard."""

PLACEHOLDER = "[SEE RENDERED HTML]"
"""What stands for a page where its picture is shown instead."""

_UNSPLASH = re.compile(r"https://source\.unsplash\.com/random/(\d+)x(\d+)/\?[\w=]+")
_PICSUM = re.compile(r"https://picsum\.photos/(\d+)/(\d+)")
_PICTURE = r"https://picsum.photos/id/48/\1/\2"


@dataclass(frozen=True, slots=True)
class Viewport:
    """The window that a page is laid out for, in CSS pixels; the picture is as high as the page."""

    width: int = 1366
    height: int = 768


@dataclass(frozen=True, slots=True)
class Box:
    """One visible element as the browser laid it out, in document order.

    `x`, `y`, `width`, `height` are CSS pixels from the page's top left corner. `text` is the element's own
    text with white space collapsed (not that of its children). `background` is None where the element
    paints none. `parent` is the index of the nearest ancestor that has a box of its own.
    """

    tag: str
    x: float
    y: float
    width: float
    height: float
    text: str = ""
    color: Color = (0, 0, 0)
    background: Color | None = None
    font_size: float = 16.0
    font_weight: int = 400
    parent: int | None = None


@dataclass(frozen=True, slots=True)
class RenderedPage:
    """The result of rendering a page: `image` is a PNG of the whole page, `width` by `height` pixels.

    `problems` lists what the page tried and was not given ("blocked https://..."), or what was done to it
    ("cut at 16384 pixels").
    """

    image: bytes
    width: int
    height: int
    boxes: tuple[Box, ...] = ()
    problems: tuple[str, ...] = ()


class RenderFailed(Exception):
    """This page gives no picture: "timeout", "crash", "too_large", "empty", "navigation".

    The service itself lives on; only what has to be repaired first (no browser) is a `SweetRLError`.
    """

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure)  # alone: it can be pickled
        self.failure = failure

    def __str__(self) -> str:
        return f"{self.failure.kind}: {self.failure.detail}"


class Renderer(Protocol):
    """Pages to pictures; one object serves many episodes at once."""

    async def render(self, html: str) -> RenderedPage:
        """Render one page; the same page gives the same bytes."""

    async def close(self) -> None:
        """End all browsers; nothing is rendered afterwards."""


@dataclass(frozen=True, slots=True)
class PageContext(UserContext):
    """What a vision user knows when asked for a reply: also the target, and the last draft if any."""

    target: RenderedPage
    draft: RenderedPage | None


@dataclass(frozen=True, slots=True)
class RenderSettings:
    """How pages are rendered. The first four decide about the picture, the others about the service.

    Args:
        browser: chromium or firefox.
        network: none (pages get what the package ships, and nothing else) or allow.
        allow_scripts: run the scripts of pages.
        viewport: the window that pages are laid out for.
        page_timeout_s: how long one page may take.
        browsers: browsers at once.
        cache: folder that keeps pictures; None keeps none.
        max_page_bytes: larger pages are refused.
        max_height: pixels; higher pages are cut there.
        browser_memory_mb: a browser that holds more is replaced.
    """

    browser: Literal["chromium", "firefox"] = "chromium"
    network: Literal["none", "allow"] = "none"
    allow_scripts: bool = False
    viewport: Viewport = field(default_factory=Viewport)
    page_timeout_s: float = 30.0
    browsers: int = 2
    cache: Path | None = None
    max_page_bytes: int = 5_000_000
    max_height: int = 16_384
    browser_memory_mb: int = 2_048


@group("How pages are rendered")
class RenderFlags(Settings):
    browser: Literal["chromium", "firefox"] = flag("chromium", "browser that renders the pages.")
    network: Literal["none", "allow"] = flag(
        "none",
        "none (pages can load only what the package ships), or allow (published behaviour: pictures and grades depend on the network).",
    )
    allow_scripts: bool = flag(False, "run the scripts of pages.", shown="all")
    viewport: str = flag("1366x768", "size of the browser window, WIDTHxHEIGHT in pixels.", shown="all")
    page_timeout_s: float = flag(30.0, "time limit for rendering one page, in seconds.", above=0, shown="all")
    browsers: int = flag(2, "browsers at once.", at_least=1)
    render_cache: str = flag(
        "default",
        "folder that caches rendered pages for later runs; default: in the user's cache; none: no cache.",
        shown="all",
    )

    def check_together(self) -> None:
        """Check the window and the cache."""
        self.rendering()

    def rendering(self) -> RenderSettings:
        """The settings that the flags give."""
        found = re.fullmatch(r"(\d{1,5})x(\d{1,5})", self.viewport)
        sides = [int(side) for side in found.groups()] if found else []
        if not sides or not all(1 <= side <= MAX_SIDE for side in sides):
            raise UsageError(
                f"--viewport must be WIDTHxHEIGHT in pixels, such as 1366x768, each at most {MAX_SIDE}; "
                f"got {self.viewport!r}."
            )
        cache = (
            user_cache() / "pages" if self.render_cache == "default" else Path(self.render_cache).expanduser()
        )
        if self.render_cache not in {"none", "default"} and cache.exists() and not cache.is_dir():
            raise UsageError(f"--render_cache must be a folder or none; {str(cache)!r} is a file.")
        return RenderSettings(
            browser=self.browser,
            network=self.network,
            allow_scripts=self.allow_scripts,
            viewport=Viewport(*sides),
            page_timeout_s=self.page_timeout_s,
            browsers=self.browsers,
            cache=None if self.render_cache == "none" else cache,
        )

    def rendered_with(self) -> dict[str, Json]:
        """What decides about a picture besides its page, as rows and reports keep it."""
        window = self.rendering().viewport
        return {
            "browser": self.browser,
            "network": self.network,
            "allow_scripts": self.allow_scripts,
            "viewport": f"{window.width}x{window.height}",
        }


def normalise_urls(text: str) -> str:
    """Give every picture whose content is random the fixed picture 48 of the same size.

    Two shapes of address are known, as published; other addresses stay (`replace_urls`).
    """
    return _PICSUM.sub(_PICTURE, _UNSPLASH.sub(_PICTURE, text))


def extract_html(text: str) -> tuple[str, str | None]:
    """The first page in a text, its addresses normalised, and the text with a placeholder in its place.

    A page is the first `<html…>…</html>`, else the first `<body…>…</body>`. As published, tags are found in
    lower case only, and every occurrence of that same page is replaced.

    Returns:
        The text, and the page or None where there is none.
    """
    text = normalise_urls(text)
    for tag in ("html", "body"):
        # What the pattern `<html.*?>.*?</html>` finds, in one pass also over a text of a million half tags.
        start = text.find(f"<{tag}")
        opened = text.find(">", start) if start >= 0 else -1
        end = text.find(f"</{tag}>", opened) if opened >= 0 else -1
        if end >= 0:
            page = text[start : end + len(f"</{tag}>")]
            return text.replace(page, PLACEHOLDER), page
    return text, None
