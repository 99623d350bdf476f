"""Separates a model's thoughts from its reply in the text that it wrote.

Thoughts are shown to no one and are never part of an answer. They stand between tags at the beginning of a
text, or before the answer; the same tags inside an answer, in quotes or in code are what the model says.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from sweet_rl.types import ANSWER_MARKER

_NAMES: Final = "think|thinking|thought|thoughts|reasoning"
_QUOTES: Final = "`'\"\\"
_OPEN = re.compile(rf"<({_NAMES})>|\[(THINK)\]", re.IGNORECASE)
_CLOSE = re.compile(rf"</(?:{_NAMES})>|\[/THINK\]", re.IGNORECASE)
_MARKER = re.compile(re.escape(ANSWER_MARKER))
_LEADING = re.compile(rf"\s*+(?:<(?:{_NAMES})>|\[THINK\])", re.IGNORECASE)
_PREFILLED = re.compile(rf"(?:<(?:{_NAMES})>|\[THINK\])\s*\Z", re.IGNORECASE)


def closing_tag(prompt: str) -> str | None:
    """What closes the thought that a prompt ends with opening; None where it opens none."""
    opened = _PREFILLED.search(prompt[-64:])
    return re.sub(r"^([<\[])", r"\1/", opened[0].strip()) if opened else None


class Spoken(NamedTuple):
    """A text taken apart. `thoughts` is None where there are none; `text` is the rest, as it was written."""

    text: str
    thoughts: str | None


def split_thoughts(written: str, prompt: str = "") -> Spoken:
    """Separate thoughts from the answer.

    Thoughts are: blocks at the beginning; the text before a closing tag that was never opened (some chat
    templates write the opening one into the prompt); blocks between sentences before the answer marker, and
    directly behind it. A block that is not closed reaches to the end. A tag beside a quotation mark or a
    backtick, or behind the first line of an answer, is text.
    """
    opened = _PREFILLED.search(prompt[-64:])
    if "<" not in written and "[" not in written and not opened:
        return Spoken(written, None)
    thoughts: list[str] = []
    rest = _without_leading(written[_past_block(written, 0, thoughts) if opened else 0 :], thoughts)
    if not thoughts and (end := _unopened(rest)) is not None:
        thoughts.append(rest[: end.start()])
        rest = _without_leading(rest[end.end() :], thoughts)
    rest = _without_inner(rest, thoughts)
    if not thoughts:
        return Spoken(written, None)
    return Spoken(rest.lstrip(), "\n\n".join(text for part in thoughts if (text := part.strip())))


def _without_leading(text: str, thoughts: list[str]) -> str:
    """The text behind the blocks it begins with."""
    position = 0
    while (opened := _LEADING.match(text, position)) is not None:
        position = _past_block(text, opened.end(), thoughts)
    return text[position:]


def _without_inner(text: str, thoughts: list[str]) -> str:
    """The text without blocks between sentences, up to the answer, and at the beginning of the answer."""
    kept, position = list[str](), 0
    marker, closes = _MARKER.search(text), True
    while True:
        if marker is not None and marker.start() < position:  # it was part of a thought
            marker = _MARKER.search(text, position)
        opened = _next_tag(_OPEN, text, position)
        if marker is not None and (opened is None or marker.start() < opened.start()):
            kept += [text[position : marker.end()], _without_leading(text[marker.end() :], thoughts)]
            break
        if opened is None:
            kept.append(text[position:])
            break
        end = _end_of_block(text, opened.end()) if closes else None
        closes = end is not None
        _, newline, line = text[position : opened.start()].rpartition("\n")
        if end is None and (line.strip() or (position and not newline)):
            kept.append(text[position : opened.end()])  # a word in a sentence, not the beginning of thoughts
            position = opened.end()
            continue
        kept.append(text[position : opened.start()])
        position = _past_block(text, opened.end(), thoughts)
    return "".join(kept)


def _past_block(text: str, start: int, thoughts: list[str]) -> int:
    """Where a block ends whose inside, a thought, begins at `start`; one that is not closed reaches to the end."""
    end = _end_of_block(text, start)
    thoughts.append(text[start : len(text) if end is None else end.start()])
    return len(text) if end is None else end.end()


def _end_of_block(text: str, start: int) -> re.Match[str] | None:
    """The tag that closes a block whose inside begins at `start`.

    Blocks may be nested; where the tags do not pair, the last closing one counts.
    """
    depth, position, last = 1, start, None
    while (closed := _next_tag(_CLOSE, text, position)) is not None:
        between = text[position : closed.start()]
        depth += sum(not _quoted(between, tag) for tag in _OPEN.finditer(between)) - 1
        if depth <= 0:
            return closed
        last, position = closed, closed.end()
    return last


def _unopened(text: str) -> re.Match[str] | None:
    """The first closing tag, if nothing before it opens a block.

    Behind the answer marker only one that has a line to itself, or behind which another marker stands, ends
    thoughts: they may hold a draft of the answer, and an answer may be about such tags.
    """
    closed = _next_tag(_CLOSE, text, 0)
    if closed is None or _OPEN.search(text, 0, closed.start()):
        return None
    alone = re.search(r"\n[ \t]*\Z", text[: closed.start()]) and re.match(
        r"[ \t]*(\n|\Z)", text[closed.end() :]
    )
    if _MARKER.search(text, 0, closed.start()) and not alone and not _MARKER.search(text, closed.end()):
        return None
    return closed


def _next_tag(pattern: re.Pattern[str], text: str, start: int) -> re.Match[str] | None:
    return next((tag for tag in pattern.finditer(text, start) if not _quoted(text, tag)), None)


def _quoted(text: str, tag: re.Match[str]) -> bool:
    before, behind = text[max(0, tag.start() - 1) : tag.start()], text[tag.end() : tag.end() + 1]
    return (before != "" and before in _QUOTES) or (behind != "" and behind in _QUOTES)
