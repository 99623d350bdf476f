"""The index of a repository: names, kinds and sizes of all files, in order. It never changes.

Many episodes share one index; what is in the files is read when they are opened. What cannot be offered
to an agent is left out and remembered with the reason: links, sockets and the like, names that would not
survive being printed, folders that nest without end.

Published behaviour: docs/published/reflect_rl.md#deviations, #autoexplore.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from sweet_rl.errors import UsageError
from sweet_rl.worlds.auto_explore.repositories.reading import FOLDER_FLAGS, Head, read_head, read_tail

MAX_DEPTH: Final = 64
"""Folders within folders at most."""

MAX_NAME: Final = 255
"""Characters of a name at most."""


class Entry(NamedTuple):
    """One name in a folder. `size` is in bytes, 0 for a folder."""

    name: str
    is_folder: bool
    size: int


class Refused(NamedTuple):
    """An entry of the repository that is not shown: its path, escaped if unprintable, and why."""

    path: str
    why: str


@dataclass(frozen=True, slots=True)
class RepositoryIndex:
    """One repository. Paths are relative to it, with `/` between names; the repository itself is "".

    Attributes:
        name: what tasks call it (`root` in their rows).
        root: its folder; None where the files are in memory.
        folders: entries of every folder by its path, sorted by name in the order of code points: labels
            depend on the order, so it must not depend on the file system.
        refused: what is not shown.
    """

    name: str
    root: Path | None
    folders: Mapping[str, tuple[Entry, ...]]
    refused: tuple[Refused, ...] = ()
    _texts: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    _entries: Mapping[str, Entry] = field(default_factory=dict, repr=False)

    def find(self, path: str) -> Entry | None:
        """The entry at a path; None where there is nothing."""
        return self._entries.get(path)

    def files(self) -> Iterator[str]:
        """Paths of all files, sorted."""
        return (path for path, entry in sorted(self._entries.items()) if not entry.is_folder)

    def read_head(self, path: str, limit: int) -> Head:
        """The first `limit` bytes of a file."""
        if self.root is None:
            data = self._texts[path]
            return Head(data[:limit], whole=len(data) <= limit)
        return read_head(self.root, path, limit)

    def read_tail(self, path: str, limit: int) -> Head:
        """The last `limit` bytes of a file."""
        if self.root is None:
            data = self._texts[path]
            return Head(data[-limit:], whole=len(data) <= limit)
        return read_tail(self.root, path, limit)


def scan(root: str | Path, name: str | None = None) -> RepositoryIndex:
    """Look through a folder once. Names that begin with `.` do not exist, as published."""
    root = Path(root).expanduser()
    folders: dict[str, tuple[Entry, ...]] = {}
    refused: list[Refused] = []
    try:
        root = root.resolve(strict=True)
        top = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise UsageError(
            f"Cannot read the repository {str(root)!r}: {error.strerror}. Name a folder that holds files."
        ) from error
    try:
        _scan_folder(top, "", 0, folders, refused)
    finally:
        os.close(top)
    return _index(name or root.name, root, folders, tuple(sorted(refused)), {})


def index_of(name: str, texts: Mapping[str, str]) -> RepositoryIndex:
    """A repository in memory, from its files' texts by path."""
    children: dict[str, dict[str, Entry]] = {"": {}}
    for path, text in texts.items():
        *above, file = path.split("/")
        for depth, folder in enumerate(above):
            children["/".join(above[:depth])][folder] = Entry(folder, is_folder=True, size=0)
            children.setdefault("/".join(above[: depth + 1]), {})
        children["/".join(above)][file] = Entry(file, is_folder=False, size=len(text.encode()))
    folders = {path: tuple(sorted(entries.values())) for path, entries in children.items()}
    return _index(name, None, folders, (), {path: text.encode() for path, text in texts.items()})


def _index(
    name: str,
    root: Path | None,
    folders: Mapping[str, tuple[Entry, ...]],
    refused: tuple[Refused, ...],
    texts: Mapping[str, bytes],
) -> RepositoryIndex:
    entries = {
        f"{folder}/{entry.name}" if folder else entry.name: entry
        for folder, inside in folders.items()
        for entry in inside
    }
    return RepositoryIndex(name, root, folders, refused, texts, entries)


def _scan_folder(
    folder: int, path: str, depth: int, folders: dict[str, tuple[Entry, ...]], refused: list[Refused]
) -> None:
    """Fill in the open folder `folder`. Everything below is opened by its name in it, never by a path."""
    found, below = list[Entry](), list[str]()
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith("."):
                continue
            why = _why_not(entry, depth)
            if why:
                refused.append(Refused(ascii(_join(path, entry.name))[1:-1], why))
                continue
            is_folder = entry.is_dir(follow_symlinks=False)
            size = 0 if is_folder else entry.stat(follow_symlinks=False).st_size
            found.append(Entry(entry.name, is_folder, size))
            if is_folder:
                below.append(entry.name)
    for name in below:
        try:
            opened = os.open(name, FOLDER_FLAGS, dir_fd=folder)
        except OSError as error:
            refused.append(Refused(ascii(_join(path, name))[1:-1], f"cannot be read ({error.strerror})"))
            found = [entry for entry in found if entry.name != name]
            continue
        try:
            _scan_folder(opened, _join(path, name), depth + 1, folders, refused)
        finally:
            os.close(opened)
    folders[path] = tuple(sorted(found))


def _why_not(entry: os.DirEntry[str], depth: int) -> str:
    """Why an entry is not shown; "" where it is."""
    if entry.is_symlink():
        return "is a symbolic link"
    if not entry.name.isprintable():
        return "has a name that cannot be shown on one line"
    if len(entry.name) > MAX_NAME:
        return f"has a name of more than {MAX_NAME} characters"
    if entry.is_dir(follow_symlinks=False):
        return f"is more than {MAX_DEPTH} folders deep" if depth >= MAX_DEPTH else ""
    return "" if entry.is_file(follow_symlinks=False) else "is not an ordinary file"


def _join(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name
