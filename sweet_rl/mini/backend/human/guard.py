"""The last check of a reply before it is sent: it must not recite the hidden source.

A recital is a run of the source's tokens, or one of its lines, word for word. Constants are what the human is
asked for, and the problem description is known to both sides, so neither counts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

_TOKEN = re.compile(
    r"\"\"\".*?\"\"\"|'''.*?'''|\"(?:\\.|[^\"\\\n]){0,500}+\"|'(?:\\.|[^'\\\n]){0,500}+'|#[^\n]*|\d+(?:\.\d+)?|\w+|[^\w\s]",
    re.DOTALL,
)
_LITERAL = re.compile(r"[\"'\d,]|True$|False$|None$")
_RUN = 6
"""Consecutive tokens that make a recital."""
_SHORTEST_LINE = 3
"""Tokens that a line needs before repeating it counts: `else:` is no secret."""


def recites(reply: str, source: str, known: str = "") -> bool:
    """Whether `reply` repeats a run of six tokens, or a whole line, of `source` that is not in `known`."""
    tokens = _tokens(reply)
    runs, lines = _secrets(source, known)
    if any(run in runs for run in _runs(tokens, _RUN)):
        return True
    spoken = _spaced(tokens)
    return any(line in spoken for line in lines)


@lru_cache(maxsize=256)
def _secrets(source: str, known: str) -> tuple[frozenset[tuple[str, ...]], tuple[str, ...]]:
    """The runs of tokens and the lines of the source that must not be repeated."""
    public = _tokens(known)
    runs = {run for run in _runs(_tokens(source), _RUN) if _is_code(run)} - set(_runs(public, _RUN))
    lines = [tokens for line in source.splitlines() if len(tokens := _tokens(line)) >= _SHORTEST_LINE]
    said_before = _spaced(public)
    texts = [_spaced(line) for line in lines if _is_code(line)]
    return frozenset(runs), tuple(text for text in texts if text not in said_before)


def _spaced(tokens: Sequence[str]) -> str:
    return f" {' '.join(tokens)} "


def _tokens(text: str) -> list[str]:
    return [_unquoted(token) for token in _TOKEN.findall(text) if not token.startswith("#")]


def _unquoted(token: str) -> str:
    """String literals count by their value, whichever quotes they wear."""
    return f'"{token.strip(token[0])}"' if token[0] in "\"'" and len(token) > 1 else token


def _runs(tokens: Sequence[str], length: int) -> list[tuple[str, ...]]:
    return [tuple(tokens[start : start + length]) for start in range(len(tokens) - length + 1)]


def _is_code(tokens: Sequence[str]) -> bool:
    """Whether more than constants in a row."""
    return not all(_LITERAL.match(token) for token in tokens)
