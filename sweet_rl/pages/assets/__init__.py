"""Local replacements for the network of a page: Tailwind CSS, pictures of any size, fonts. Nothing else.

Tailwind CSS 2.2.19 is the file of its npm package; the fonts are Liberation 2.1.5 and DejaVu Sans 2.37.
Licences lie beside them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from sweet_rl.pages.assets import tailwind
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
        url: the address.
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
