"""Pages, rendered by a real browser without network. Others know nothing else of browsers."""

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
