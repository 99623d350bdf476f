"""The viewer as files that open offline: one page with everything in it, or one with its rows beside it."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import itertools
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from sweet_rl.errors import StorageError
from sweet_rl.records import replace_file
from sweet_rl.types import Json
from sweet_rl.viewer.design import DesignContents
from sweet_rl.viewer.library import Library, Shown
from sweet_rl.viewer.page import build_page, data_block, embed
from sweet_rl.viewer.rows import LAYOUTS, TRAJECTORIES

ONE_FILE_BYTES = 50_000_000
"""What is larger becomes a folder: no browser likes a page of that size."""

_AT_ONCE = 8
"""Rows that are prepared side by side."""

_IN_A_FILE = 50
"""Rows in each script of a folder: read together when one of them is looked at."""


@dataclass(slots=True)
class Exported:
    """What was written, how many rows there are, and of the pictures how many, and how many were left out."""

    path: Path
    rows: int = 0
    pictures: int = 0
    left_out: int = 0


def export(library: Library, out: str | Path, *, picture_bytes: int = 0, one_file: bool = False) -> Exported:
    """Write the viewer with all files to a page, or, where they are large and `one_file` is not asked for, to a folder.

    A folder is called as the page without its suffix. `picture_bytes` is the room for pictures in one file: those that come
    too late are left out, and the page says so. A folder holds all. The library is closed at the end.
    """
    with asyncio.Runner() as runner:
        try:
            for one in library.files:
                one.bring_up()
            folder = None if one_file else folder_of(library, Path(out))
            if folder is not None:
                return _folder(library, folder, runner)
            exported = Exported(Path(out))
            with tempfile.TemporaryFile("w+") as spool:
                album = _Album(spool, picture_bytes, exported)
                chunks = _chunks(library, runner, album, exported)
                replace_file(exported.path, (chunk.encode() for chunk in chunks))
            return exported
        finally:
            runner.run(library.close())


def folder_of(library: Library, out: str | Path) -> Path | None:
    """The folder that `export` would write instead of the one file; None where it would not."""
    size = sum(one.path.stat().st_size for one in library.files)
    return Path(out).with_suffix("") if size > ONE_FILE_BYTES else None


def _chunks(library: Library, runner: asyncio.Runner, album: _Album, exported: Exported) -> Iterator[str]:
    """One row at a time: prompts and all, a file can be larger than what one would like to hold twice."""

    def counted(shown: Shown) -> Iterator[Json]:
        for position, row in _rows(shown, runner):
            exported.rows += 1
            for name, picture in _pictures(shown, position):
                album.add(f"{shown.number}/{position}/{name}", picture)
            yield row

    page = build_page(library.title, served=False)
    yield page.head
    yield from _listings(library)
    for shown in library.files:
        if shown.kind in LAYOUTS:
            yield from data_block(f"rows-{shown.number}", counted(shown))
    yield from album.blocks()
    yield page.tail


def _listings(library: Library) -> Iterator[str]:
    """What of the files stands in the page itself, whatever becomes of their rows."""
    files = library.listing()
    yield from data_block("files", [{"title": library.title, "about": library.about, "files": files}])
    for shown in library.files:
        if shown.kind in TRAJECTORIES:
            yield from data_block(f"result-{shown.number}", [shown.result() | {"page": False}])
        if shown.kind in LAYOUTS:
            yield f'<script type="application/json" id="index-{shown.number}">'
            yield shown.listing().replace("<", "\\u003c")
            yield "</script>\n"
        elif shown.kind != "credit":
            yield from data_block(f"document-{shown.number}", [shown.document()])


def _rows(shown: Shown, runner: asyncio.Runner) -> Iterator[tuple[int, dict[str, Json]]]:
    """Every row of a file with its position, prepared."""
    if shown.kind not in LAYOUTS or shown.index is None:
        return

    async def prepare(pictures: DesignContents, positions: range) -> None:
        await asyncio.gather(*map(pictures.prepare, positions))

    for start in range(0, count := len(shown.index), _AT_ONCE):
        positions = range(start, min(start + _AT_ONCE, count))
        if shown.pictures is not None:
            runner.run(prepare(shown.pictures, positions))
        yield from ((position, shown.row(position)) for position in positions)


def _pictures(shown: Shown, position: int) -> Iterator[tuple[str, bytes]]:
    """The pictures of a prepared row by their names."""
    if shown.pictures is not None:
        for name in shown.pictures.pictures(position):
            if (picture := shown.pictures.picture(position, name)) is not None:
                yield name, picture


def _folder(library: Library, out: Path, runner: asyncio.Runner) -> Exported:
    """A page with scripts of rows and pictures beside it, made elsewhere and put in its place at once or not at all."""
    exported, pictures, made = Exported(out / "index.html"), list[str](), Path()
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(dir=out.parent, prefix=f".{out.name}."))
        for name in ("rows", "pictures"):
            (made / name).mkdir()
        for shown in library.files:
            rows = _rows(shown, runner)
            for part in itertools.count():
                chunk = list(itertools.islice(rows, _IN_A_FILE))
                if not chunk:
                    break
                place = f"{shown.number}-{part}"
                with (made / "rows" / f"{place}.js").open("w", encoding="ascii") as file:
                    file.write(f'Source.arrived("{place}", [\n')
                    file.writelines(f"{embed(embed(row))},\n" for _, row in chunk)
                    file.write("]);\n")
                exported.rows += len(chunk)
                for position, _ in chunk:
                    for name, picture in _pictures(shown, position):
                        (made / "pictures" / f"{shown.number}-{position}-{name}.png").write_bytes(picture)
                        pictures.append(f"{shown.number}/{position}/{name}")
        exported.pictures = len(pictures)
        page = build_page(library.title, served=False, folder=True)
        facts = data_block("folder", [{"rows": _IN_A_FILE, "pictures": pictures}])
        text = "".join([page.head, *facts, *_listings(library), page.tail])
        (made / "index.html").write_text(text, encoding="utf-8")
        made.chmod(0o755)
        if out.exists():
            shutil.rmtree(out)
        made.rename(out)
    except OSError as error:
        raise StorageError(f"Cannot write {str(out)!r}: {error.strerror}.") from error
    finally:
        if made != Path():
            with contextlib.suppress(OSError):
                shutil.rmtree(made)
    return exported


class _Album:
    """Pictures on their way into the file: each is kept once, whatever the number of rows that show it.

    They wait in `spool`, because they come with their rows and stand after them.
    """

    def __init__(self, spool: IO[str], room: int, exported: Exported) -> None:
        self._spool, self._room, self._exported = spool, room, exported
        self._lines: dict[bytes, int] = {}
        self._no_room: set[bytes] = set()
        self._places: dict[str, int] = {}

    def add(self, name: str, picture: bytes) -> None:
        """Keep a picture under a name, if there is room."""
        digest = hashlib.sha256(picture).digest()
        if digest in self._no_room:
            return
        if digest not in self._lines:
            url = f"data:image/png;base64,{base64.b64encode(picture).decode()}"
            self._exported.pictures += 1
            if len(url) > self._room:
                self._exported.left_out += 1
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
        while piece := self._spool.read(1 << 20):
            yield piece
        yield "</script>\n"
        yield from data_block("picture-lines", [self._places])
