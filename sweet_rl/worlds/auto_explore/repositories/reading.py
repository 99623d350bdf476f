"""Reads one file of an untrusted folder, and nothing outside it.

Every name on the way is opened in the folder before it and may not be a link, so that a repository that
changes while it is looked at cannot lead out of itself. Pipes and devices are refused without waiting.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import Final, NamedTuple

FOLDER_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
"""How a folder is opened by its name in the one above."""

_FILE_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY


class Head(NamedTuple):
    """The beginning (or the end) of a file, and whether that is all of it."""

    data: bytes
    whole: bool


def read_head(root: Path, path: str, limit: int) -> Head:
    """The first `limit` bytes of the file at `path` below `root`."""
    with os.fdopen(_open_file(root, path), "rb", buffering=0) as file:
        data = _read(file.fileno(), limit + 1)
    return Head(data[:limit], whole=len(data) <= limit)


def read_tail(root: Path, path: str, limit: int) -> Head:
    """The last `limit` bytes of the file at `path` below `root`."""
    with os.fdopen(_open_file(root, path), "rb", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        start = max(size - limit, 0)
        os.lseek(file.fileno(), start, os.SEEK_SET)
        return Head(_read(file.fileno(), limit), whole=start == 0)


def _open_file(root: Path, path: str) -> int:
    """An open ordinary file; the caller closes it."""
    *above, name = path.split("/")
    folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in above:
            inner = os.open(_plain(part), FOLDER_FLAGS, dir_fd=folder)
            os.close(folder)
            folder = inner
        file = os.open(_plain(name), _FILE_FLAGS, dir_fd=folder)
    finally:
        os.close(folder)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise OSError(errno.EINVAL, "Not an ordinary file")
    return file


def _plain(name: str) -> str:
    if name in {"", ".", ".."}:
        raise OSError(errno.EINVAL, "Not a plain name")
    return name


def _read(file: int, limit: int) -> bytes:
    """Up to `limit` bytes: one call may bring fewer than there are."""
    pieces, missing = list[bytes](), limit
    while missing and (piece := os.read(file, missing)):
        pieces.append(piece)
        missing -= len(piece)
    return b"".join(pieces)
