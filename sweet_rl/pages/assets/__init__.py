"""Local replacements for the network of a page: Tailwind CSS, pictures of any size, fonts. Nothing else.

Tailwind CSS 2.2.19 is the file of its npm package; the fonts are Liberation 2.1.5 and DejaVu Sans 2.37.
Licences lie beside them.

Placeholder pictures are drawn and packed here rather than by a library, so that no version of a library decides about pixels.
"""

from __future__ import annotations

import functools
import re
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path
from random import Random
from urllib.parse import parse_qs, urlsplit

from sweet_rl.pages.assets import tailwind

Color = tuple[int, int, int]


@functools.lru_cache(maxsize=256)
def picture(width: int, height: int, seed: str) -> bytes:
    """A PNG of `width` by `height` pixels. One seed gives one motif, whatever the size."""
    rng = Random(seed)
    sky, horizon, ground = (_color(rng) for _ in range(3))
    hills = rng.uniform(0.55, 0.85)
    discs = [(rng.random(), rng.random(), rng.uniform(0.05, 0.25), _color(rng)) for _ in range(6)]
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


VERSION = "1"
"""Part of every cache key: to be raised when anything here, or how it is drawn, changes a picture."""

FONTS = Path(__file__).parent / "fonts"

MAX_SIDE = 5_000
"""Pixels; what asks for a larger picture gets none, as from the real servers."""

_PICTURE_HOSTS = frozenset(
    {
        "picsum.photos", "unsplash.com", "placeholder.com", "placehold.it", "placehold.co", "placekitten.com",
        "dummyimage.com", "loremflickr.com", "placeimg.com", "placebear.com", "fakeimg.pl", "pravatar.cc",
    }
)  # fmt: skip
_TAILWIND = re.compile(r"(?>.*?tailwind(?:css)?\b).*\btailwind(?:\.min)?\.css$")
_DEFAULT_SIZE = (800, 600)


@dataclass(frozen=True, slots=True)
class Asset:
    """A local file in place of one on the network. `note` says how it differs from the requested one."""

    content_type: str
    body: bytes
    note: str = ""


def asset_for(url: str, page: str | None = None) -> Asset | None:
    """What the address gives without network; None where that is nothing.

    Args:
        page: the page that asks, if its scripts do not run: it gets no more of Tailwind than it can use.
    """
    try:
        parts = urlsplit(url)
        host = (parts.hostname or "").lower()
    except ValueError:
        return None
    if parts.scheme not in {"http", "https"}:
        return None
    if _TAILWIND.match(parts.path):
        known = "2.2.19" in parts.path
        body = tailwind.whole() if page is None else tailwind.for_page(page)
        return Asset("text/css", body, "" if known else f"Tailwind CSS 2.2.19 in place of {url[:200]}")
    if not any(host == known or host.endswith(f".{known}") for known in _PICTURE_HOSTS):
        return None
    width, height, motif = _wanted(parts.path, parts.query)
    if not (1 <= width <= MAX_SIDE and 1 <= height <= MAX_SIDE):
        return None
    return Asset("image/png", picture(width, height, f"{host} {motif}"))


def _wanted(path: str, query: str) -> tuple[int, int, str]:
    """The width and height that an address of a picture asks for, and what it says beside them."""
    name = "".join(re.findall(r"/(?:id|seed)/[^/]+", path))
    path = re.sub(r"/(?:id|seed)/[^/]+", "", path)
    asked = {key: values[0] for key, values in parse_qs(query).items()}
    numbers = {key: int(value) for key, value in asked.items() if re.fullmatch(r"[0-9]{1,5}", value)}
    width, height = (
        numbers.get(short, numbers.get(long)) for short, long in (("w", "width"), ("h", "height"))
    )
    rest = {key: asked[key] for key in sorted(asked) if key not in {"w", "h", "width", "height"}}
    if found := re.search(r"(?<![0-9])([0-9]{1,5})[x/]([0-9]{1,5})(?![0-9])", path):
        width, height = int(found[1]), int(found[2])
    elif found := re.search(r"/([0-9]{1,5})(?=[./]|$)", path):
        width = height = int(found[1])
    if found:
        path = path[: found.start()] + path[found.end() :]
    if width is None and height is None:
        width, height = _DEFAULT_SIZE
    width = (height or 0) * 4 // 3 if width is None else width
    return width, width * 3 // 4 if height is None else height, f"{name}{path}{rest or ''}"
