"""A rendered page as what is visible on it."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Final

from sweet_rl.browsers import Box, Color, RenderedPage
from sweet_rl.errors import missing_package
from sweet_rl.mini.frontend.human.scene import Element, Scene, Text, color_distance, reading_order
from sweet_rl.mini.frontend.human.text_extent import (
    Rect,
    TextExtent,
    find_text_extent,
    looks_like_a_picture,
    share_of,
)

if TYPE_CHECKING:
    from PIL.Image import Image as Picture

_PICTURES: Final = frozenset({"img", "svg", "video", "canvas", "iframe", "object", "embed"})
_FIELDS: Final = frozenset({"input", "textarea", "select"})
_CANVAS: Final = frozenset({"html", "body"})
_MOST: Final = 300
"""Texts and elements that are looked at, the largest first: a hostile page has any number."""


def parse_page(page: RenderedPage) -> Scene:
    """Everything worth talking about."""
    picture = _open(page.image)
    boxes = page.boxes
    background = _page_background(boxes)
    texts = sorted((_text(i, boxes, picture) for i in _largest(boxes, text=True)), key=reading_order)
    elements = _elements(boxes, picture, background, page)
    return Scene(page.width, page.height, background, tuple(texts), tuple(elements))


def fold(text: str) -> str:
    """A text as it is quoted: one blank between words, straight quotes."""
    return " ".join(text.replace("“", '"').replace("”", '"').split())


def _open(image: bytes) -> Picture | None:
    """The picture, or None for bytes that are none: then only boxes are looked at."""
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError:
        raise missing_package("Pillow", "pages", needed_for="The scripted human") from None
    try:
        return Image.open(io.BytesIO(image)).convert("RGB")
    except (UnidentifiedImageError, OSError, ValueError):
        return None


def _page_background(boxes: tuple[Box, ...]) -> Color:
    painted = (box.background for tag in ("html", "body") for box in boxes[:2] if box.tag == tag)
    return next((color for color in painted if color is not None), (255, 255, 255))


def _largest(boxes: tuple[Box, ...], *, text: bool) -> list[int]:
    """Indices of the boxes with (or regardless of) text, at most `_MOST`, in document order."""
    wanted = [i for i, box in enumerate(boxes) if not text or fold(box.text)]
    wanted.sort(key=lambda i: -boxes[i].width * boxes[i].height)
    return sorted(wanted[:_MOST])


def _text(index: int, boxes: tuple[Box, ...], picture: Picture | None) -> Text:
    box = boxes[index]
    ink = find_text_extent(picture, box, _inner(index, boxes)) if picture else None
    if ink is None or not ink.rows:
        return _text_of_box(box)
    lines = 1 if box.height < 1.9 * box.font_size else len(ink.rows)
    line_height = 1.5 * box.font_size if lines == 1 else _line_height(box, ink)
    seen = (ink.rows[0][0] + ink.rows[-1][1]) / 2
    middle = box.y + box.height / 2
    if abs(seen - middle) > 0.3 * box.font_size:
        middle = seen
    return Text(
        text=fold(box.text),
        x=ink.left,
        y=middle - lines * line_height / 2,
        width=ink.right - ink.left,
        size=box.font_size,
        bold=box.font_weight >= 600,
        color=box.color,
        lines=lines,
        line_height=line_height,
        centred=ink.centred,
    )


def _text_of_box(box: Box) -> Text:
    """Without letters to be seen, on a busy picture say, the box has to do."""
    line_height = 1.5 * box.font_size
    lines = max(1, round(box.height / line_height)) if box.height > 1.9 * line_height else 1
    if lines > 1:
        line_height = box.height / lines
    return Text(
        text=fold(box.text),
        x=box.x,
        y=box.y + (box.height - lines * line_height) / 2,
        width=box.width,
        size=box.font_size,
        bold=box.font_weight >= 600,
        color=box.color,
        lines=lines,
        line_height=line_height,
    )


def _line_height(box: Box, ink: TextExtent) -> float:
    between = (ink.rows[-1][0] - ink.rows[0][0]) / (len(ink.rows) - 1)
    by_box = box.height / len(ink.rows)
    return by_box if abs(by_box - between) < 0.15 * between else between


def _inner(index: int, boxes: tuple[Box, ...]) -> list[Box]:
    """The boxes inside one, which follow it in document order."""
    inside = {index}
    found = []
    for i in range(index + 1, len(boxes)):
        if boxes[i].parent not in inside:
            break
        inside.add(i)
        found.append(boxes[i])
    return found


def _elements(
    boxes: tuple[Box, ...], picture: Picture | None, background: Color, page: RenderedPage
) -> list[Element]:
    elements: list[Element] = []
    pictures: set[int] = set()
    for index in _largest(boxes, text=False):
        box = boxes[index]
        rect = _clip(box, page)
        if rect[2] - rect[0] < 4 or rect[3] - rect[1] < 4:
            continue
        place = (float(rect[0]), float(rect[1]), float(rect[2] - rect[0]), float(rect[3] - rect[1]))
        if box.tag in _PICTURES or (picture and _has_picture(index, boxes, picture, rect, pictures)):
            pictures.add(index)
            elements.append(Element("picture", *place))
        elif box.tag in _FIELDS:
            elements.append(Element("input field", *place))
        elif _is_painted(index, boxes, background, pictures) and (
            picture is None or share_of(picture, rect, box.background or background) > 0.08
        ):
            elements.append(Element("area", *place, box.background))
    return _uncovered(elements)


def _has_picture(
    index: int, boxes: tuple[Box, ...], picture: Picture, rect: Rect, pictures: set[int]
) -> bool:
    """Whether a large box has a picture of its own behind what stands in it."""
    box = boxes[index]
    if box.width * box.height < 40_000 or any(_lies_on(box, boxes[i]) for i in pictures):
        return False
    inner = [i for i in _inner(index, boxes) if i.tag in _PICTURES or i.background is not None]
    return looks_like_a_picture(picture, rect, inner, bare=box.background is None)


def _is_painted(index: int, boxes: tuple[Box, ...], background: Color, pictures: set[int]) -> bool:
    """Whether a box has another colour than what it lies on: an ancestor, or what was drawn there before."""
    box = boxes[index]
    if box.tag in _CANVAS or box.background is None or box.width * box.height < 300:
        return False
    for i in range(index - 1, -1, -1):
        if i in pictures and _lies_on(box, boxes[i]):
            return True
        under = boxes[i]
        if under.tag not in _CANVAS and under.background is not None and _lies_on(box, under):
            return color_distance(box.background, under.background) > 0.015
    return color_distance(box.background, background) > 0.015


def _lies_on(box: Box, under: Box) -> bool:
    width = min(box.x + box.width, under.x + under.width) - max(box.x, under.x)
    height = min(box.y + box.height, under.y + under.height) - max(box.y, under.y)
    return width > 0.9 * box.width and height > 0.9 * box.height


def _clip(box: Box, page: RenderedPage) -> Rect:
    right, bottom = min(page.width, box.x + box.width), min(page.height, box.y + box.height)
    return round(max(0, box.x)), round(max(0, box.y)), round(right), round(bottom)


def _uncovered(elements: list[Element]) -> list[Element]:
    """Without those that lie under a later one."""
    return [
        element
        for i, element in enumerate(elements)
        if all(_share(element, later) <= 0.9 for later in elements[i + 1 :])
    ]


def _share(element: Element, other: Element) -> float:
    """How much of an element another one covers."""
    width = min(element.x + element.width, other.x + other.width) - max(element.x, other.x)
    height = min(element.y + element.height, other.y + other.height) - max(element.y, other.y)
    return max(0.0, width) * max(0.0, height) / element.area
