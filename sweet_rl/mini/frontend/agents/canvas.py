"""A page as a scripted designer keeps it: texts and elements with their positions, and its source.

Everything stands where it is put (absolute positions, CSS pixels from the page's top left corner), so
that a remark about one part moves no other part.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape
from typing import Final

TAILWIND: Final = "https://cdn.jsdelivr.net/npm/tailwindcss@2.2.19/dist/tailwind.min.css"
PICTURES: Final = "https://picsum.photos/id/48"


@dataclass(slots=True, eq=False)
class Words:
    """A text; `y` is the top of its first line, `width` how far its letters run. Colours are CSS."""

    text: str
    x: float
    y: float
    width: float
    size: float = 16
    bold: bool = False
    color: str = "#1f2937"
    lines: int = 1
    line_height: float = 24
    centred: bool = False


@dataclass(slots=True, eq=False)
class Block:
    """An element without text; `kind` is "area", "picture" or "input field"."""

    kind: str
    x: float
    y: float
    width: float
    height: float
    color: str = "#ffffff"


@dataclass(slots=True)
class Canvas:
    """A whole page: size in pixels, background, texts and blocks."""

    width: int = 1366
    height: float = 768
    background: str = "#ffffff"
    words: list[Words] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)

    def html(self) -> str:
        """The page's source: large elements are below small ones, texts on top."""
        blocks = sorted(self.blocks, key=lambda block: -block.width * block.height)
        words = sorted(self.words, key=reading_order)
        body = "\n".join([*map(_block, blocks), *map(_words, words)])
        frame = f"position:relative;width:100%;height:{self.height:g}px;overflow:hidden"
        page = (
            f'<html>\n<link href="{TAILWIND}" rel="stylesheet">\n'
            f'<body style="margin:0;background-color:{self.background}">\n<div style="{frame}">\n'
            f"{body}\n</div>\n</body>\n</html>"
        )
        page = page.replace("OUTPUT:", "OUTPUT&#58;")  # as a marker it would cut the turn in two
        return page.encode("ascii", "xmlcharrefreplace").decode()  # whatever a browser takes bytes for


def reading_order(words: Words) -> tuple[int, float]:
    """Line by line, then from the left."""
    return round(words.y / 10), words.x


def _block(block: Block) -> str:
    place = f"position:absolute;left:{block.x:g}px;top:{block.y:g}px;"
    size = f"width:{block.width:g}px;height:{block.height:g}px"
    if block.kind == "picture":
        source = f"{PICTURES}/{max(1, round(block.width))}/{max(1, round(block.height))}"
        return f'<img src="{source}" alt="" style="{place}{size};max-width:none">'
    if block.kind == "input field":
        return f'<input style="{place}{size};border:1px solid #d1d5db;background-color:#ffffff">'
    return f'<div style="{place}{size};background-color:{block.color}"></div>'


def _words(words: Words) -> str:
    tag = "h1" if words.size >= 28 else "h2" if words.size >= 20 else "p"
    several = words.lines > 1
    style = (
        f"position:absolute;left:{words.x:g}px;top:{words.y:g}px;margin:0;"
        f"width:{words.width + (3 if several else 1):g}px;white-space:{'normal' if several else 'nowrap'};"
        f"font-size:{words.size:g}px;font-weight:{700 if words.bold else 400};"
        f"line-height:{words.line_height if several else 1.5 * words.size:g}px;color:{words.color}"
    )
    if several and words.centred:
        style += ";text-align:center"
    return f'<{tag} style="{style}">{escape(words.text)}</{tag}>'
