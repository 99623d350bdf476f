"""Where in a picture the letters of a box are: the box has the largest width of a line, not its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from sweet_rl.browsers import Box, Color

if TYPE_CHECKING:
    from PIL.Image import Image as Picture

Rect = tuple[int, int, int, int]
"""Left, top, right, bottom."""

_VISIBLE = 48
"""Difference of a channel from which a pixel counts as ink."""


@dataclass(frozen=True, slots=True)
class TextExtent:
    """The letters of one box on the page; `rows` are top and bottom of every line."""

    left: float
    right: float
    rows: tuple[tuple[float, float], ...]
    centred: bool


def find_text_extent(picture: Picture, box: Box, inner: Sequence[Box]) -> TextExtent | None:
    """The letters of a box, without those of the boxes inside it; None where they cannot be determined."""
    left, top = max(0, round(box.x)), max(0, round(box.y))
    right = min(picture.width, round(box.x + box.width))
    bottom = min(picture.height, round(box.y + box.height))
    for inset in (0, 4):  # the second time without a border or round corners
        rect = (left + inset, top + inset, right - inset, bottom - inset)
        if rect[2] - rect[0] < 2 or rect[3] - rect[1] < 2:
            return None
        mask = _mask(picture.crop(rect), box.color)
        for other in inner:
            mask.paste(0, _within(other, rect))
        found = mask.getbbox()
        if found is None:
            return None
        if found != (0, 0, mask.width, mask.height):
            return _read(mask, rect, box.font_size)
    return None


def share_of(picture: Picture, rect: Rect, color: Color) -> float:
    """How much of a rectangle has a colour, 0 to 1, from a coarse grid of pixels."""
    grid = _grid(picture, rect)
    near = sum(
        number for number, seen in grid if all(abs(int(a) - b) < 12 for a, b in zip(seen, color, strict=True))
    )
    return near / max(1, sum(number for number, _ in grid))


def looks_like_a_picture(picture: Picture, rect: Rect, inner: Sequence[Box], *, bare: bool) -> bool:
    """Whether the points beside the inner boxes, on a coarse grid, are of many colours.

    Nearly each has its own where the page paints the box, maybe with a gradient. Of a `bare` box, which
    should look like what it stands on, it is enough that no colour prevails.
    """
    left, top, right, bottom = rect
    points = [
        (x, y)
        for x in range(left + 4, min(right, picture.width), max(1, (right - left) // 24))
        for y in range(top + 4, min(bottom, picture.height), max(1, (bottom - top) // 24))
        if not any(b.x <= x <= b.x + b.width and b.y <= y <= b.y + b.height for b in inner)
    ]
    if len(points) <= 100:
        return False
    colors = Counter(map(picture.getpixel, points))
    if bare and max(colors.values()) < 0.2 * len(points):
        return True
    return len(colors) > 0.5 * len(points)


def _grid(picture: Picture, rect: Rect) -> list[tuple[int, tuple[int, int, int]]]:
    from PIL import Image

    left, top, right, bottom = rect
    rect = (max(0, left), max(0, top), min(picture.width, right), min(picture.height, bottom))
    if rect[2] <= rect[0] or rect[3] <= rect[1]:
        return []
    grid = picture.resize((24, 24), Image.Resampling.NEAREST, box=rect)
    return grid.getcolors(24 * 24) or []  # type: ignore[return-value]


def _mask(part: Picture, color: Color) -> Picture:
    """White where letters are: what differs from a plain ground, or on a picture what has their colour."""
    from PIL import Image, ImageChops

    colors = part.getcolors(part.width * part.height) or []
    number, ground = max(cast("list[tuple[int, Color]]", colors))
    plain = number > 0.4 * part.width * part.height
    against = Image.new("RGB", part.size, ground if plain else color)
    red, green, blue = ImageChops.difference(part, against).split()
    most = ImageChops.lighter(ImageChops.lighter(red, green), blue)
    if plain:
        return most.point([255 * (value > _VISIBLE) for value in range(256)])
    return most.point([255 * (value < _VISIBLE) for value in range(256)])


def _within(box: Box, rect: Rect) -> Rect:
    x, y = round(box.x) - rect[0], round(box.y) - rect[1]
    return x, y, x + max(1, round(box.width)), y + max(1, round(box.height))


def _read(mask: Picture, rect: Rect, size: float) -> TextExtent:
    left, _, right, _ = mask.getbbox() or (0, 0, *mask.size)
    rows = _rows(mask.getprojection()[1], gap=0.2 * size)
    centred = False
    if len(rows) > 1:
        for top, bottom in rows:
            line = mask.crop((0, top, mask.width, bottom)).getbbox()
            if line and (before := line[0] - left) > 6:
                centred = abs(before - (right - line[2])) < max(6.0, 0.3 * before)
                break
    return TextExtent(
        rect[0] + left,
        rect[0] + right,
        tuple((float(rect[1] + top), float(rect[1] + bottom)) for top, bottom in rows),
        centred,
    )


def _rows(filled: Sequence[int], gap: float) -> list[tuple[int, int]]:
    """Runs of filled rows; what is nearer than `gap` is one (the dot of an i)."""
    rows: list[tuple[int, int]] = []
    for y, ink in enumerate(filled):
        if not ink:
            continue
        if rows and y - rows[-1][1] <= gap:
            rows[-1] = (rows[-1][0], y + 1)
        else:
            rows.append((y, y + 1))
    return rows
