"""The visible content of a rendered page: texts with the position of their letters, coloured areas, pictures, fields.

Lengths are CSS pixels from the top left corner. Where letters are is read from the picture.
"""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from sweet_rl.browsers import Box, Color, RenderedPage
from sweet_rl.errors import missing_package

if TYPE_CHECKING:
    from PIL.Image import Image as Picture

_PICTURES: Final = frozenset({"img", "svg", "video", "canvas", "iframe", "object", "embed"})
_FIELDS: Final = frozenset({"input", "textarea", "select"})
_CANVAS: Final = frozenset({"html", "body"})
_MOST: Final = 300  # Texts and elements that are looked at, the largest first: a hostile page has any number
_VISIBLE = 48  # Difference of a channel from which a pixel counts as ink

ORDINALS: Final = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth")
"""How equal texts are told apart, in reading order."""

Rect = tuple[int, int, int, int]  # Left, top, right, bottom


@dataclass(frozen=True, slots=True)
class Text:
    """A text; `x` and `width` tell where letters are, `y` is the top of the first line; lengths in CSS pixels."""

    text: str
    x: float
    y: float
    width: float
    size: float
    bold: bool
    color: Color
    lines: int = 1
    line_height: float = 24.0
    centred: bool = False

    @property
    def height(self) -> float:
        return self.lines * self.line_height

    @property
    def area(self) -> float:
        return self.width * self.height


@dataclass(frozen=True, slots=True)
class Element:
    """An element without text; `kind` is "area" (which has a colour), "picture" or "input field"."""

    kind: str
    x: float
    y: float
    width: float
    height: float
    color: Color | None = None

    @property
    def area(self) -> float:
        return self.width * self.height


@dataclass(frozen=True, slots=True)
class Scene:
    """A page as it is seen; texts are in reading order."""

    width: int
    height: int
    background: Color
    texts: tuple[Text, ...] = ()
    elements: tuple[Element, ...] = ()


def color_distance(one: Color, other: Color) -> float:
    """0 for the same colour, 1 for black and white."""
    return float(sum((a - b) ** 2 for a, b in zip(one, other, strict=True)) ** 0.5) / 441.7


def common_area(one: Box | Element, other: Box | Element) -> float:
    width = min(one.x + one.width, other.x + other.width) - max(one.x, other.x)
    height = min(one.y + one.height, other.y + other.height) - max(one.y, other.y)
    return max(0.0, width) * max(0.0, height)


def parse_page(page: RenderedPage) -> Scene:
    """Everything worth talking about; of bytes that are no picture, what the boxes tell."""
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError:
        raise missing_package("Pillow", "pages", needed_for="The scripted human") from None
    try:
        picture: Picture | None = Image.open(io.BytesIO(page.image)).convert("RGB")
    except (UnidentifiedImageError, OSError, ValueError):
        picture = None
    boxes = page.boxes
    painted = (box.background for tag in ("html", "body") for box in boxes[:2] if box.tag == tag)
    background = next((color for color in painted if color is not None), (255, 255, 255))
    texts = [_text(i, boxes, picture) for i in _largest(boxes, text=True)]
    texts.sort(key=lambda text: (round(text.y / 10), text.x))  # line by line, then from the left
    elements = _elements(boxes, picture, background, page)
    return Scene(page.width, page.height, background, tuple(texts), tuple(elements))


def fold(text: str) -> str:
    """A text as it is quoted: one blank between words, straight quotes."""
    return " ".join(text.replace("“", '"').replace("”", '"').split())


def _largest(boxes: Sequence[Box], *, text: bool) -> list[int]:
    wanted = [i for i, box in enumerate(boxes) if not text or fold(box.text)]
    wanted.sort(key=lambda i: -boxes[i].width * boxes[i].height)
    return sorted(wanted[:_MOST])


def _text(index: int, boxes: Sequence[Box], picture: Picture | None) -> Text:
    box = boxes[index]
    ink = _find_letters(picture, box, _inner(index, boxes)) if picture else None
    line_height, lines = 1.5 * box.font_size, 1
    if ink is None or not ink.rows:  # without letters to be seen, on a busy picture say, the box has to do
        if box.height > 1.9 * line_height:
            lines = max(1, round(box.height / line_height))
        if lines > 1:
            line_height = box.height / lines
        x, width, centred = box.x, box.width, False
        y = box.y + (box.height - lines * line_height) / 2
    else:
        if box.height >= 1.9 * box.font_size:
            lines = len(ink.rows)
        if lines > 1:
            between = (ink.rows[-1][0] - ink.rows[0][0]) / (lines - 1)
            by_box = box.height / lines
            line_height = by_box if abs(by_box - between) < 0.15 * between else between
        seen = (ink.rows[0][0] + ink.rows[-1][1]) / 2
        middle = box.y + box.height / 2
        if abs(seen - middle) > 0.3 * box.font_size:
            middle = seen
        x, width, centred = ink.left, ink.right - ink.left, ink.centred
        y = middle - lines * line_height / 2
    bold = box.font_weight >= 600
    return Text(fold(box.text), x, y, width, box.font_size, bold, box.color, lines, line_height, centred)


def _inner(index: int, boxes: Sequence[Box]) -> list[Box]:
    """The boxes inside one, which follow it in document order."""
    inside = {index}
    for i in range(index + 1, len(boxes)):
        if boxes[i].parent not in inside:
            break
        inside.add(i)
    return [boxes[i] for i in sorted(inside - {index})]


def _elements(
    boxes: Sequence[Box], picture: Picture | None, background: Color, page: RenderedPage
) -> list[Element]:
    elements: list[Element] = []
    pictures: set[int] = set()
    for index in _largest(boxes, text=False):
        box = boxes[index]
        left, top = round(max(0, box.x)), round(max(0, box.y))
        right = round(min(page.width, box.x + box.width))
        bottom = round(min(page.height, box.y + box.height))
        if right - left < 4 or bottom - top < 4:
            continue
        rect = (left, top, right, bottom)
        place = (float(left), float(top), float(right - left), float(bottom - top))
        behind = False  # whether a large box has a picture of its own behind what stands in it
        large = picture and box.tag not in _PICTURES and box.width * box.height >= 40_000
        if picture and large and not any(_lies_on(box, boxes[i]) for i in pictures):
            inner = [i for i in _inner(index, boxes) if i.tag in _PICTURES or i.background is not None]
            behind = _looks_like_a_picture(picture, rect, inner, bare=box.background is None)
        if box.tag in _PICTURES or behind:
            pictures.add(index)
            elements.append(Element("picture", *place))
        elif box.tag in _FIELDS:
            elements.append(Element("input field", *place))
        elif _is_painted(index, boxes, background, pictures) and (
            picture is None or _share_of(picture, rect, box.background or background) > 0.08
        ):
            elements.append(Element("area", *place, box.background))
    return [  # without those that lie under a later one
        element
        for i, element in enumerate(elements)
        if all(common_area(element, later) / element.area <= 0.9 for later in elements[i + 1 :])
    ]


def _is_painted(index: int, boxes: Sequence[Box], background: Color, pictures: set[int]) -> bool:
    """Whether a box has another colour than what it lies on: an ancestor, or what was drawn there before."""
    box = boxes[index]
    if box.tag in _CANVAS or box.background is None or box.width * box.height < 300:
        return False
    for i in range(index - 1, -1, -1):
        under = boxes[i]
        if i in pictures and _lies_on(box, under):
            return True
        if under.tag not in _CANVAS and under.background is not None and _lies_on(box, under):
            return color_distance(box.background, under.background) > 0.015
    return color_distance(box.background, background) > 0.015


def _lies_on(box: Box, under: Box) -> bool:
    width = min(box.x + box.width, under.x + under.width) - max(box.x, under.x)
    height = min(box.y + box.height, under.y + under.height) - max(box.y, under.y)
    return width > 0.9 * box.width and height > 0.9 * box.height


class _Letters(NamedTuple):
    """Where the letters of one box are; `rows` are top and bottom of every line."""

    left: float
    right: float
    rows: tuple[tuple[float, float], ...]
    centred: bool


def _find_letters(picture: Picture, box: Box, inner: Sequence[Box]) -> _Letters | None:
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
            x, y = round(other.x) - rect[0], round(other.y) - rect[1]
            mask.paste(0, (x, y, x + max(1, round(other.width)), y + max(1, round(other.height))))
        found = mask.getbbox()
        if found is None:
            return None
        if found != (0, 0, mask.width, mask.height):
            return _read(mask, rect, box.font_size)
    return None


def _mask(part: Picture, color: Color) -> Picture:
    """White where letters are: what differs from a plain ground, or on a picture what has their colour."""
    from PIL import Image, ImageChops

    colors = part.getcolors(part.width * part.height) or []
    number, ground = max(cast("list[tuple[int, Color]]", colors))
    plain = number > 0.4 * part.width * part.height
    against = Image.new("RGB", part.size, ground if plain else color)
    red, green, blue = ImageChops.difference(part, against).split()
    most = ImageChops.lighter(ImageChops.lighter(red, green), blue)
    return most.point([255 * (value > _VISIBLE if plain else value < _VISIBLE) for value in range(256)])


def _read(mask: Picture, rect: Rect, size: float) -> _Letters:
    left, _, right, _ = mask.getbbox() or (0, 0, *mask.size)
    rows: list[tuple[int, int]] = []  # runs of filled rows; what is near is one (the dot of an i)
    for y, ink in enumerate(mask.getprojection()[1]):
        if ink and rows and y - rows[-1][1] <= 0.2 * size:
            rows[-1] = (rows[-1][0], y + 1)
        elif ink:
            rows.append((y, y + 1))
    centred = False
    if len(rows) > 1:
        for top, bottom in rows:
            line = mask.crop((0, top, mask.width, bottom)).getbbox()
            if line and (before := line[0] - left) > 6:
                centred = abs(before - (right - line[2])) < max(6.0, 0.3 * before)
                break
    on_page = tuple((float(rect[1] + top), float(rect[1] + bottom)) for top, bottom in rows)
    return _Letters(rect[0] + left, rect[0] + right, on_page, centred)


def _share_of(picture: Picture, rect: Rect, color: Color) -> float:
    """How much of a rectangle has a colour, 0 to 1, from a coarse grid of pixels."""
    from PIL import Image

    left, top, right, bottom = rect
    rect = (max(0, left), max(0, top), min(picture.width, right), min(picture.height, bottom))
    grid: list[tuple[int, Any]] = []
    if rect[2] > rect[0] and rect[3] > rect[1]:
        grid = picture.resize((24, 24), Image.Resampling.NEAREST, box=rect).getcolors(24 * 24) or []
    near = sum(
        number for number, seen in grid if all(abs(a - b) < 12 for a, b in zip(seen, color, strict=True))
    )
    return near / max(1, sum(number for number, _ in grid))


def _looks_like_a_picture(picture: Picture, rect: Rect, inner: Sequence[Box], *, bare: bool) -> bool:
    """Whether the points beside the inner boxes have many colours; in a `bare` box it is enough that none prevails."""
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
    return (bare and max(colors.values()) < 0.2 * len(points)) or len(colors) > 0.5 * len(points)
