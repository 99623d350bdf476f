"""Placeholder pictures: any size, a few shapes on a sky, the same bytes everywhere.

Drawn and packed here rather than by a library, so that no version of a library decides about pixels.
"""

from __future__ import annotations

import functools
import struct
import zlib
from random import Random

Color = tuple[int, int, int]


@functools.lru_cache(maxsize=256)
def picture(width: int, height: int, seed: str) -> bytes:
    """A PNG of `width` by `height` pixels. One seed gives one motif, whatever the size."""
    rng = Random(seed)
    sky, horizon, ground = (_color(rng) for _ in range(3))
    hills = rng.uniform(0.55, 0.85)
    discs = [_disc(rng) for _ in range(6)]
    shorter = min(width, height)
    rows = []
    for y in range(height):
        at = y / height
        row = bytearray(bytes(ground if at > hills else _mix(sky, horizon, at / hills)) * width)
        for x_center, y_center, radius, color in discs:
            reach = (radius * shorter) ** 2 - (y - y_center * height) ** 2
            if reach > 0:
                left = max(0, int(x_center * width - reach**0.5))
                right = min(width, int(x_center * width + reach**0.5))
                row[3 * left : 3 * right] = bytes(color) * max(0, right - left)
        rows.append(b"\0" + bytes(row))
    return _png(width, height, b"".join(rows))


def _color(rng: Random) -> Color:
    return rng.randrange(40, 230), rng.randrange(40, 230), rng.randrange(40, 230)


def _disc(rng: Random) -> tuple[float, float, float, Color]:
    return rng.random(), rng.random(), rng.uniform(0.05, 0.25), _color(rng)


def _mix(first: Color, second: Color, share: float) -> Color:
    red, green, blue = (round(a + (b - a) * share) for a, b in zip(first, second, strict=True))
    return red, green, blue


def _png(width: int, height: int, rows: bytes) -> bytes:
    chunks = [
        (b"IHDR", struct.pack(">2I5B", width, height, 8, 2, 0, 0, 0)),  # 8 bits, RGB
        (b"IDAT", zlib.compress(rows, 1)),
        (b"IEND", b""),
    ]
    packed = (
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(packed)
