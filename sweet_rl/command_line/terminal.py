"""Text on a terminal: names of files and words of models may hold sequences that it would obey."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

_ESCAPED: Final = {
    code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\t\n"
}


def inert(text: str) -> str:
    """The text with its control characters written out in hexadecimal; tabs and ends of lines stay."""
    return text.translate(_ESCAPED)


class Inert:
    """A stream of text that writes control characters out; all else is the stream's own.

    Attributes:
        stream: behind it, for what a stage draws itself.
    """

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        """Write it; returns the number of characters of the text."""
        self.stream.write(inert(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write each of them."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def drawn_on(stream: Any) -> Any:
    """The stream that obeys sequences: for frames that a stage draws, whose texts it has made inert."""
    return stream.stream if isinstance(stream, Inert) else stream
