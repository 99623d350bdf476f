"""Chat templates are programs of strangers: what they render, within a time and a size."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from jinja2.sandbox import SandboxedEnvironment

SECONDS: Final = 10.0
"""That one rendering may take; a template of a model takes less than a thousandth of one."""
LARGEST: Final = 50_000_000
"""Characters of a text, entries of a list, or a number, in a template."""

MEMORY: Final = 2 * 2**30
"""Bytes by which the process may grow while one is made."""

_PAGE: Final = 4096
_apply: Final = SandboxedEnvironment.call_binop
_running: Final[dict[int, float]] = {}
_lock: Final = threading.Lock()
_begun: Final = threading.Event()


class RanAway(Exception):
    """A template that takes too long; or too much memory."""


def _bounded(self: SandboxedEnvironment, context: Any, operator: str, left: Any, right: Any) -> Any:
    """An operator in any sandboxed template of this process, which may not make what no memory can hold."""
    sizes = [len(one) if hasattr(one, "__len__") else abs(one) for one in (left, right)]
    if sizes[0] * sizes[1] > LARGEST or (operator == "**" and sizes[1] > 16):
        raise RanAway(f"it makes a value of more than {LARGEST:,} characters, or such a number")
    return _apply(self, context, operator, left, right)


def _watch() -> None:
    """Stop what has run for too long, or made the process grow; sleeps while nothing is rendered."""
    grown_from: dict[tuple[int, float], int] = {}
    while _begun.wait():
        time.sleep(0.25)
        try:
            pages = int(Path("/proc/self/statm").read_text().split()[1])
        except OSError:  # not on Linux
            pages = 0
        with _lock:
            grown_from = {one: grown_from.get(one, pages) for one in _running.items()}
            for thread, began in grown_from:
                late = time.monotonic() - began > SECONDS
                if late or (pages - grown_from[thread, began]) * _PAGE > MEMORY:
                    del _running[thread]
                    ctypes.pythonapi.PyThreadState_SetAsyncExc(
                        ctypes.c_ulong(thread), ctypes.py_object(RanAway)
                    )
            if not _running:
                _begun.clear()


@contextmanager
def bounded() -> Iterator[None]:
    """A block in which a template is rendered."""
    if SandboxedEnvironment.call_binop is _apply:
        SandboxedEnvironment.intercepted_binops = frozenset({"*", "**"})
        SandboxedEnvironment.call_binop = _bounded  # type: ignore[method-assign]
        threading.Thread(target=_watch, daemon=True, name="chat templates").start()
    thread = threading.get_ident()
    with _lock:
        _running[thread] = time.monotonic()
    _begun.set()
    try:
        yield
    except RanAway:
        raise RanAway(f"it takes more than {SECONDS:g} s, or {MEMORY >> 30} GiB of memory") from None
    finally:
        with _lock:
            _running.pop(thread, None)
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), None)  # what came too late
