"""Finds the question in an agent's text.

Published behaviour: docs/published/archer.md#ten-words.
"""

from __future__ import annotations


def decode_question(text: str) -> str:
    """The question in what a model wrote that was asked for `{"Question": "..."}`.

    It is the text behind the last `"Question":` up to its first question mark, which is added where there is
    none, without double quotes. So an empty text becomes "?".
    """
    question, _, _ = text.rpartition('"Question":')[2].partition("?")
    return f"{question}?".strip().replace('"', "")
