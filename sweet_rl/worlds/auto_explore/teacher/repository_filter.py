"""Removes from repositories what is not fit to be explored.

Copies what may be shown and says how much of the rest was left out, and why. Links and special files are
never followed, so that a loop or a device in a repository does no harm.

Published behaviour: docs/published/reflect_rl.md#data-of-autoexplore, #deviations.
"""

from __future__ import annotations

import codecs
import os
import re
import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from sweet_rl import tracking
from sweet_rl.errors import StorageError, UsageError
from sweet_rl.types import Compat
from sweet_rl.worlds.auto_explore.repositories import is_allowed

_WORDS: Final = ("LICENSE", "Makefile", "conf.py", "artwork", "requirements", "tests", "examples")
"""A name that holds one of them, at any place, is left out. The published list has "ci" as well."""
_CI: Final = re.compile(r"(?<![A-Za-z0-9])ci(?![A-Za-z0-9])")
_MIN_CHARACTERS: Final = 10
_MIN_ASCII: Final = 0.9
_CHUNK_BYTES: Final = 1 << 20


@dataclass(slots=True)
class Filtered:
    """What a filtering did: repositories and files copied, and entries left out, by reason."""

    repositories: int = 0
    files: int = 0
    left_out: Counter[str] = field(default_factory=Counter)


def to_copy(source: Path, target: Path) -> list[Path]:
    """The folders of `source` that are repositories: no links, nothing hidden."""
    if not source.is_dir():
        raise UsageError(f"There is no folder {str(source)!r}. --repo_dir names a folder of repositories.")
    found = [
        entry
        for entry in sorted(source.iterdir())
        if entry.is_dir() and not entry.is_symlink() and not entry.name.startswith(".")
    ]
    for entry in found:
        if target.resolve().is_relative_to(entry.resolve()):
            raise UsageError(f"The copies would go into {str(entry)!r}, which is being copied.")
    return found


def filter_repositories(source: Path, target: Path, *, compat: Compat = "fixed") -> Iterator[Filtered]:
    """Copy the suitable files of every sub-folder of `source` to `target`; files directly in `source` are left out.

    Files of an earlier run are overwritten or kept. Yields the running totals after each repository.
    """
    repositories = to_copy(source, target)
    tracking.writes(target)  # beside it: a file in there could be taken for a repository
    totals = Filtered()
    for entry in repositories:
        _copy(entry, target / entry.name, totals, compat=compat)
        totals.repositories += 1
        yield totals


def _copy(source: Path, target: Path, totals: Filtered, *, compat: Compat) -> None:
    """One folder, without recursion: a tree may be deeper than Python's stack."""
    waiting = [(source, target)]
    while waiting:
        folder, copy = waiting.pop()
        try:
            copy.mkdir(parents=True, exist_ok=True)
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError as error:
            raise StorageError(f"Cannot copy {str(folder)!r} to {str(copy)!r}: {error.strerror}.") from error
        for entry in entries:
            reason = why_left_out(Path(entry.path), compat=compat)
            if reason:
                totals.left_out[reason] += 1
            elif entry.is_dir(follow_symlinks=False):
                waiting.append((Path(entry.path), copy / entry.name))
            else:
                _copy_file(Path(entry.path), copy / entry.name)
                totals.files += 1


def _copy_file(source: Path, target: Path) -> None:
    partial = target.with_name(f".{target.name}.part")
    try:
        shutil.copyfile(source, partial, follow_symlinks=False)
        partial.replace(target)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise StorageError(f"Cannot write {str(target)!r}: {error.strerror}.") from error


def why_left_out(path: Path, *, compat: Compat = "fixed") -> str:
    """The reason why an entry is not copied, in a word or two; "" when it is.

    The checks stand in the published order. A folder with a dot in its name is always left out, because it
    is no readable text.
    """
    name = path.name
    if name.startswith((".", "_")):
        return "hidden"
    if any(word in name for word in _WORDS) or ("ci" in name if compat == "published" else _CI.search(name)):
        return "name"
    if not name.isascii():
        return "name not ASCII"
    if compat == "fixed" and not name.isprintable():
        return "control character in name"
    if path.is_symlink() or not (path.is_dir() or path.is_file()):
        return "link or special file"
    return _unfit(path, name) if "." in name else ""


def _unfit(path: Path, name: str) -> str:
    """Why a name with a dot is no text to be shown."""
    if not is_allowed(name):
        return "suffix"
    characters = ascii_characters = 0
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        with path.open("rb") as file:
            while chunk := file.read(_CHUNK_BYTES):
                text = decoder.decode(chunk)
                characters += len(text)
                ascii_characters += len(text.encode("ascii", "ignore"))
        decoder.decode(b"", final=True)
    except (OSError, UnicodeDecodeError):
        return "not UTF-8 text"
    if characters < _MIN_CHARACTERS:
        return "too short"
    return "" if ascii_characters >= _MIN_ASCII * characters else "mostly not ASCII"
