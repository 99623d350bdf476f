"""Designers without a model: two floors, a ceiling, and one that does what the human says.

The last one reads plain English of a few builds ("The white box 0 px from the left and 72 px from the top should be
green (#10b981)."); on its page everything stands where it is put.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from html import escape
from typing import Final, TypeVar

from sweet_rl.browsers.page import extract_html
from sweet_rl.errors import UsageError
from sweet_rl.mini.frontend.scene import ORDINALS, fold
from sweet_rl.policies.scripted import ScriptedPolicy
from sweet_rl.types import ANSWER_MARKER, Observation

T = TypeVar("T")

BLANK: Final = "<html>\n<body></body>\n</html>"
TAILWIND: Final = "https://cdn.jsdelivr.net/npm/tailwindcss@2.2.19/dist/tailwind.min.css"
PICTURES: Final = "https://picsum.photos/id/48"

_MARGIN: Final = 48
_COLORS: Final = {
    "red": "#dc2626", "orange": "#ea580c", "yellow": "#d97706", "green": "#059669", "teal": "#0d9488",
    "blue": "#2563eb", "purple": "#7c3aed", "pink": "#db2777", "brown": "#78350f", "black": "#111827",
    "dark": "#111827", "grey": "#4b5563", "gray": "#4b5563",
}  # fmt: skip
_LAYOUT: Final = re.compile(
    r"\b(?:design|layouts?|bar|navigation|menu|footer|header|background|images?|pictures?|photos?|columns?|"
    r"sidebar|grid|colou?rs?|palette|scheme|site|website|page|homepage|sections?|buttons?|screen|logo|"
    r"slideshow|carousel|typography|fonts?|side|left|right|top|bottom|below|central|centered|minimalistic)\b",
    re.IGNORECASE,
)
_INTRODUCTION: Final = re.compile(
    r"^(?:(?:and|a|an|the|with|for|of|or|such as|including|featuring|showcasing|showing|displaying|display|"
    r"links? to|sections? for|areas? for|options? for|information about|featured|its|their|our|each|"
    r"to|on|in|at|by|is|are)\s+)+",
    re.IGNORECASE,
)

_QUOTE = r"“([^“”]*)”"
_NUMBER = r"(?<!\d)(-?\d++)"
_COLOR = r"[a-z ]{1,40} \((#[0-9a-f]{6})\)"
_PLACE = rf"{_NUMBER} px from the left and {_NUMBER} px from the top"
_SIZE = rf"{_NUMBER} by {_NUMBER} px"
_REFERENCE = re.compile(rf"(?:\b[Tt]he ({'|'.join(ORDINALS)}) )?{_QUOTE}")
_ONE = rf"(?:The (?:{'|'.join(ORDINALS)}) )?“[^“”]*”"
_LETTERS = re.compile(rf"in (bold )?{_COLOR} letters of {_NUMBER} px")
_SPREAD = re.compile(rf"{_PLACE}, {_NUMBER} px wide(?:, in {_NUMBER} (centred )?lines of {_NUMBER} px each)?")
_MISSING_TEXT = re.compile(rf"[Tt]here should be (?:the|another) text {_QUOTE} (in [^“”]*?)\.(?= |$)")
_CHANGED_TEXT = re.compile(rf"({_ONE}) should (?:be|read {_QUOTE}),? ?([^“”]*?)\.(?= |$)")
_LONGER_TEXT = re.compile(rf"({_ONE}) goes on: {_QUOTE}")
_EXTRA_TEXTS = re.compile(rf"((?:{_ONE}(?:, | and )?(?:the (?=\w+ “))?){{1,30}}+) (?:is|are) not on my page")
_MISSING_BLOCK = re.compile(
    rf"[Tt]here should be an? (?:{_COLOR} (?:band|box)|(picture|input field)) of {_SIZE}, {_PLACE}"
)
_BLOCK = rf"The (?:{_COLOR} (?:band|box)|(picture|input field)) {_PLACE}"
_EXTRA_BLOCK = re.compile(rf"{_BLOCK} is not on my page")
_CHANGED_BLOCK = re.compile(rf"{_BLOCK} should be (?:{_COLOR})?(?:, )?(?:{_SIZE}, {_PLACE})?\.(?= |$)")
_BACKGROUND = re.compile(rf"The page's background should be {_COLOR}")
_HEIGHT = re.compile(rf"The page should be {_NUMBER} px tall")
_GROUND = re.compile(rf"My page is {_NUMBER} px tall, on an? {_COLOR} background")


@dataclass(slots=True, eq=False)
class Words:
    """A text; `y` is the top of its first line, `width` how far its letters run. Colours are CSS."""

    text: str
    x: float = 0
    y: float = 0
    width: float = 0
    size: float = 16
    bold: bool = False
    color: str = "#1f2937"
    lines: int = 1
    line_height: float = 24
    centred: bool = False

    def html(self) -> str:
        tag = "h1" if self.size >= 28 else "h2" if self.size >= 20 else "p"
        several = self.lines > 1
        style = (
            f"position:absolute;left:{self.x:g}px;top:{self.y:g}px;margin:0;"
            f"width:{self.width + (3 if several else 1):g}px;white-space:{'normal' if several else 'nowrap'};"
            f"font-size:{self.size:g}px;font-weight:{700 if self.bold else 400};"
            f"line-height:{self.line_height if several else 1.5 * self.size:g}px;color:{self.color}"
        )
        if several and self.centred:
            style += ";text-align:center"
        return f'<{tag} style="{style}">{escape(self.text)}</{tag}>'

    def set(self, how: str) -> None:
        """Letters and place, as far as a remark tells them."""
        if letters := _LETTERS.search(how):
            self.bold, self.color, self.size = bool(letters[1]), letters[2], float(letters[3])
        if spread := _SPREAD.search(how):
            x, y, width, lines, centred, line_height = spread.groups()
            self.x, self.y, self.width = float(x), float(y), float(width)
            self.lines, self.centred = int(lines or 1), bool(centred)
            self.line_height = float(line_height or 1.5 * self.size)


@dataclass(slots=True, eq=False)
class Block:
    kind: str
    x: float
    y: float
    width: float
    height: float
    color: str = "#ffffff"

    def html(self) -> str:
        place = f"position:absolute;left:{self.x:g}px;top:{self.y:g}px;"
        size = f"width:{self.width:g}px;height:{self.height:g}px"
        if self.kind == "picture":
            source = f"{PICTURES}/{max(1, round(self.width))}/{max(1, round(self.height))}"
            return f'<img src="{source}" alt="" style="{place}{size};max-width:none">'
        if self.kind == "input field":
            return f'<input style="{place}{size};border:1px solid #d1d5db;background-color:#ffffff">'
        return f'<div style="{place}{size};background-color:{self.color}"></div>'


@dataclass(slots=True)
class Canvas:
    width: int = 1366
    height: float = 768
    background: str = "#ffffff"
    words: list[Words] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)

    def in_reading_order(self) -> list[Words]:
        return sorted(self.words, key=lambda words: (round(words.y / 10), words.x))

    def html(self) -> str:
        """The page's source: large elements are below small ones, texts on top."""
        blocks = sorted(self.blocks, key=lambda block: -block.width * block.height)
        parts: list[Block | Words] = [*blocks, *self.in_reading_order()]
        body = "\n".join(part.html() for part in parts)
        frame = f"position:relative;width:100%;height:{self.height:g}px;overflow:hidden"
        page = (
            f'<html>\n<link href="{TAILWIND}" rel="stylesheet">\n'
            f'<body style="margin:0;background-color:{self.background}">\n<div style="{frame}">\n'
            f"{body}\n</div>\n</body>\n</html>"
        )
        page = page.replace("OUTPUT:", "OUTPUT&#58;")  # as a marker it would cut the turn in two
        return page.encode("ascii", "xmlcharrefreplace").decode()  # whatever a browser takes bytes for


def sketch(description: str) -> Canvas:
    """A decent page from a description: its first words are the title, its topics get a section each."""
    canvas = Canvas(background="#f3f4f6")

    def line(text: str, x: float, y: float, size: float, color: str, *, bold: bool = False) -> None:
        """One line; letters are about half as wide as high."""
        width = round(0.55 * size * len(text))
        canvas.words.append(Words(text, x, y, width, size, bold, color, 1, 1.5 * size))

    name = re.split(r"[:.]", description.strip(), maxsplit=1)[0].strip()
    title = " ".join(name.split()[:8]) or "Welcome"
    topics: list[str] = []  # phrases that name something the page is about
    for phrase in re.split(
        r"[,.;:]|\band\b|\bwith\b|\bfor\b|\bof\b", description.partition(":")[2] or description
    ):
        words = _INTRODUCTION.sub("", phrase.strip())
        if words and len(words.split()) <= 4 and not _LAYOUT.search(words):
            topics.append(words[:1].upper() + words[1:])
    topics = list(dict.fromkeys(topics))[:6] or ["About us", "Services", "Contact"]
    color = next(
        (code for name, code in _COLORS.items() if re.search(rf"\b{name}\b", description, re.IGNORECASE)),
        "#2563eb",
    )
    canvas.blocks.append(Block("area", 0, 0, canvas.width, 72, color))
    line(title, _MARGIN, 18, 24, "#ffffff", bold=True)
    x = canvas.width - _MARGIN - 0.0
    for entry in ["Contact", *reversed(topics[:3]), "Home"]:
        x -= 9 * len(entry)
        line(entry, round(x), 24, 16, "#ffffff")
        x -= 24
    top: float = 72
    if re.search(r"image|picture|photo", description, re.IGNORECASE):
        canvas.blocks.append(Block("picture", 0, top, canvas.width, 320))
        top += 320
    welcome = f"Welcome to {title}"
    left = max(_MARGIN, (canvas.width - round(0.55 * 36 * len(welcome))) / 2)
    line(welcome, left, top + 40, 36, "#111827", bold=True)
    top += 130
    width = (canvas.width - 4 * _MARGIN) / 3
    for number, topic in enumerate(topics):  # cards, three in a row
        x, y = round(_MARGIN + (number % 3) * (width + _MARGIN)), top + (number // 3) * 190
        canvas.blocks.append(Block("area", x, y, round(width), 160, "#ffffff"))
        line(topic, x + 24, y + 24, 20, "#111827", bold=True)
        line(f"Learn more about {topic.lower()}.", x + 24, y + 72, 16, "#4b5563")
    top = max(top + -(-len(topics) // 3) * 190 + 20, 768 - 72)
    canvas.blocks.append(Block("area", 0, top, canvas.width, 72, color))
    line(f"© {title}. All rights reserved.", _MARGIN, top + 24, 16, "#ffffff")
    canvas.height = top + 72
    return canvas


def apply_remarks(canvas: Canvas, remarks: str) -> int:
    """Change the page as one message asks, all remarks at once; returns how many were understood."""
    remarks = " ".join(remarks.split())
    edits = [*_edits_of_blocks(canvas, remarks), *_edits_of_texts(canvas, remarks)]
    for edit in edits:
        edit()
    return len(edits)


def _edits_of_blocks(canvas: Canvas, remarks: str) -> Iterator[Callable[[], None]]:
    for found in _BACKGROUND.finditer(remarks):
        yield partial(setattr, canvas, "background", found[1])
    for found in _HEIGHT.finditer(remarks):
        yield partial(setattr, canvas, "height", float(found[1]))
    for found in _GROUND.finditer(remarks):
        yield partial(_update, canvas, height=float(found[1]), background=found[2])
    for found in _EXTRA_BLOCK.finditer(remarks):
        if block := _find_block(canvas, *found.groups()):
            yield partial(_remove, canvas.blocks, block)
    for found in _CHANGED_BLOCK.finditer(remarks):
        color, width, height, x, y = found.groups()[4:]
        if block := _find_block(canvas, *found.groups()[:4]):
            if color:
                yield partial(_update, block, color=color)
            if width:
                yield partial(
                    _update, block, width=float(width), height=float(height), x=float(x), y=float(y)
                )
    for found in _MISSING_BLOCK.finditer(remarks):
        color, kind, *place = found.groups()
        width, height, x, y = map(float, place)
        yield partial(canvas.blocks.append, Block(kind or "area", x, y, width, height, color or ""))


def _edits_of_texts(canvas: Canvas, remarks: str) -> Iterator[Callable[[], None]]:
    for found in _CHANGED_TEXT.finditer(remarks):
        if words := _find_words(canvas, found[1]):
            new = {} if found[2] is None else {"text": found[2].removesuffix("…")}
            yield partial(_update, words, found[3], **new)
    for found in _LONGER_TEXT.finditer(remarks):
        if words := _find_words(canvas, found[1]):
            yield partial(_update, words, text=f"{words.text} {found[2].removesuffix('…')}")
    for found in _EXTRA_TEXTS.finditer(remarks):
        for reference in _REFERENCE.finditer(found[1]):
            if words := _find_words(canvas, reference[0]):
                yield partial(_remove, canvas.words, words)
    for found in _MISSING_TEXT.finditer(remarks):
        words = Words(found[1].removesuffix("…"))
        words.set(found[2])
        yield partial(canvas.words.append, words)


def _update(what: Canvas | Block | Words, how: str = "", **values: str | float) -> None:
    for name, value in values.items():
        setattr(what, name, value)
    if isinstance(what, Words):
        what.set(how)


def _remove(several: list[T], one: T) -> None:
    if one in several:
        several.remove(one)


def _find_block(canvas: Canvas, color: str | None, kind: str | None, x: str, y: str) -> Block | None:
    of_kind = [block for block in canvas.blocks if block.kind == (kind or "area")]
    alike = [block for block in of_kind if color in {None, block.color}]
    return min(
        alike or of_kind, key=lambda block: abs(block.x - float(x)) + abs(block.y - float(y)), default=None
    )


def _find_words(canvas: Canvas, reference: str) -> Words | None:
    """The text that is called so, counted in reading order where several begin the same."""
    found = _REFERENCE.search(reference)
    if found is None:
        return None
    ordinal, label = found.groups()
    begins = label[:-1] if label.endswith("…") else None
    named = [
        words
        for words in canvas.in_reading_order()
        if (text := fold(words.text)) == label or (begins is not None and text.startswith(begins))
    ]
    number = ORDINALS.index(ordinal) if ordinal else 0
    return named[number] if number < len(named) else None


def _answer(thought: str, page: str) -> str:
    return f"{thought}\nOUTPUT:\n{ANSWER_MARKER}\n{page}"


def _sketch_of_request(observation: Observation) -> Canvas:
    return sketch(observation.messages[0].content if observation.messages else "")


class BlankDesigner(ScriptedPolicy):
    """Hands in an empty page: the floor."""

    name = "blank"

    def _say(self, _observation: Observation) -> str:
        return _answer("An empty page.", BLANK)


class TargetDesigner(ScriptedPolicy):
    """Is given the page that is wanted, by `task_id`, and hands it in at once: the ceiling."""

    name = "target"

    def __init__(self, pages: Mapping[str, str], *, system_prompt: str = "") -> None:
        super().__init__(system_prompt)
        self._pages = pages

    def _say(self, observation: Observation) -> str:
        page = self._pages.get(observation.task_id)
        if page is None:
            raise UsageError(
                f"The {self.name} designer was given no page for the task {observation.task_id!r}; "
                "give it the pages of exactly the tasks that are played."
            )
        if extract_html(page)[1] is None:
            page = f"<html>\n{page}\n</html>"
        return _answer("I know what you want.", page)


class GenericDesigner(ScriptedPolicy):
    """Hands in a page made from the description alone: what can be had without talking."""

    name = "generic"

    def _say(self, observation: Observation) -> str:
        return _answer("A page from what you wrote.", _sketch_of_request(observation).html())


class ImproverDesigner(ScriptedPolicy):
    """Begins like the generic one and changes its page as asked, until the last turn or nothing is left to do."""

    name = "improver"

    def __init__(self, *, max_turns: int, system_prompt: str = "") -> None:
        super().__init__(system_prompt)
        self._max_turns = max_turns

    def _say(self, observation: Observation) -> str:
        canvas = _sketch_of_request(observation)
        remarks = [message.content for message in observation.messages[1:] if message.role == "user"]
        understood = [apply_remarks(canvas, remark) for remark in remarks]
        page = canvas.html()
        if observation.turn >= self._max_turns - 1 or (remarks and "look alike" in remarks[-1]):
            return _answer("This is my last version.", page)
        thought = (
            f"I change {understood[-1]} things as you said." if remarks else "I begin with what you wrote."
        )
        return f"{thought}\nOUTPUT:\n{page}"
