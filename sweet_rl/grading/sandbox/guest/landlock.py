"""Landlock: which files may be read or written, no other network, no signals to processes outside.

It needs no privileges and no namespaces: in an ordinary container, where those are refused, it is what keeps
files out of reach.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Iterator
from contextlib import suppress

from . import libc

_CREATE, _ADD, _RESTRICT = 444, 445, 446
_WRITE, _READ, _LIST = 1 << 1, 1 << 2, 1 << 3
_REMOVE_FOLDER, _REMOVE_FILE, _MAKE_FOLDER, _MAKE_FILE = 1 << 4, 1 << 5, 1 << 7, 1 << 8
_RENAME, _TRUNCATE = 1 << 13, 1 << 14  # from versions 2 and 3 on
_FIRST_VERSIONS_RIGHTS = 13
_NETWORK, _SCOPES = 0b11, 0b11  # from versions 4 (connect, bind) and 6 (abstract sockets, signals) on
_NETWORK_VERSION, _SCOPE_VERSION = 4, 6


def restrict(readable: Iterable[str], hidden: Iterable[str], writable: str | None, null: str) -> list[str]:
    """From now on only this, for the calling process and all that it forks.

    Args:
        readable: folders.
        hidden: folders below them, of which only the names can be read.
        writable: a folder where files can be made.
        null: a file that can be written to.

    Returns:
        The layers that are active: none, "Landlock", and the name of its scope where signals have one.
    """
    try:
        version = libc.syscall("landlock", _CREATE, None, 0, 1)
        rights = (
            1 << (_FIRST_VERSIONS_RIGHTS + min(version - 1, 2))
        ) - 1  # later versions know two rights more
        ruleset = libc.syscall("landlock", _CREATE, *_attributes(version, rights), 0)
        for path, wanted in _rules(readable, list(hidden)):
            _allow(ruleset, path, wanted & rights)
        if writable is not None:
            files = _WRITE | _REMOVE_FOLDER | _REMOVE_FILE | _MAKE_FOLDER | _MAKE_FILE | _RENAME | _TRUNCATE
            _allow(ruleset, writable, (_READ | _LIST | files) & rights)
        with suppress(OSError):
            _allow(ruleset, null, (_READ | _WRITE | _TRUNCATE) & rights)
        libc.syscall("landlock", _RESTRICT, ruleset, 0)
        os.close(ruleset)
    except OSError:
        return []
    return ["Landlock", *(["signal scope"] if version >= _SCOPE_VERSION else [])]


def _attributes(version: int, rights: int) -> tuple[bytes, int]:
    """What the ruleset is about, as long as this version of the kernel's structure."""
    attributes = struct.pack("Q", rights)
    if version >= _NETWORK_VERSION:
        attributes += struct.pack("Q", _NETWORK)
    if version >= _SCOPE_VERSION:
        attributes += struct.pack("Q", _SCOPES)
    return attributes, len(attributes)


def _rules(readable: Iterable[str], hidden: list[str]) -> Iterator[tuple[str, int]]:
    """Paths and rights. A rule holds for all below it: beside what is hidden, each one gets its own."""
    for path in readable:
        below = [folder for folder in hidden if f"{folder}/".startswith(f"{path}/")]
        if not below:
            yield path, _READ | _LIST if os.path.isdir(path) else _READ
        elif path not in hidden:
            yield path, _LIST
            neighbours = [entry.path for entry in os.scandir(path) if not entry.is_symlink()]
            yield from _rules(neighbours, below)


def _allow(ruleset: int, path: str, rights: int) -> None:
    folder = os.open(path, os.O_PATH)
    try:
        rule = struct.pack("=Qi", rights, folder)
        libc.syscall("landlock", _ADD, ruleset, 1, rule, 0)
    finally:
        os.close(folder)
