"""What a hostile or odd answer is in these tests. No tests here.

Marked words are replaced when an answer is used: @FILE@ (a secret file), @SECRET@ (what it and the environment
hold), @PORT@ (somebody listens there), @PROJECT@ (where this project lies).
"""

from __future__ import annotations

import textwrap
from typing import NamedTuple

DOUBLE = "def level(x):\n    return x * 2\n"


class Case(NamedTuple):
    """An answer and the score that is right for it.

    `outcome` is that of the first test where it matters; `published` the score in the published way, where it is
    looked at; `description` what the task says of itself.
    """

    name: str
    answer: str
    score: float | None  # None: no answer to this task can be graded
    outcome: str | None = None
    reference: str = DOUBLE
    tests: tuple[str, ...] = ("level(2)", "level(3)")
    published: float | None = None
    description: str = ""


def held(name: str, attempt: str) -> Case:
    """An attempt that is to fail: it must raise, and then the value is right.

    So full marks mean that it was held, and that the answer's process lived on.
    """
    body = textwrap.indent(textwrap.dedent(attempt).strip(), " " * 8)
    return Case(
        name,
        "def level(x):\n    try:\n"
        + body
        + "\n    except Exception:\n        return 2 * x\n    return 'got through'\n",
        1.0,
    )


def code(text: str) -> str:
    """A block as it stands in this file, moved to the left."""
    return textwrap.dedent(text).lstrip("\n")
