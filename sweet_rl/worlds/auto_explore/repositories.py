"""Repositories as trees of files, indexed once and shared by episodes; their names in commands.

A folder is not trusted: every name on the way to a file is opened in the folder before it and may not be a
link, so that a repository that changes meanwhile cannot lead out of itself; pipes and devices are refused
without waiting. Published behaviour: docs/published/reflect_rl.md#deviations, #autoexplore, #two-models.
"""

from __future__ import annotations

import difflib
import errno
import os
import re
import stat
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Final, Literal, NamedTuple

from sweet_rl.errors import UsageError
from sweet_rl.types import Compat

Kind = Literal["code", "data", "text", "exec", "other"]

SUFFIXES: Final[dict[Kind, tuple[str, ...]]] = {
    "code": (".py", ".c", ".cpp", ".cxx", ".cc", ".h", ".hpp", ".hxx", ".cs", ".java", ".go", ".ipynb"),
    "data": (".csv", ".tsv"),
    "text": (".txt", ".md", ".rst", ".json", ".yaml", ".yml"),
    "exec": (".sh", ".bash", ".zsh"),
}
"""Suffixes by kind."""

LINE_LIMITS: Final[dict[Kind, int]] = {"code": 1000, "data": 5, "text": 100, "exec": 10, "other": 10}
"""Lines that are shown of a file at most, by its kind."""

_KIND_OF: Final[dict[str, Kind]] = {
    suffix: kind for kind, suffixes in SUFFIXES.items() for suffix in suffixes
}


def kind_of(name: str) -> Kind:
    """The kind of the file called `name` (or with this path)."""
    stem, dot, rest = name.rpartition(".")  # many names are asked about at every step: quicker than pathlib
    return _KIND_OF.get(f"{dot}{rest}", "other") if stem else "other"


def is_allowed(name: str) -> bool:
    """Whether agents may open, and hand in, the file called `name` (or with this path)."""
    return kind_of(name) != "other"


MAX_DEPTH: Final = 64  # folders within folders at most
MAX_NAME: Final = 255  # characters of a name at most


class Entry(NamedTuple):
    """One name in a folder."""

    name: str
    is_folder: bool


@dataclass(frozen=True, slots=True)
class RepositoryIndex:
    """One repository; paths are relative to it, "" for itself.

    `name` is what tasks call it, `root` its folder (None where files are in memory); `folders` has the
    entries of every folder, sorted by code points, as labels depend on the order; `refused` says of every entry that is
    not shown, by its path (escaped if unprintable), why.
    """

    name: str
    root: Path | None
    folders: Mapping[str, tuple[Entry, ...]]
    refused: Mapping[str, str] = field(default_factory=dict)
    _texts: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    _entries: dict[str, Entry] = field(default_factory=dict, repr=False, init=False)

    def __post_init__(self) -> None:
        for folder, inside in self.folders.items():
            self._entries.update((_join(folder, entry.name), entry) for entry in inside)

    def find(self, path: str) -> Entry | None:
        """The entry at a path; None where there is nothing."""
        return self._entries.get(path)

    def files(self) -> Iterator[str]:
        """Paths of all files, sorted."""
        return (path for path, entry in sorted(self._entries.items()) if not entry.is_folder)

    def read(self, path: str, limit: int) -> tuple[bytes, bool]:
        """The first `limit` bytes of a file, and whether that is all of it."""
        if self.root is not None:
            return read_file(self.root, path, limit)
        data = self._texts[path]
        return data[:limit], len(data) <= limit


def index_of(name: str, texts: Mapping[str, str]) -> RepositoryIndex:
    """A repository in memory, from its files' texts by path."""
    children: dict[str, dict[str, Entry]] = {"": {}}
    for path in texts:
        *above, file = path.split("/")
        for depth, folder in enumerate(above):
            children["/".join(above[:depth])][folder] = Entry(folder, is_folder=True)
            children.setdefault("/".join(above[: depth + 1]), {})
        children["/".join(above)][file] = Entry(file, is_folder=False)
    folders = {path: tuple(sorted(entries.values())) for path, entries in children.items()}
    return RepositoryIndex(name, None, folders, {}, {path: text.encode() for path, text in texts.items()})


_FOLDER_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
"""How a folder is opened by its name in the one above."""


def scan(root: str | Path, name: str | None = None) -> RepositoryIndex:
    """Look through a folder once.

    Names that begin with `.` do not exist, as published; nor do links, pipes and devices, names that cannot be shown
    on one line, and folders that cannot be read or lie too deep.
    """
    root = Path(root).expanduser()
    folders: dict[str, tuple[Entry, ...]] = {}
    refused: dict[str, str] = {}
    try:
        root = root.resolve(strict=True)
        top = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise UsageError(
            f"Cannot read the repository {str(root)!r}: {error.strerror}. Name a folder that holds files."
        ) from error
    _scan_folder(top, "", 0, folders, refused)
    return RepositoryIndex(name or root.name, root, folders, refused)


def _scan_folder(
    folder: int, path: str, depth: int, folders: dict[str, tuple[Entry, ...]], refused: dict[str, str]
) -> None:
    """Fill in the open folder, and close it. Everything below is opened by its name in it, never by a path."""
    try:
        found = []
        with os.scandir(folder) as entries:
            for entry in entries:
                name, is_folder, why = entry.name, entry.is_dir(follow_symlinks=False), ""
                if entry.is_symlink():
                    why = "is a symbolic link"
                elif not name.isprintable() or len(name) > MAX_NAME:
                    why = "has a name that cannot be shown on one line"
                elif is_folder and depth >= MAX_DEPTH:
                    why = f"is more than {MAX_DEPTH} folders deep"
                elif not is_folder and not entry.is_file(follow_symlinks=False):
                    why = "is not an ordinary file"
                if why and name[0] != ".":
                    refused[ascii(_join(path, name))[1:-1]] = why
                elif name[0] != ".":
                    found.append(Entry(name, is_folder))
        for inside in [one for one in found if one.is_folder]:
            try:
                below = os.open(inside.name, _FOLDER_FLAGS, dir_fd=folder)
            except OSError as error:
                refused[_join(path, inside.name)] = f"cannot be read ({error.strerror})"
                found.remove(inside)
            else:
                _scan_folder(below, _join(path, inside.name), depth + 1, folders, refused)
        folders[path] = tuple(sorted(found))
    finally:
        os.close(folder)


def _join(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name


def read_file(root: Path, path: str, limit: int) -> tuple[bytes, bool]:
    """The first `limit` bytes of the ordinary file at `path` below `root`, and whether that is all of it."""
    *above, name = names = path.split("/")
    if not {"", ".", ".."}.isdisjoint(names):
        raise OSError(errno.EINVAL, "Not a plain name")
    folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in above:
            inner = os.open(part, _FOLDER_FLAGS, dir_fd=folder)
            os.close(folder)
            folder = inner
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
        opened = os.open(name, flags, dir_fd=folder)
    finally:
        os.close(folder)
    if not stat.S_ISREG(os.fstat(opened).st_mode):
        os.close(opened)
        raise OSError(errno.EINVAL, "Not an ordinary file")
    with os.fdopen(opened, "rb") as file:
        data = file.read(limit + 1)
    return data[:limit], len(data) <= limit


class Library:
    """Repositories by their names in tasks, scanned when first asked for; the embedded ones without a folder."""

    def __init__(self, folder: str | Path | None = None) -> None:
        self._folder = None if folder is None else Path(folder).expanduser()
        self._known: dict[str, RepositoryIndex] = {}
        if self._folder is not None and not self._folder.is_dir():
            raise UsageError(
                f"There is no folder {str(self._folder)!r} (looked in {str(Path.cwd())!r}). Name the folder "
                "whose sub-folders are the repositories that the tasks are about."
            )

    def get(self, name: str) -> RepositoryIndex:
        """The repository called `name`."""
        if name in self._known:
            return self._known[name]
        folder = self._folder
        if folder is None:
            made = import_module("sweet_rl.mini.repositories").make_repository(name)
            return self._known.setdefault(name, made.index())
        parts = name.strip("/").split("/")
        if name.startswith("/") or not {"", ".", ".."}.isdisjoint(parts):
            raise UsageError(f"{name!r} is not the name of a repository in this folder.")
        try:
            steps = [folder.joinpath(*parts[: depth + 1]) for depth in range(len(parts))]
            there = all(step.is_dir() and not step.is_symlink() for step in steps)
        except OSError:  # a name longer than any
            there = False
        if not there:
            others = sorted(one.name for one in folder.iterdir() if one.is_dir() and one.name[:1] != ".")
            near = difflib.get_close_matches(name, others, n=1)
            hint = f" (did you mean {near[0]!r}?)" if near else ""
            raise UsageError(
                f"There is no repository {name!r} in {str(folder)!r}{hint}, or it is a symbolic link, which is not "
                "followed. Give the folder that the tasks were made from."
            )
        return self._known.setdefault(name, scan(folder / name, name))

    def need_one(self, names: Collection[str]) -> None:
        """A repository that is missing spoils its own episodes; where all are, the folder is another one."""
        absent: UsageError | None = None
        for name in sorted(names):
            try:
                self.get(name)
                return
            except UsageError as error:
                absent = absent or error
        if absent is not None:
            raise absent


_WORD: Final = re.compile(r"""\n|(?:"(?:\\.|[^"\\])*"|'[^']*'|\\.|[^\s"'\\]|["'\\])+""", re.DOTALL)


def wrap(name: str, *, compat: Compat = "fixed") -> str:
    r"""A name as written in a command: in double quotes if it needs them, `"` and `\` behind a `\`."""
    if compat == "published":
        return f'"{name}"' if " " in name else name
    if set(" \"'\\").isdisjoint(name) and name[:1] not in set("-<>|&;"):  # an option or an operator
        return name
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def unwrap(word: str, *, compat: Compat = "fixed") -> str:
    """The name in a word of a command: the reverse of `wrap`; single quotes are removed as well."""
    quote = word[:1]
    if len(word) < 2 or quote not in {'"', "'"} or not word.endswith(quote):
        return word if compat == "published" else re.sub(r"\\(.)", r"\1", word, flags=re.DOTALL)
    inside = word[1:-1]
    if compat == "published" or quote == "'":
        return inside
    return re.sub(r"\\([\"\\])", r"\1", inside)


def split_command(line: str, *, compat: Compat = "fixed") -> list[str | None]:
    """A command's words, quotes kept. With `compat="published"` a line break is the word None."""
    words: list[str | None] = [None if word == "\n" else word for word in _WORD.findall(line)]
    return words if compat == "published" else [word for word in words if word is not None]


def optimal_path(path: str, *, compat: Compat = "fixed") -> list[str]:
    """The commands that lead from the root to a file and show it, each folder listed on the way."""
    *folders, name = path.split("/")
    commands = [command for folder in folders for command in ("ls", f"cd {wrap(folder, compat=compat)}")]
    return [*commands, "ls", f"cat {wrap(name, compat=compat)}"]


def next_command(folder: str, path: str, *, opened: bool = False) -> str:
    """The next command on the shortest way to a file: through the folders, open it, hand it in."""
    above, _, name = path.rpartition("/")
    if above == folder:
        return f"{'id' if opened else 'cat'} {wrap(name)}"
    inside = f"{folder}/" if folder else ""
    if not above.startswith(inside):
        return "cd .."
    return f"cd {wrap(above.removeprefix(inside).partition('/')[0])}"
