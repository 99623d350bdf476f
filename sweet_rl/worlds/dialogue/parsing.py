"""Splits an agent's raw text into the part that the human sees, the recorded part, and the answer.

Two parsers: `parse_published` does what the published system does, quirks included (held to recorded
episodes), `parse_fixed` repairs them.

Published behaviour: docs/published/sweet_rl.md#backend-programming, #in-episodes.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from sweet_rl.types import ANSWER_MARKER

OUTPUT_MARKER: Final = "OUTPUT:"

_MARKER_AT_LINE_START = re.compile(rf"^[ \t]*{re.escape(ANSWER_MARKER)}", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class ParsedAction:
    """`visible` is what the human and later prompts see, `output` the recorded raw text.

    `answer` is the text handed in, or None when the agent did not answer.
    """

    visible: str
    output: str
    answer: str | None


def parse_published(text: str) -> ParsedAction:
    """The published step protocol: `OUTPUT:` is cut first, then the answer marker is searched in the rest.

    An answer announced before `OUTPUT:` is lost, and code that contains a marker is cut at it.
    """
    visible, output = text, text
    if OUTPUT_MARKER in text:
        before, visible, *_ = text.split(OUTPUT_MARKER)
        output = before + OUTPUT_MARKER + visible
    answer = visible.split(ANSWER_MARKER)[1] if ANSWER_MARKER in visible else None
    return ParsedAction(visible, output, answer)


def parse_fixed(text: str) -> ParsedAction:
    """The repaired protocol: an announced answer always counts, and nothing in it is taken for a marker.

    The answer begins after the first marker that stands at the start of a line (else after the first one
    anywhere) and runs to the end; blanks on the marker's own line are dropped, so that code that starts there
    is not an indentation error. Text before a final `OUTPUT:` stays private, as published.
    """
    at_line_start = _MARKER_AT_LINE_START.search(text)
    start = at_line_start.end() - len(ANSWER_MARKER) if at_line_start else text.find(ANSWER_MARKER)
    if start < 0:
        _, marker, visible = text.partition(OUTPUT_MARKER)
        return ParsedAction(visible if marker else text, text, None)
    _, marker, output = text[:start].rpartition(OUTPUT_MARKER)
    spoken = output if marker else text[:start]
    answer = text[start + len(ANSWER_MARKER) :]
    return ParsedAction(spoken + text[start:], text, answer.lstrip(" \t"))


PARSERS: Final[dict[str, Callable[[str], ParsedAction]]] = {
    "published": parse_published,
    "fixed": parse_fixed,
}
