"""An agent's commands in a repository, for one episode: a view of a shared index. No shell is asked, nothing
is copied or changed.

What is shown of a file is cut: lines by its kind, then tokens. The published token is one of cl100k_base;
here it is a piece by a rule that needs no vocabulary. Files that an episode leaves out are drawn, never on
the way to a target. Published behaviour: docs/published/reflect_rl.md#autoexplore, #deviations.
"""

from __future__ import annotations

import codecs
import errno
import os
import posixpath
import re
from collections.abc import Collection, Iterator, Sequence
from random import Random
from typing import Final, Literal, NamedTuple

from sweet_rl.prompts import fill, packaged_text
from sweet_rl.types import Compat, derive_seed
from sweet_rl.worlds.auto_explore.repositories import (
    LINE_LIMITS,
    MAX_NAME,
    Entry,
    RepositoryIndex,
    is_allowed,
    kind_of,
    unwrap,
)

COMMANDS: Final = ("cd", "ls", "cat", "head", "tail", "echo", "id")
"""What the sandbox does."""

PUBLISHED_COMMANDS: Final = ("cd", "ls", "cat", "head", "tail", "echo", "python", "pip", "id")
"""What the published sandbox does; ours refuses `python` and `pip`, which run code of the repository."""

TOKEN_LIMIT: Final = 500
"""Tokens that are shown of a file at most, whatever it is."""


class PieceCounter:
    """What a token is: up to eight letters or digits, with the blank before them; up to three signs; a run of blanks.

    `longest` bounds the characters of one, so that huge files need not be read.
    """

    longest = 9
    _PIECE: Final = re.compile(r" ?\w{1,8}| ?[^\w\s]{1,3}|\s{1,9}")

    def cut(self, text: str, limit: int) -> str:
        """The first `limit` tokens of a text; the text itself where it has no more."""
        end = 0
        for number, piece in enumerate(self._PIECE.finditer(text)):
            if number == limit:
                return text[:end]
            end = piece.end()
        return text

    def count(self, text: str) -> int:
        """Number of tokens of a text."""
        return sum(1 for _ in self._PIECE.finditer(text))


PIECES: Final = PieceCounter()


def bytes_shown(tokens: PieceCounter) -> int:
    """How many bytes of a file can affect its shown text: characters have four bytes at most."""
    return 4 * (TOKEN_LIMIT * tokens.longest + 1)


def shown_part(text: str, name: str, *, tokens: PieceCounter = PIECES) -> str:
    """The first lines of a text, and of these the first tokens."""
    limit = LINE_LIMITS[kind_of(name)]
    lines = text.split("\n")
    if len(lines) > limit + (not lines[-1]):  # behind a last line break there is no line
        text = "\n".join(lines[:limit])
    return tokens.cut(text, TOKEN_LIMIT)


def truncate(text: str, name: str, *, tokens: PieceCounter = PIECES) -> str:
    """The shown part of a text, and a note if it was cut."""
    shown = shown_part(text, name, tokens=tokens)
    if shown == text:
        return text
    limits = {"lines": str(LINE_LIMITS[kind_of(name)]), "tokens": str(TOKEN_LIMIT)}
    return f"{shown}\n...\n{fill(packaged_text('explore_truncated'), **limits)}\n"


MAX_LISTED: Final = 1000
"""Names that are listed of a folder at most."""

MAX_WRITTEN: Final = 65_536
"""Characters that an episode can write with `echo`, in all."""

TAIL_BYTES: Final = 1 << 20
"""How far from its end `tail` looks for the last lines of a file."""

_LINE: Final = re.compile(r"[^\n]*\n|[^\n]+")


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

    A folder's entries are drawn when it is first looked at, from the seed and its path alone; `keep` stays
    with what leads to it. A `Random` is drawn from for the whole repository at once, as published; there
    whatever one of `keep` begins with stays, letter by letter (`src` keeps `s`), and messages name `python`
    and `pip`, which are not run here.
    """

    def __init__(
        self,
        index: RepositoryIndex,
        *,
        seed: int | Random = 0,
        leaveout_prob: float = 0.0,
        keep: Collection[str] = (),
        tokens: PieceCounter = PIECES,
        compat: Compat = "fixed",
    ) -> None:
        self.index = index
        self.cwd = ""
        self.written: dict[str, str] = {}
        self._compat, self._tokens = compat, tokens
        self._leaveout, self._keep, self._seed = leaveout_prob, tuple(keep), seed
        self._left: dict[str, Sequence[Entry]] = {}
        below = [""] if isinstance(seed, Random) else []
        while below:
            folder = below.pop()
            inside = [
                posixpath.join(folder, entry.name) for entry in self._entries(folder) if entry.is_folder
            ]
            below += reversed(inside)

    def _entries(self, folder: str) -> Sequence[Entry]:
        """The entries of the repository's folder that are not left out; none for a missing folder."""
        if folder not in self._left:
            found = self.index.folders.get(folder, ())
            rng = self._seed
            if not isinstance(rng, Random) and self._leaveout > 0:
                rng = Random(derive_seed(rng, "leave out", folder))
            if isinstance(rng, Random):  # as published it draws even where nothing is left out
                left = list[Entry]()
                for entry in found:
                    path = posixpath.join(folder, entry.name)
                    ends = (
                        "" if self._compat == "published" else "/"
                    )  # there a letter keeps what begins with it
                    stays = any(f"{kept}{ends}".startswith(f"{path}{ends}") for kept in self._keep)
                    if stays or rng.random() >= self._leaveout:
                        left.append(entry)
                found = tuple(left)
            self._left[folder] = found
        return self._left[folder]

    def at(self, path: str) -> Literal["file", "folder", ""]:
        """What there is at a path."""
        if path in self.written:
            return "file"
        entry, above = self.index.find(path), path
        if path and entry is None:
            return ""
        while above and self._leaveout > 0:
            above, name = posixpath.split(above)
            if not any(one.name == name for one in self._entries(above)):
                return ""
        return "folder" if entry is None or entry.is_folder else "file"

    def entries(self, folder: str | None = None) -> Sequence[Entry]:
        """The entries of a folder (default: the current one), sorted by name."""
        folder = self.cwd if folder is None else folder
        entries = self._entries(folder)
        new = [path for path in self.written if posixpath.dirname(path) == folder]
        if not new:
            return entries
        names = {posixpath.basename(path): len(self.written[path].encode()) for path in new}
        kept = [entry for entry in entries if entry.name not in names]
        return sorted([*kept, *(Entry(name, is_folder=False, size=size) for name, size in names.items())])

    def all_files(self) -> Iterator[str]:
        """Paths of all files, sorted."""
        found, below = list[str](), [""]
        while below:
            folder = below.pop()
            for entry in self.entries(folder):
                (below if entry.is_folder else found).append(posixpath.join(folder, entry.name))
        yield from sorted(found)

    def files(self) -> list[str]:
        """Paths of all files that an agent may hand in, sorted."""
        return [path for path in self.all_files() if is_allowed(path)]

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
            do = {"cd": self._cd, "ls": self._ls, "id": self._id, "echo": self._echo}.get(command)
            return self._show(command, rest) if do is None else do(rest)
        except OutsideError as error:
            return Result(str(error))
        except CommandError as error:
            return Result(f"Error: {error}")

    def _cd(self, rest: Sequence[str]) -> Result:
        if len(rest) != 1:
            raise CommandError("cd needs one folder")
        path = self._path(rest[0])
        name = unwrap(rest[0], compat=self._compat)
        if (there := self.at(path)) != "folder":
            number = errno.ENOTDIR if there else errno.ENOENT
            raise CommandError(f"[Errno {number}] {os.strerror(number)}: '{_shown(name)}'")
        self.cwd = path
        return Result(f"Success: Now at {path or '.'}")

    def _ls(self, rest: Sequence[str]) -> Result:
        if len(rest) > 1 or any(word.startswith("-") for word in rest):
            raise CommandError("ls takes at most one folder, and no options")
        path = self._path(rest[0]) if rest else self.cwd
        there = self.at(path)
        if not there:
            raise CommandError(f"ls: {_shown(rest[0])}: {os.strerror(errno.ENOENT)}\n")
        names = (
            [entry.name for entry in self.entries(path)] if there == "folder" else [posixpath.basename(path)]
        )
        more = [f"... and {len(names) - MAX_LISTED} more"] if len(names) > MAX_LISTED else []
        listed = "\n".join([*(f"'{name}'" for name in names[:MAX_LISTED]), *more])
        return Result(f"Success: The result of ls is:\n{listed}")

    def _id(self, rest: Sequence[str]) -> Result:
        if len(rest) != 1:
            raise CommandError("id needs one file")
        path = self._path(rest[0])
        name = _shown(unwrap(rest[0], compat=self._compat))
        if self.at(path) != "file":
            raise CommandError(f"{name} does not exist!")
        return Result(f"Success: Identified file {name}", identified=path)

    def _echo(self, rest: Sequence[str]) -> Result:
        match rest:
            case [*parts, (">" | ">>") as operator, name] if not _operators([*parts, name]):
                path = self._path(name)
                there = self.at(path)
                if there == "folder" or self.at(posixpath.dirname(path)) != "folder":
                    raise CommandError(f"echo: {_shown(name)}: cannot be written")
                if not path.isprintable() or len(path) > MAX_NAME:
                    raise CommandError(f"echo: {_shown(name)}: no name for a file")
                before = self._decoded(path, name, MAX_WRITTEN) if operator == ">>" and there else ""
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
        if (there := self.at(path)) != "file":
            why = os.strerror(errno.EISDIR if there else errno.ENOENT)
            raise CommandError(f"{command}: {_shown(name)}: {why}\n")
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
            data, whole = self.index.read(path, limit, from_end=from_end)
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


def _shown(name: str) -> str:
    """A name in a message: on one line, and not without end."""
    name = name if len(name) <= 200 else f"{name[:200]}..."
    return name if name.isprintable() else ascii(name)[1:-1]
