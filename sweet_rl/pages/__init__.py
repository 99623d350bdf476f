"""Pages: found in what an agent writes, rendered by a real browser, without network.

`types` has the nouns and the `Renderer` contract; worlds, users and graders know nothing else of browsers.
`open_renderer` gives the service that keeps the browsers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sweet_rl.pages.settings import RenderSettings
from sweet_rl.pages.types import Box, Color, PageContext, RenderedPage, Renderer, RenderFailed, Viewport

if TYPE_CHECKING:
    from sweet_rl.pages.service import RenderService

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
    from sweet_rl.pages import service  # most who know pages start no browser

    return service.open_renderer(settings)
