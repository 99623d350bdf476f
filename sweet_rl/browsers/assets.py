"""What pages get in place of the network: Tailwind CSS, pictures of any size, fonts. Nothing else.

Tailwind CSS 2.2.19 is the file of its npm package; the fonts are Liberation 2.1.5 and DejaVu Sans 2.37
(licences beside them). Placeholder pictures are drawn and packed here, so that no version of a library
decides about pixels.
"""

from __future__ import annotations

import functools
import html
import itertools
import lzma
import re
import struct
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import NamedTuple
from urllib.parse import parse_qs, urlsplit

from sweet_rl.browsers.page import Color

VERSION = "1"
"""Part of every cache key: to be raised when anything here, or how it is drawn, changes a picture."""

_STATIC = Path(__file__).parent / "static"
FONTS = _STATIC / "fonts"

MAX_SIDE = 5_000
"""Pixels; what asks for a larger picture gets none, as from the real servers."""

_PICTURE_HOSTS = (
    "picsum.photos", "unsplash.com", "placeholder.com", "placehold.it", "placehold.co", "placekitten.com",
    "dummyimage.com", "loremflickr.com", "placeimg.com", "placebear.com", "fakeimg.pl", "pravatar.cc",
)  # fmt: skip
_TAILWIND = re.compile(r"(?>.*?tailwind(?:css)?\b).*\btailwind(?:\.min)?\.css$")
_CLASS = re.compile(r"\.((?:\\.|[\w-])+)")
_WORDS = re.compile(r"[^\s\"'<>=`]+")


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
        body = tailwind() if page is None else tailwind_for(page)
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
    width = numbers.get("w", numbers.get("width"))
    height = numbers.get("h", numbers.get("height"))
    rest = {key: asked[key] for key in sorted(asked) if key not in {"w", "h", "width", "height"}}
    if found := re.search(r"(?<![0-9])([0-9]{1,5})[x/]([0-9]{1,5})(?![0-9])", path):
        width, height = int(found[1]), int(found[2])
    elif found := re.search(r"/([0-9]{1,5})(?=[./]|$)", path):
        width = height = int(found[1])
    if found:
        path = path[: found.start()] + path[found.end() :]
    if width is None and height is None:
        width, height = 800, 600
    width = (height or 0) * 4 // 3 if width is None else width
    return width, width * 3 // 4 if height is None else height, f"{name}{path}{rest or ''}"


@functools.lru_cache(maxsize=256)
def picture(width: int, height: int, seed: str) -> bytes:
    """A PNG of `width` by `height` pixels. One seed gives one motif, whatever the size."""
    rng = Random(seed)

    def color() -> Color:
        return rng.randrange(40, 230), rng.randrange(40, 230), rng.randrange(40, 230)

    sky, horizon, ground = color(), color(), color()
    hills = rng.uniform(0.55, 0.85)
    discs = [(rng.random(), rng.random(), rng.uniform(0.05, 0.25), color()) for _ in range(6)]
    rows = []
    for y in range(height):
        at = y / height
        share = at / hills
        above = (round(a + (b - a) * share) for a, b in zip(sky, horizon, strict=True))
        row = bytearray(bytes(ground if at > hills else above) * width)
        for x_center, y_center, radius, fill in discs:
            reach = (radius * min(width, height)) ** 2 - (y - y_center * height) ** 2
            if reach > 0:
                left = max(0, int(x_center * width - reach**0.5))
                right = min(width, int(x_center * width + reach**0.5))
                row[3 * left : 3 * right] = bytes(fill) * max(0, right - left)
        rows.append(b"\0" + bytes(row))
    chunks = (
        (b"IHDR", struct.pack(">2I5B", width, height, 8, 2, 0, 0, 0)),  # 8 bits, RGB
        (b"IDAT", zlib.compress(b"".join(rows), 1)),
        (b"IEND", b""),
    )
    packed = (
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(packed)


@functools.cache
def tailwind() -> bytes:
    """The style sheet as its package has it."""
    return lzma.decompress((_STATIC / "tailwind-2.2.19.min.css.xz").read_bytes())


def tailwind_for(page: str) -> bytes:
    """The rules of Tailwind that can match something in a page whose scripts do not run.

    The file has 2.9 MB, and a browser spends most of a page's time on reading it. A rule whose selectors
    all ask for classes that occur nowhere in a page cannot match anything there, so that page is given the
    others: a hundredth of the file, and the same picture.
    """
    text = page.lower()  # pages without a doctype match classes in any case
    if "srcdoc" in text or "data:text" in text or "data:image/svg" in text:
        return tailwind()  # pages within pages, in writings of their own
    words = set(_WORDS.findall(text)) | set(_WORDS.findall(html.unescape(text)))
    always, by_class = _index()
    asked_for = (rule for word in words & by_class.keys() for rule in by_class[word])
    found = (rule for rule in asked_for if any(classes <= words for classes in rule.alternatives))
    return join_rules(sorted({*always, *found}))


class Rule(NamedTuple):
    """A rule: its enclosing `@media`, outermost first, and the classes of each selector. In the order of the file."""

    place: int
    text: str
    conditions: tuple[str, ...]
    alternatives: tuple[frozenset[str], ...]


@functools.cache
def _index() -> tuple[list[Rule], dict[str, list[Rule]]]:
    """Rules that need no class, and the others under each class that they mention."""
    always: list[Rule] = []
    by_class: dict[str, list[Rule]] = {}
    for rule in read_rules(tailwind().decode()):
        if rule.text.startswith("@") or not all(rule.alternatives):
            always.append(rule)
            continue
        for name in frozenset[str]().union(*rule.alternatives):
            by_class.setdefault(name, []).append(rule)
    return always, by_class


def read_rules(css: str) -> list[Rule]:
    """Every rule of a minified file, in order."""

    def classes(selector: str) -> frozenset[str]:
        selector = re.sub(r":not\([^)]*\)", "", selector)
        return frozenset(re.sub(r"\\(.)", r"\1", name).lower() for name in _CLASS.findall(selector))

    found: list[Rule] = []
    conditions: list[str] = []
    selectors, depth, start, body = "", 0, 0, 0
    css = re.sub(r"/\*.*?(?:\*/|\Z)", "", css, flags=re.DOTALL)
    for brace in re.finditer(r"[{}]", css):
        piece = css[start : brace.start()]
        start = brace.end()
        if brace.group() == "}":
            if depth == 0:
                conditions.pop()
            elif depth == 1:
                text = f"{selectors}{{{css[body : brace.start()]}}}"
                alternatives = tuple(map(classes, selectors.split(",")))
                found.append(Rule(len(found), text, tuple(conditions), alternatives))
            depth = max(depth - 1, 0)
        elif depth == 0 and piece.startswith("@media"):
            conditions.append(piece)
        else:
            if depth == 0:
                selectors, body = piece, start
            depth += 1
    return found


def join_rules(wanted: Iterable[Rule]) -> bytes:
    """The rules as a file again."""
    parts: list[str] = []
    for conditions, group in itertools.groupby(wanted, key=lambda rule: rule.conditions):
        parts += [f"{condition}{{" for condition in conditions]
        parts += [rule.text for rule in group]
        parts.append("}" * len(conditions))
    return "".join(parts).encode()
