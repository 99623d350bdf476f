"""A rendered page: the picture, and the position of every box. Independent of any browser."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from sweet_rl.types import Failure, UserContext

Color = tuple[int, int, int]
"""Red, green, blue, each 0 to 255."""


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
        self.failure = failure
        super().__init__(f"{failure.kind}: {failure.detail}")


class Renderer(Protocol):
    """Pages to pictures; one object serves many episodes at once."""

    async def render(self, html: str) -> RenderedPage:
        """Render one page; the same page gives the same bytes."""
        ...

    async def close(self) -> None:
        """End all browsers; nothing is rendered afterwards."""
        ...


@dataclass(frozen=True, slots=True)
class PageContext(UserContext):
    """What a vision user knows when asked for a reply: also the target, and the last draft if any."""

    target: RenderedPage
    draft: RenderedPage | None
