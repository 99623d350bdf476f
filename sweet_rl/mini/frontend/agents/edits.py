"""Remarks about a page, parsed and applied literally.

It reads plain English of a few builds ("The white box 0 px from the left and 72 px from the top should be
green (#10b981)."); sentences of other builds change nothing. Each one is about the page as it was shown, so
all are understood first and applied then.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

from sweet_rl.mini.frontend.agents.canvas import Block, Canvas, Words, reading_order

Edit = Callable[[], None]

_QUOTE = r"“([^“”]*)”"
_NUMBER = r"(?<!\d)(-?\d++)"
_COLOR = r"[a-z ]{1,40} \((#[0-9a-f]{6})\)"
_PLACE = rf"{_NUMBER} px from the left and {_NUMBER} px from the top"
_SIZE = rf"{_NUMBER} by {_NUMBER} px"
_ORDINALS: Final = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth")
_REFERENCE = re.compile(rf"(?:\b[Tt]he ({'|'.join(_ORDINALS)}) )?{_QUOTE}")
_ONE = rf"(?:The (?:{'|'.join(_ORDINALS)}) )?“[^“”]*”"

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


def apply_remarks(canvas: Canvas, remarks: str) -> int:
    """Change the page as one message asks; returns how many remarks were understood."""
    remarks = " ".join(remarks.split())
    edits = [
        edit
        for understand in (_page, _removed_blocks, _changed_blocks, _new_blocks, _texts, _new_texts)
        for edit in understand(canvas, remarks)
    ]
    for edit in edits:
        edit()
    return len(edits)


def _page(canvas: Canvas, remarks: str) -> Iterator[Edit]:
    for found in _BACKGROUND.finditer(remarks):
        yield _setting(canvas, background=found[1])
    for found in _HEIGHT.finditer(remarks):
        yield _setting(canvas, height=float(found[1]))
    for found in _GROUND.finditer(remarks):
        yield _setting(canvas, height=float(found[1]), background=found[2])


def _new_blocks(canvas: Canvas, remarks: str) -> Iterator[Edit]:
    for found in _MISSING_BLOCK.finditer(remarks):
        color, kind, width, height, x, y = found.groups()
        block = Block(kind or "area", float(x), float(y), float(width), float(height), color or "")
        yield lambda block=block: canvas.blocks.append(block)  # type: ignore[misc]


def _removed_blocks(canvas: Canvas, remarks: str) -> Iterator[Edit]:
    for found in _EXTRA_BLOCK.finditer(remarks):
        if block := _find_block(canvas, *found.groups()):
            yield _removal(canvas.blocks, block)


def _changed_blocks(canvas: Canvas, remarks: str) -> Iterator[Edit]:
    for found in _CHANGED_BLOCK.finditer(remarks):
        old, (color, width, height, x, y) = found.groups()[:4], found.groups()[4:]
        block = _find_block(canvas, *old)
        if block is None:
            continue
        if color:
            yield _setting(block, color=color)
        if width:
            yield _setting(block, width=float(width), height=float(height), x=float(x), y=float(y))


def _find_block(canvas: Canvas, color: str | None, kind: str | None, x: str, y: str) -> Block | None:
    """The nearest block of that kind, of that colour where one is named."""
    of_kind = [block for block in canvas.blocks if block.kind == (kind or "area")]
    alike = [block for block in of_kind if color in {None, block.color}]
    return min(
        alike or of_kind,
        key=lambda block: abs(block.x - float(x)) + abs(block.y - float(y)),
        default=None,
    )


def _new_texts(canvas: Canvas, remarks: str) -> Iterator[Edit]:
    for found in _MISSING_TEXT.finditer(remarks):
        words = Words(found[1].removesuffix("…"), 0, 0, 0)
        _set(words, found[2])
        yield lambda words=words: canvas.words.append(words)  # type: ignore[misc]


def _texts(canvas: Canvas, remarks: str) -> Iterator[Edit]:
    for found in _CHANGED_TEXT.finditer(remarks):
        if words := _find_words(canvas, found[1]):
            yield _change(words, found[2], found[3])
    for found in _LONGER_TEXT.finditer(remarks):
        if words := _find_words(canvas, found[1]):
            yield _setting(words, text=f"{words.text} {found[2].removesuffix('…')}")
    for found in _EXTRA_TEXTS.finditer(remarks):
        for reference in _REFERENCE.finditer(found[1]):
            if words := _find_words(canvas, reference[0]):
                yield _removal(canvas.words, words)


def _find_words(canvas: Canvas, reference: str) -> Words | None:
    """The text that is called so, counted in reading order where several begin the same."""
    found = _REFERENCE.search(reference)
    if found is None:
        return None
    ordinal, label = found.groups()
    named = [words for words in sorted(canvas.words, key=reading_order) if _is_called(words.text, label)]
    number = _ORDINALS.index(ordinal) if ordinal else 0
    return named[number] if number < len(named) else None


def _is_called(text: str, label: str) -> bool:
    folded = " ".join(text.replace("“", '"').replace("”", '"').split())
    return folded == label or (label.endswith("…") and folded.startswith(label[:-1]))


def _set(words: Words, how: str) -> None:
    """Letters and place, as far as they are known."""
    if letters := _LETTERS.search(how):
        words.bold, words.color, words.size = bool(letters[1]), letters[2], float(letters[3])
    if spread := _SPREAD.search(how):
        x, y, width, lines, centred, line_height = spread.groups()
        words.x, words.y, words.width = float(x), float(y), float(width)
        words.lines, words.centred = int(lines or 1), bool(centred)
        words.line_height = float(line_height or 1.5 * words.size)


def _change(words: Words, text: str | None, how: str) -> Edit:
    def change() -> None:
        if text is not None:
            words.text = text.removesuffix("…")
        _set(words, how)

    return change


def _removal(several: list[Words] | list[Block], one: Words | Block) -> Edit:
    def remove() -> None:
        if one in several:
            several.remove(one)  # type: ignore[arg-type]

    return remove


def _setting(what: Canvas | Block | Words, **values: str | float) -> Edit:
    def change() -> None:
        for name, value in values.items():
            setattr(what, name, value)

    return change
