"""Truncates the text of a file: lines by its kind, then tokens.

The published token is one of cl100k_base. What counts here is exchangeable; the default is a rule of our own
that needs no vocabulary: about one token for a short word, as tokenizers of English have it.

Published behaviour: docs/published/reflect_rl.md#autoexplore.
"""

from __future__ import annotations

import re
from typing import Final, Protocol

from sweet_rl.prompts import fill, packaged_text
from sweet_rl.worlds.auto_explore.repositories.kinds import LINE_LIMITS, kind_of

TOKEN_LIMIT: Final = 500
"""Tokens that are shown of a file at most, whatever it is."""


class TokenCounter(Protocol):
    """What a token is. `longest` bounds the characters of one, so that huge files need not be read."""

    longest: int

    def cut(self, text: str, limit: int) -> str:
        """The first `limit` tokens of a text; the text itself where it has no more."""
        ...

    def count(self, text: str) -> int:
        """Number of tokens of a text, by this counter's rule."""
        ...


class PieceCounter:
    """Up to eight letters or digits, with the blank before them; up to three signs; a run of blanks."""

    longest = 9
    _PIECE: Final = re.compile(r" ?\w{1,8}| ?[^\w\s]{1,3}|\s{1,9}")

    def cut(self, text: str, limit: int) -> str:
        """The text up to the end of its piece number `limit`, whole if it has fewer."""
        end = 0
        for number, piece in enumerate(self._PIECE.finditer(text)):
            if number == limit:
                return text[:end]
            end = piece.end()
        return text

    def count(self, text: str) -> int:
        """Number of pieces that a text is cut into."""
        return sum(1 for _ in self._PIECE.finditer(text))


class CharacterCounter:
    """A token is a character: what the recorded episodes count."""

    longest = 1

    def cut(self, text: str, limit: int) -> str:
        """The text's first `limit` characters."""
        return text[:limit]

    def count(self, text: str) -> int:
        """Number of characters in a text."""
        return len(text)


PIECES: Final[TokenCounter] = PieceCounter()
"""The default."""


def bytes_shown(tokens: TokenCounter) -> int:
    """How many bytes of a file can affect its shown text: characters have four bytes at most."""
    return 4 * (TOKEN_LIMIT * tokens.longest + 1)


def truncate(text: str, name: str, *, tokens: TokenCounter = PIECES) -> str:
    """The shown part of a text: the first lines, of these the first tokens, and a note if it was cut."""
    shown = shown_part(text, name, tokens=tokens)
    return shown if shown == text else f"{shown}{truncation_note(LINE_LIMITS[kind_of(name)])}"


def shown_part(text: str, name: str, *, tokens: TokenCounter = PIECES) -> str:
    """What `truncate` shows of a text, without the note."""
    limit = LINE_LIMITS[kind_of(name)]
    lines = text.split("\n")
    if len(lines) > limit + (not lines[-1]):  # behind a last line break there is no line
        text = "\n".join(lines[:limit])
    return tokens.cut(text, TOKEN_LIMIT)


def truncation_note(lines: int) -> str:
    """The note after a text that was cut."""
    note = fill(packaged_text("explore_truncated"), lines=str(lines), tokens=str(TOKEN_LIMIT))
    return f"\n...\n{note}\n"
