"""The visible content of a page: texts with the position of their letters, coloured areas, pictures, fields.

All lengths are CSS pixels from the page's top left corner.
"""

from __future__ import annotations

from dataclasses import dataclass

from sweet_rl.browsers import Color


@dataclass(frozen=True, slots=True)
class Text:
    """One piece of text. `x` and `width` tell where letters are; `y` is the top of the first line's box.

    `line_height` is the distance from line to line, by convention 1.5 times the size where there is one line.
    """

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
        """Height of all lines together, in pixels."""
        return self.lines * self.line_height

    @property
    def area(self) -> float:
        """The area it covers, in square pixels."""
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
        """The area it covers, in square pixels."""
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


def reading_order(text: Text) -> tuple[int, float]:
    """Line by line, then from the left."""
    return round(text.y / 10), text.x
