"""An agent's commands in a repository, for one episode: list, move, open, submit.

A sandbox is a view of a shared index: where one is, what is left out, what `echo` wrote. Nothing is copied,
nothing of the repository is changed, no shell is asked and no process begins: commands are done here, and
know no paths but those of the index.

Files that an episode leaves out are drawn, never on the way to a target.

Published behaviour: docs/published/reflect_rl.md#autoexplore.
"""

from __future__ import annotations

import codecs
import errno
import os
import posixpath
import re
from collections.abc import Collection, Iterator, Sequence
from random import Random
from typing import Final, NamedTuple

from sweet_rl.prompts import fill, packaged_text
from sweet_rl.types import Compat, derive_seed
from sweet_rl.worlds.auto_explore.commands import COMMANDS, PUBLISHED_COMMANDS, unwrap
from sweet_rl.worlds.auto_explore.repositories import Entry, RepositoryIndex, is_allowed
from sweet_rl.worlds.auto_explore.repositories.index import MAX_NAME
from sweet_rl.worlds.auto_explore.truncation import PIECES, TokenCounter, bytes_shown, truncate


class LeaveOut:
    """A repository with some of its entries missing.

    A folder's entries are drawn when it is first looked at, from the seed and its path alone, so that the
    size of the repository does not matter.

    Args:
        seed: of the draws; a `Random` is drawn from at once, entry by entry, as published.
        keep: paths that stay with what leads to them.
        compat: "published": whatever a path in `keep` begins with stays, letter by letter: `src` keeps `s`.
    """

    def __init__(
        self,
        index: RepositoryIndex,
        *,
        seed: int | Random = 0,
        probability: float = 0.0,
        keep: Collection[str] = (),
        compat: Compat = "fixed",
    ) -> None:
        self._index, self._probability, self._compat = index, probability, compat
        self._keep = tuple(keep)
        self._seed = 0
        self._drawn: dict[str, Sequence[Entry]] = {}
        if isinstance(seed, Random):
            self._draw_all("", seed)
        else:
            self._seed = seed

    def entries(self, folder: str) -> Sequence[Entry]:
        """The remaining entries of a folder; none for a missing folder."""
        if folder not in self._drawn:
            found = self._index.folders.get(folder, ())
            if self._probability > 0:
                found = self._draw(folder, found, Random(derive_seed(self._seed, "leave out", folder)))
            self._drawn[folder] = found
        return self._drawn[folder]

    def is_file(self, path: str) -> bool:
        """Whether a file is there and not left out."""
        entry = self._index.find(path)
        return entry is not None and not entry.is_folder and self._is_left(path)

    def is_folder(self, path: str) -> bool:
        """Whether a folder is there and not left out."""
        entry = self._index.find(path)
        return entry is not None and entry.is_folder and self._is_left(path)

    def _is_left(self, path: str) -> bool:
        if self._probability <= 0:
            return True
        while path:
            folder, name = posixpath.split(path)
            if not any(entry.name == name for entry in self.entries(folder)):
                return False
            path = folder
        return True

    def _draw(self, folder: str, entries: Sequence[Entry], rng: Random) -> tuple[Entry, ...]:
        return tuple(
            entry
            for entry in entries
            if self._stays(posixpath.join(folder, entry.name)) or rng.random() >= self._probability
        )

    def _draw_all(self, folder: str, rng: Random) -> None:
        self._drawn[folder] = self._draw(folder, self._index.folders[folder], rng)
        for entry in self._drawn[folder]:
            if entry.is_folder:
                self._draw_all(posixpath.join(folder, entry.name), rng)

    def _stays(self, path: str) -> bool:
        if self._compat == "published":
            return any(kept.startswith(path) for kept in self._keep)
        return any(kept == path or kept.startswith(f"{path}/") for kept in self._keep)


MAX_LISTED: Final = 1000
"""Names that are listed of a folder at most."""

MAX_WRITTEN: Final = 65_536
"""Characters that an episode can write with `echo`, in all."""

TAIL_BYTES: Final = 1 << 20
"""How far from its end `tail` looks for the last lines of a file."""

_SHORT: Final = 200
_LINE: Final = re.compile(r"[^\n]*\n|[^\n]+")
_NO_SUCH: Final = os.strerror(errno.ENOENT)


class Result(NamedTuple):
    """What a command brought: its text, and the path that `id` handed in."""

    text: str
    identified: str | None = None


class CommandError(Exception):
    """A command that cannot be done; its text is given to the agent behind `Error: `."""


class OutsideError(CommandError):
    """A path that leaves the repository; its text is the whole message."""


class Sandbox:
    """One episode's view of a repository.

    Args:
        seed: draws what is left out; a `Random` is drawn from for the whole repository at once, as published.
        leaveout_prob: with which each file or folder that leads to none of `keep` is left out.
        compat: "published": the published messages (they also name `python` and `pip`, which are not run here), and what
            is kept as published.
    """

    def __init__(
        self,
        index: RepositoryIndex,
        *,
        seed: int | Random = 0,
        leaveout_prob: float = 0.0,
        keep: Collection[str] = (),
        tokens: TokenCounter = PIECES,
        compat: Compat = "fixed",
    ) -> None:
        self.index = index
        self.cwd = ""
        self.written: dict[str, str] = {}
        self._compat = compat
        self._tokens = tokens
        self._view = LeaveOut(index, seed=seed, probability=leaveout_prob, keep=keep, compat=compat)

    def entries(self, folder: str | None = None) -> Sequence[Entry]:
        """The entries of a folder (default: the current one), sorted by name."""
        folder = self.cwd if folder is None else folder
        entries = self._view.entries(folder)
        new = [path for path in self.written if posixpath.dirname(path) == folder]
        if not new:
            return entries
        names = {posixpath.basename(path): len(self.written[path].encode()) for path in new}
        kept = [entry for entry in entries if entry.name not in names]
        return sorted([*kept, *(Entry(name, is_folder=False, size=size) for name, size in names.items())])

    def all_files(self, folder: str = "") -> Iterator[str]:
        """Paths of all files below a folder, sorted as the folders list them."""
        yield from sorted(self._files(folder))

    def files(self) -> list[str]:
        """Paths of all files that an agent may hand in, sorted."""
        return [path for path in self.all_files() if is_allowed(path)]

    def is_file(self, path: str) -> bool:
        """Whether there is a file at a path."""
        return path in self.written or self._view.is_file(path)

    def is_folder(self, path: str) -> bool:
        """Whether there is a folder at a path."""
        return not path or self._view.is_folder(path)

    def run(self, words: Sequence[str | None]) -> Result:
        """Run one command; errors are part of the result."""
        command, *rest = [word for word in words if word is not None] or [""]
        if self._compat == "published" and command == "exit":
            raise NotImplementedError("exit ends an interaction and is no command of the sandbox")
        if command not in COMMANDS:
            known = PUBLISHED_COMMANDS if self._compat == "published" else COMMANDS
            if command in known:
                return Result(f"Error: {command} is not run here: it would run code of the repository")
            return Result(fill(packaged_text("explore_unsupported"), commands=", ".join(known)))
        try:
            return self._do(command, rest)
        except OutsideError as error:
            return Result(str(error))
        except CommandError as error:
            return Result(f"Error: {error}")

    def _do(self, command: str, rest: Sequence[str]) -> Result:
        match command:
            case "cd":
                return self._cd(rest)
            case "ls":
                return self._ls(rest)
            case "id":
                return self._id(rest)
            case "echo":
                return self._echo(rest)
            case _:
                return self._show(command, rest)

    def _cd(self, rest: Sequence[str]) -> Result:
        if len(rest) != 1:
            raise CommandError("cd needs one folder")
        path = self._path(rest[0])
        name = unwrap(rest[0], compat=self._compat)
        if self.is_file(path):
            raise CommandError(_os_error(errno.ENOTDIR, name))
        if not self.is_folder(path):
            raise CommandError(_os_error(errno.ENOENT, name))
        self.cwd = path
        return Result(f"Success: Now at {path or '.'}")

    def _ls(self, rest: Sequence[str]) -> Result:
        if len(rest) > 1 or any(word.startswith("-") for word in rest):
            raise CommandError("ls takes at most one folder, and no options")
        path = self._path(rest[0]) if rest else self.cwd
        if self.is_file(path):
            names = [posixpath.basename(path)]
        elif self.is_folder(path):
            names = [entry.name for entry in self.entries(path)]
        else:
            raise CommandError(f"ls: {_shown(rest[0])}: {_NO_SUCH}\n")
        more = [f"... and {len(names) - MAX_LISTED} more"] if len(names) > MAX_LISTED else []
        listed = "\n".join([*(f"'{name}'" for name in names[:MAX_LISTED]), *more])
        return Result(f"Success: The result of ls is:\n{listed}")

    def _id(self, rest: Sequence[str]) -> Result:
        if len(rest) != 1:
            raise CommandError("id needs one file")
        path = self._path(rest[0])
        name = _shown(unwrap(rest[0], compat=self._compat))
        if not self.is_file(path):
            raise CommandError(f"{name} does not exist!")
        return Result(f"Success: Identified file {name}", identified=path)

    def _echo(self, rest: Sequence[str]) -> Result:
        match rest:
            case [*parts, (">" | ">>") as operator, name] if not _operators([*parts, name]):
                path = self._path(name)
                if self.is_folder(path) or not self.is_folder(posixpath.dirname(path)):
                    raise CommandError(f"echo: {_shown(name)}: cannot be written")
                if not path.isprintable() or len(path) > MAX_NAME:
                    raise CommandError(f"echo: {_shown(name)}: no name for a file")
                before = (
                    self._decoded(path, name, MAX_WRITTEN) if operator == ">>" and self.is_file(path) else ""
                )
                text = before + " ".join(unwrap(word, compat=self._compat) for word in parts) + "\n"
                if sum(map(len, self.written.values())) + len(text) > MAX_WRITTEN:
                    raise CommandError("echo: nothing more can be written")
                self.written[path] = text
            case _ if _operators(rest):
                raise CommandError("echo writes to one file, or prints a text")
        return Result(f"Success: echoed to {_shown(rest[-1]) if rest else ''}")

    def _show(self, command: str, rest: Sequence[str]) -> Result:
        """`cat`, `head`, `tail`."""
        count, names = (None, list(rest)) if command == "cat" else _line_count(command, rest)
        if not names or _operators(names) or any(name.startswith("-") for name in names):
            raise CommandError(f"{command} needs files, and knows no pipes")
        text = "".join(self._lines(command, name, count) for name in names)
        text = truncate(text, unwrap(names[0], compat=self._compat), tokens=self._tokens)
        return Result(f"Success: The content of {_shown(' '.join(names))} is:\n{text}")

    def _lines(self, command: str, name: str, count: int | None) -> str:
        """What a command takes of a file, as far as it can be shown."""
        path = self._path(name)
        if self.is_folder(path):
            raise CommandError(f"{command}: {_shown(name)}: {os.strerror(errno.EISDIR)}\n")
        if not self.is_file(path):
            raise CommandError(f"{command}: {_shown(name)}: {_NO_SUCH}\n")
        if count is None:
            return self._decoded(path, name, bytes_shown(self._tokens))
        if command == "head":
            return "".join(_LINE.findall(self._decoded(path, name, bytes_shown(self._tokens)))[:count])
        lines = _LINE.findall(self._decoded(path, name, TAIL_BYTES, from_end=True))
        return "".join(lines[max(len(lines) - count, 0) :])

    def _decoded(self, path: str, name: str, limit: int, *, from_end: bool = False) -> str:
        """Up to `limit` bytes of a file as text."""
        if path in self.written:
            return self.written[path]
        try:
            read = self.index.read_tail if from_end else self.index.read_head
            data, whole = read(path, limit)
        except OSError as error:
            raise CommandError(f"{_shown(name)}: {error.strerror}") from error
        if from_end and not whole:
            data = data.lstrip(bytes(range(0x80, 0xC0)))  # a character of which the beginning is missing
        try:
            text = codecs.getincrementaldecoder("utf-8")().decode(data, final=whole or from_end)
        except UnicodeDecodeError:
            raise CommandError(f"{_shown(name)} is not a text in UTF-8") from None
        if "\0" in text:
            raise CommandError(f"{_shown(name)} is not a text")
        return text

    def _path(self, word: str) -> str:
        """The path of a word of a command, "" for the repository itself."""
        name = unwrap(word, compat=self._compat)
        path = posixpath.normpath(posixpath.join(self.cwd, name))
        if path.startswith(("/", "../")) or path == "..":
            message = fill(packaged_text("explore_outside"), file=_shown(path), folder=self.cwd or ".")
            raise OutsideError(message)
        return "" if path == "." else path

    def _files(self, folder: str) -> Iterator[str]:
        below = [folder]
        while below:
            inside = below.pop()
            for entry in self.entries(inside):
                path = posixpath.join(inside, entry.name)
                if entry.is_folder:
                    below.append(path)
                else:
                    yield path


def _line_count(command: str, rest: Sequence[str]) -> tuple[int, list[str]]:
    """How many lines `head` and `tail` take, and of which files."""
    match list(rest):
        case ["-n", count, *names] if count.isdecimal() and count.isascii():
            return int(count[:9]), names
        case [count, *names] if count[:1] == "-":
            number = count[1:].removeprefix("n")
            if not (number.isdecimal() and number.isascii()):
                raise CommandError(f"{command} knows no option {_shown(count)}")
            return int(number[:9]), names
        case names:
            return 10, names


def _operators(words: Sequence[str]) -> bool:
    return any(word[:1] in {">", "<", "|", "&", ";"} for word in words)


def _os_error(number: int, name: str) -> str:
    return f"[Errno {number}] {os.strerror(number)}: '{_shown(name)}'"


def _shown(name: str) -> str:
    """A name in a message: on one line, and not without end."""
    name = name if len(name) <= _SHORT else f"{name[:_SHORT]}..."
    return name if name.isprintable() else ascii(name)[1:-1]
