"""Pictures scaled for comparison, kept on disk: a picture that was looked at once is not decoded again.

One file for each picture, under the digest of its bytes and of what decides about scaling: the scaled pixels,
deflated, a tenth of the picture's size. Any of them may be deleted at any time.
"""

from __future__ import annotations

import hashlib
import zlib
from pathlib import Path

import numpy as np
import PIL
from PIL import Image

from sweet_rl.grading.pages.pictures import MAX_HEIGHT, WIDTH, Pixels, Scaled, decode, pixels_of, scale
from sweet_rl.records import replace_file

_WAY = f"box {WIDTH} {MAX_HEIGHT} Pillow {PIL.__version__}\0".encode()
"""What decides about the scaled pixels, besides the picture; change the word where `scale` changes."""

_ROW = WIDTH * 3
"""Bytes of a row."""


class Looks:
    """Scaled pictures, made or read.

    Args:
        render_cache: folder that keeps rendered pages; gets a folder `looks`. None: nothing is kept.
    """

    def __init__(self, render_cache: Path | None = None) -> None:
        self._folder = None if render_cache is None else render_cache.expanduser() / "looks"

    def of(self, picture: bytes, decoded: Image.Image | None = None) -> Pixels:
        """The scaled pixels of a picture file.

        Args:
            picture: its bytes.
            decoded: the same picture, where the caller needed it decoded.

        Raises:
            BrokenPicture: it cannot be decoded.
            StorageError: the disk is full or read-only.
        """
        path = self._path(picture)
        scaled = None if path is None else _read(path)
        if scaled is None:
            scaled = scale(decode(picture) if decoded is None else decoded)
            if path is not None:
                replace_file(path, [zlib.compress(scaled.tobytes(), 1)])
        return pixels_of(scaled)

    def _path(self, picture: bytes) -> Path | None:
        if self._folder is None:
            return None
        digest = hashlib.sha256(_WAY)
        digest.update(picture)
        name = digest.hexdigest()[:32]
        return self._folder / name[:2] / f"{name}.zz"


def _read(path: Path) -> Scaled | None:
    """The pixels of a file; None where there is none, or where it is damaged (zlib has a check sum)."""
    try:
        unpacking = zlib.decompressobj()
        data = unpacking.decompress(path.read_bytes(), MAX_HEIGHT * _ROW)
    except (OSError, zlib.error):
        return None
    if not unpacking.eof or not data or len(data) % _ROW:
        return None
    return np.frombuffer(data, np.uint8).reshape(-1, WIDTH, 3)
