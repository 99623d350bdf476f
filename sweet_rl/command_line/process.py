"""What a process that runs stages is told before it does: how to look for garbage, and to keep what it frees."""

from __future__ import annotations

import atexit
import ctypes
import gc
import os
import sys
from typing import Final

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""The numbers of glibc's `malloc.h`."""

_KEPT: Final = 1 << 30
"""Bytes, freed at the end of the heap, that are kept for what comes next."""

_APART: Final = 1 << 25
"""Bytes from which on memory is the kernel's own and is given back at once: the most that glibc takes."""


def settle() -> None:
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
