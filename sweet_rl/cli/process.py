"""The process that runs stages: how it looks for garbage and keeps what it frees; what its terminal may not obey."""

from __future__ import annotations

import atexit
import ctypes
import gc
import os
import sys
from collections.abc import Iterable
from typing import Any, Final

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""The numbers of glibc's `malloc.h`."""

_KEPT: Final = 1 << 30
"""Bytes, freed at the end of the heap, that are kept for what comes next."""

_APART: Final = 1 << 25
"""Bytes from which on memory is the kernel's own and is given back at once: the most that glibc takes."""


def configure_process() -> None:
    """Spare the process what long work with torch does not need, on any system.

    torch and transformers make half a million objects that stay to the end: looking through them again and
    again, and once more at the exit, takes two seconds of every stage. What a step of training frees on a CPU
    the next one allocates: if the kernel has it in between, it is zeroed and mapped again, page by page.
    """
    gc.set_threshold(10_000, 20, 20)
    atexit.register(gc.freeze)
    by_hand = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES")
    if sys.platform == "linux" and not any(map(os.environ.get, by_hand)):
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # musl has none
        if mallopt is not None:
            mallopt(_MMAP_THRESHOLD, _APART)
            mallopt(_TRIM_THRESHOLD, _KEPT)


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
