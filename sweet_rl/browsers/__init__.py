"""Web pages in a real browser without network: HTML in, a picture and the boxes of its elements out.

Begin with `service.py` (a pool of browsers, a cache of what they drew), then `page.py` (what is asked, what comes back).
`chromium.py` and `firefox.py` start one browser each, `assets.py` is what pages may load. The rest of the library
imports only this package.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sweet_rl.browsers.page import (
    Box,
    Color,
    PageContext,
    RenderedPage,
    Renderer,
    RenderFailed,
    RenderSettings,
    Viewport,
)

if TYPE_CHECKING:
    from sweet_rl.browsers.service import RenderService

__all__ = [
    "Box",
    "Color",
    "PageContext",
    "RenderFailed",
    "RenderSettings",
    "RenderedPage",
    "Renderer",
    "Viewport",
    "open_renderer",
]


def open_renderer(settings: RenderSettings | None = None) -> RenderService:
    """The rendering service; `async with` stops its browsers."""
    from sweet_rl.browsers import service  # most who know pages start no browser

    return service.RenderService.of(settings or RenderSettings())
