"""Settings of a rendering service."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from sweet_rl.pages.types import Viewport


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
        pages_per_browser: a browser is replaced after so many pages.
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
    pages_per_browser: int = 500
    cache: Path | None = None
    max_page_bytes: int = 5_000_000
    max_height: int = 16_384
    browser_memory_mb: int = 2_048
