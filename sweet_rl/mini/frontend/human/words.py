"""The wording of the scripted human: short sentences of one form, one for each element.

Every sentence gives colours by name and code, and places in pixels from the left and from the top.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from sweet_rl.browsers import Color
from sweet_rl.mini.frontend.human.scene import Element, Scene, Text, color_distance

ALIKE: Final = "The two pages look alike to me."
NOTHING_SHOWN: Final = "I cannot see a page of yours yet, so this is what I have in mind."
SHORT: Final = 50
"""Characters by which a text is called once it is known."""
LONG: Final = 600
"""Characters of a new text that are read out at once."""

_COLORS: Final[dict[str, Color]] = {
    "white": (255, 255, 255),
    "light grey": (225, 228, 232),
    "grey": (130, 135, 142),
    "dark grey": (58, 65, 78),
    "black": (0, 0, 0),
    "red": (225, 50, 50),
    "dark red": (140, 20, 25),
    "pink": (240, 120, 175),
    "light pink": (253, 220, 235),
    "orange": (248, 140, 40),
    "brown": (130, 80, 40),
    "yellow": (245, 200, 40),
    "light yellow": (253, 245, 190),
    "green": (20, 170, 110),
    "dark green": (10, 95, 60),
    "light green": (190, 240, 205),
    "teal": (25, 170, 160),
    "light blue": (185, 215, 250),
    "blue": (60, 125, 235),
    "dark blue": (30, 55, 130),
    "indigo": (95, 95, 235),
    "purple": (135, 75, 225),
    "light purple": (220, 210, 250),
}
_ORDINALS: Final = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth")


def color(value: Color) -> str:
    """A name that people use, and the exact code."""
    name = min(_COLORS, key=lambda name: color_distance(_COLORS[name], value))
    return f"{name} (#{value[0]:02x}{value[1]:02x}{value[2]:02x})"


def place(x: float, y: float) -> str:
    """Where something's top left corner is, in pixels."""
    return f"{round(x)} px from the left and {round(y)} px from the top"


def region(x: float, y: float, scene: Scene) -> str:
    """The part of the page that a point lies in."""
    column = ("left", "", "right")[_third(x, scene.width)]
    row = ("top", "", "bottom")[_third(y, scene.height)]
    if row:
        return f"At the {row} {column}".rstrip()
    return f"On the {column}" if column else "In the middle"


def _third(at: float, whole: float) -> int:
    """0, 1 or 2; what stands outside the page belongs to the nearest."""
    return max(0, min(2, int(3 * at / max(1, whole))))


def letters(text: Text) -> str:
    """Size, weight and colour of a text in words."""
    return f"in {'bold ' if text.bold else ''}{color(text.color)} letters of {round(text.size)} px"


def spread(text: Text) -> str:
    """The position and the extent of a text."""
    description = f"{place(text.x, text.y)}, {round(text.width)} px wide"
    if text.lines > 1:
        centred = "centred " if text.centred else ""
        description += f", in {text.lines} {centred}lines of {round(text.line_height)} px each"
    return description


def element(what: Element, scene: Scene) -> str:
    """The noun for an element: its kind, or the colour of a box or band."""
    if what.color is None:
        return what.kind
    return f"{color(what.color)} {'band' if what.width > 0.97 * scene.width else 'box'}"


def size(what: Element) -> str:
    """Width by height, rounded to pixels."""
    return f"{round(what.width)} by {round(what.height)} px"


def quote(text: str, limit: int = LONG) -> str:
    """A text in quotes, its end left out where it is long."""
    return f"“{text if len(text) <= limit else text[:limit].rstrip() + '…'}”"


def call(texts: Sequence[Text], index: int) -> str:
    """A text that both have, distinguished from others with the same beginning; `texts` are in reading order."""
    label = quote(texts[index].text, SHORT)
    same = [i for i, text in enumerate(texts) if quote(text.text, SHORT) == label]
    number = same.index(index)
    if len(same) == 1 or number >= len(_ORDINALS):
        return label
    return f"the {_ORDINALS[number]} {label}"


def listed(items: Iterable[str]) -> str:
    """Items as a list in English: `one, two and three`."""
    *rest, last = items
    return f"{', '.join(rest)} and {last}" if rest else last


def begin(sentence: str) -> str:
    """The text with a capital first letter."""
    return sentence[:1].upper() + sentence[1:]
