"""The viewer as one file: page, rows and pictures together. It opens offline and can be sent by mail."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from sweet_rl.records import replace_file
from sweet_rl.viewer.content import Contents
from sweet_rl.viewer.page import build_page, data_block, embed

_AT_ONCE = 8
"""Rows that are prepared side by side."""

_PIECE = 1 << 20


@dataclass(slots=True)
class Embedded:
    """How many pictures there are, and how many were left out for their size."""

    pictures: int = 0
    left_out: int = 0


def export_html(contents: Contents, out: str | Path, *, picture_bytes: int = 0) -> Embedded:
    """Write the viewer with all rows to `out`, at once or not at all.

    Args:
        contents: what is shown.
        out: the HTML file; its folder is made where missing.
        picture_bytes: room for pictures, as they stand in the file; those that come too late are left out,
            and the page says so.

    Returns:
        How many pictures were kept and left out.

    Raises:
        StorageError: the disk is full or read-only; an older file is as it was.
        UsageError, ServiceError: pages are to be rendered, and there is no browser.
    """
    embedded = Embedded()
    with asyncio.Runner() as runner, tempfile.TemporaryFile("w+") as spool:
        try:
            album = _Album(spool, picture_bytes, embedded)
            replace_file(out, (chunk.encode() for chunk in _chunks(contents, runner, album)))
        finally:
            runner.run(contents.close())
    return embedded


def _chunks(contents: Contents, runner: asyncio.Runner, album: _Album) -> Iterator[str]:
    """One row at a time: prompts and all, a file can be larger than what one would like to hold twice."""
    page = build_page(contents.title, contents.kind, served=False)
    yield page.head
    yield from data_block("index", [contents.index()])
    yield from data_block("rows", _rows(contents, runner, album))
    yield from album.blocks()
    yield page.tail


def _rows(contents: Contents, runner: asyncio.Runner, album: _Album) -> Iterator[dict[str, object]]:
    async def prepare(positions: range) -> None:
        await asyncio.gather(*map(contents.prepare, positions))

    for start in range(0, len(contents), _AT_ONCE):
        positions = range(start, min(start + _AT_ONCE, len(contents)))
        runner.run(prepare(positions))
        for position in positions:
            for name in contents.pictures(position):
                album.add(f"{position}/{name}", contents.picture(position, name))
            yield contents.row(position)


class _Album:
    """Pictures on their way into the file: each is kept once, whatever the number of rows that show it.

    They wait in `spool`, because they come with their rows and stand after them.
    """

    def __init__(self, spool: IO[str], room: int, embedded: Embedded) -> None:
        self._spool, self._room, self._embedded = spool, room, embedded
        self._lines: dict[bytes, int] = {}
        self._no_room: set[bytes] = set()
        self._places: dict[str, int] = {}

    def add(self, name: str, picture: bytes | None) -> None:
        """Keep a picture under a name, if there is room."""
        if picture is None:
            return
        digest = hashlib.sha256(picture).digest()
        if digest in self._no_room:
            return
        if digest not in self._lines:
            url = f"data:image/png;base64,{base64.b64encode(picture).decode()}"
            self._embedded.pictures += 1
            if len(url) > self._room:
                self._embedded.left_out += 1
                self._no_room.add(digest)
                return
            self._room -= len(url)
            self._lines[digest] = len(self._lines)
            self._spool.write(f"\n{embed(url)}")
        self._places[name] = self._lines[digest]

    def blocks(self) -> Iterator[str]:
        """The pictures, one a line, and the lines' numbers by name."""
        yield '<script type="application/json" id="pictures">'
        self._spool.seek(0)
        while piece := self._spool.read(_PIECE):
            yield piece
        yield "</script>\n"
        yield from data_block("picture-lines", [self._places])
