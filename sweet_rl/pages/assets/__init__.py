"""What pages get in place of the network: Tailwind CSS, pictures of any size, fonts. Nothing else exists.

Tailwind CSS 2.2.19 is the file of its npm package; the fonts are Liberation 2.1.5 and DejaVu Sans 2.37.
Licences lie beside them.
"""

from __future__ import annotations

import functools
import lzma
import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from sweet_rl.pages.pictures import picture

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
_TAILWIND = re.compile(r"tailwind(css)?\b.*\btailwind(\.min)?\.css$")
_DEFAULT_SIZE = (800, 600)


@dataclass(frozen=True, slots=True)
class Asset:
    """A file in place of one on the network. `note` says where it is not quite what was asked for."""

    content_type: str
    body: bytes
    note: str = ""


def asset_for(url: str) -> Asset | None:
    """What the address gives without network; None where that is nothing."""
    try:
        parts = urlsplit(url)
        host = (parts.hostname or "").lower()
    except ValueError:
        return None
    if parts.scheme not in {"http", "https"}:
        return None
    if _TAILWIND.search(parts.path):
        known = "2.2.19" in parts.path
        return Asset("text/css", tailwind(), "" if known else f"Tailwind CSS 2.2.19 in place of {url[:200]}")
    if not any(host == known or host.endswith(f".{known}") for known in _PICTURE_HOSTS):
        return None
    width, height = _size(parts.path, parts.query)
    if not (1 <= width <= MAX_SIDE and 1 <= height <= MAX_SIDE):
        return None
    motif = re.sub(r"\d{2,}[x/]\d{2,}|[/=](?:w|h)?\d{2,}(?=\D*$)", "", parts.path)
    seed = f"{host}{motif}?{re.sub(r'(^|&)(w|h|width|height)=[^&]*', '', parts.query)}"
    return Asset("image/png", picture(width, height, seed))


@functools.cache
def tailwind() -> bytes:
    """Tailwind CSS 2.2.19, minified."""
    return lzma.decompress((Path(__file__).parent / "tailwind-2.2.19.min.css.xz").read_bytes())


def _size(path: str, query: str) -> tuple[int, int]:
    """The width and height that an address of a picture asks for."""
    path = re.sub(r"/(id|seed)/[^/]+", "", path)
    if found := re.search(r"(?<!\d)(\d{1,5})[x/](\d{1,5})(?!\d)", path):
        return int(found[1]), int(found[2])
    if found := re.search(r"/(\d{1,5})(?:\.\w+)?/?$", path) or re.search(r"^/(\d{1,5})\b", path):
        return int(found[1]), int(found[1])
    asked = {
        key: values[0] for key, values in parse_qs(query).items() if re.fullmatch(r"[0-9]{1,5}", values[0])
    }
    width, height = (asked.get(short, asked.get(long)) for short, long in (("w", "width"), ("h", "height")))
    if width or height:
        return int(width or 0) or int(height or 0) * 4 // 3, int(height or 0) or int(width or 0) * 3 // 4
    return _DEFAULT_SIZE
