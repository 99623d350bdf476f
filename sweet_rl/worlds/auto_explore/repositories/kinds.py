"""The kind of a file by its name: code, data, text, executable, or none of these.

Published behaviour: docs/published/reflect_rl.md#two-models, #autoexplore.
"""

from __future__ import annotations

from typing import Final, Literal

Kind = Literal["code", "data", "text", "exec", "other"]

SUFFIXES: Final[dict[Kind, tuple[str, ...]]] = {
    "code": (".py", ".c", ".cpp", ".cxx", ".cc", ".h", ".hpp", ".hxx", ".cs", ".java", ".go", ".ipynb"),
    "data": (".csv", ".tsv"),
    "text": (".txt", ".md", ".rst", ".json", ".yaml", ".yml"),
    "exec": (".sh", ".bash", ".zsh"),
}
"""Suffixes by kind."""

ALLOWED_SUFFIXES: Final = frozenset(suffix for suffixes in SUFFIXES.values() for suffix in suffixes)
"""What agents may open and hand in."""

LINE_LIMITS: Final[dict[Kind, int]] = {"code": 1000, "data": 5, "text": 100, "exec": 10, "other": 10}
"""Lines that are shown of a file at most, by its kind."""

_KIND_OF: Final[dict[str, Kind]] = {
    suffix: kind for kind, suffixes in SUFFIXES.items() for suffix in suffixes
}


def kind_of(name: str) -> Kind:
    """The kind of the file called `name` (or with this path)."""
    return _KIND_OF.get(_suffix(name), "other")


def is_allowed(name: str) -> bool:
    """Whether agents may open the file called `name` (or with this path)."""
    return _suffix(name) in ALLOWED_SUFFIXES


def ascii_fraction(text: str) -> float:
    """The share of characters that are ASCII; 0 for an empty text."""
    return sum(char.isascii() for char in text) / len(text) if text else 0.0


def _suffix(name: str) -> str:
    """Many names are asked about at every step, and this is quicker than pathlib."""
    stem, dot, rest = name.rpartition(".")
    return f"{dot}{rest}" if stem else ""
