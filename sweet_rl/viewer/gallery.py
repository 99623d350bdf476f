"""Pictures of one dialogue: read where its row names a file, else rendered.

A row may name any file, as published rows do with absolute paths. So what is opened must be a plain file that
is a PNG; everything else is a reason in words why there is no picture.
"""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sweet_rl.pages.types import RenderedPage, Renderer, RenderFailed

MAX_BYTES = 64_000_000
"""A larger file is not shown."""

_HEADER = struct.Struct(">8sI4sII")
_SIGNATURE = b"\x89PNG\r\n\x1a\n"

NOT_TOLD = "The file names no picture."
NOT_THERE = "The picture is not where the row says."
NO_PNG = "The file that the row names is no PNG."
TOO_LARGE = f"The picture is larger than {MAX_BYTES // 1_000_000} MB."
NOT_RENDERED = "The page could not be rendered"


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture of `width` by `height` pixels, in a file or (`data`) just rendered."""

    width: int
    height: int
    path: Path | None = None
    data: bytes | None = None

    def read(self) -> bytes | None:
        """The PNG; None where the file no longer exists."""
        if self.path is None:
            return self.data
        found = _open(self.path)
        return found[0] if isinstance(found, tuple) else None


def find_picture(path: str | None, folder: Path, elsewhere: Path | None = None) -> Picture | str:
    """The picture at `path`, or why there is none.

    Args:
        path: a path as in a row, absolute or relative to `folder`.
        folder: that of the trajectory file.
        elsewhere: a folder in which a file of the same name will do.
    """
    if not path:
        return NOT_TOLD
    found = _measured(folder / path)
    if found == NOT_THERE and elsewhere is not None:
        return _measured(elsewhere / path.replace("\\", "/").rsplit("/", 1)[-1])
    return found


async def render_picture(html: str, renderer: Renderer) -> Picture | str:
    """The picture of a page, or why there is none.

    Raises:
        UsageError, ServiceError: there is no browser.
    """
    try:
        page = await renderer.render(html)
    except RenderFailed as error:
        return f"{NOT_RENDERED}: {error.failure.detail or error.failure.kind}."
    return Picture(page.width, page.height, data=page.image)


class Remembering:
    """A renderer that keeps what it has rendered, for as long as one row is looked at."""

    def __init__(self, renderer: Renderer) -> None:
        self._renderer = renderer
        self._known: dict[str, RenderedPage | RenderFailed] = {}

    async def render(self, html: str) -> RenderedPage:
        """As the renderer itself; a page twice costs nothing."""
        if html not in self._known:
            try:
                self._known[html] = await self._renderer.render(html)
            except RenderFailed as error:
                self._known[html] = error
        known = self._known[html]
        if isinstance(known, RenderFailed):
            raise known
        return known

    async def close(self) -> None:
        """The renderer is its owner's to close."""


def described(picture: Picture | str, name: str, position: int) -> Mapping[str, object]:
    """A picture as the page knows it: by a name that reveals no path."""
    if isinstance(picture, str):
        return {"id": None, "note": picture}
    return {
        "id": f"{position}/{name}",
        "width": picture.width,
        "height": picture.height,
        "rendered": picture.path is None,
    }


def _measured(path: Path) -> Picture | str:
    found = _open(path, header_only=True)
    if isinstance(found, str):
        return found
    _, width, height = found
    return Picture(width, height, path=path)


def _open(path: Path, *, header_only: bool = False) -> tuple[bytes, int, int] | str:
    """The bytes of a PNG with its size in pixels, or why there are none."""
    try:
        with open(path, "rb", opener=_without_waiting) as file:
            about = os.fstat(file.fileno())
            if not stat.S_ISREG(about.st_mode):
                return NO_PNG
            if about.st_size > MAX_BYTES:
                return TOO_LARGE
            data = file.read(_HEADER.size if header_only else MAX_BYTES)
    except (OSError, ValueError):
        return NOT_THERE
    if len(data) < _HEADER.size:
        return NO_PNG
    signature, length, name, width, height = _HEADER.unpack_from(data)
    is_png = signature == _SIGNATURE and (length, name) == (13, b"IHDR") and width and height
    return (data, width, height) if is_png else NO_PNG


def _without_waiting(path: str, flags: int) -> int:
    """A pipe would keep us waiting for its other end."""
    return os.open(path, flags | os.O_NONBLOCK)
