"""From an answer's text to the code in it: the word filter, the fences (spec §4.1), and a lenient reading.

The lenient reading is never a grade. It tells how many answers fail by the published rules alone.
"""

from __future__ import annotations

import re
import textwrap
from typing import Final

FORBIDDEN: Final = (
    "import os",
    "from os",
    "import sys",
    "from sys",
    "sudo",
    "transformers",
    "exit(",
    "quit(",
    "argparse",
)
"""Plain substrings that set an answer to 0, in prose and comments too; the published list (spec §4.1)."""

_FENCE: Final = "```"
_PYTHON_FENCE: Final = "```python"
_FENCED_BLOCK: Final = re.compile(r"^[ \t]*```[^\n`]*\n(.*?)(?:^[ \t]*```|\Z)", re.DOTALL | re.MULTILINE)


def forbidden_word(answer: str) -> str | None:
    """The first word of the published filter that the raw answer contains."""
    return next((word for word in FORBIDDEN if word in answer), None)


def published_code(answer: str) -> str:
    """What the published rules take for the code: the first python fence, else the first fence, else all."""
    if _PYTHON_FENCE in answer:
        answer = answer.split(_PYTHON_FENCE)[1].split(_FENCE, 1)[0]
    if _FENCE in answer:
        answer = answer.split(_FENCE)[1]
    return answer


def lenient_code(answer: str) -> str:
    """What a person would take for the code: the longest fenced block with any tag, dedented."""
    blocks = _FENCED_BLOCK.findall(answer)
    code = max(blocks, key=len) if blocks else answer
    code = code.strip("\n")
    first, newline, rest = code.partition("\n")
    if first[:1] in {" ", "\t"} and not rest[:1].isspace():
        code = first.lstrip() + newline + rest  # only the first line is shifted: it stood beside the marker
    return textwrap.dedent(code)
