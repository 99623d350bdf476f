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
from collections.abc import Collection, Sequence
from random import Random
from typing import Final, Literal, NamedTuple

from sweet_rl.prompts import fill, packaged_text
from sweet_rl.types import Compat, derive_seed
from sweet_rl.worlds.auto_explore.repositories import LINE_LIMITS, Entry, RepositoryIndex, kind_of, unwrap

# A game offers `cd`, `cat` and `id`; the others stand in recorded sessions. `python` and `pip` would run code.
COMMANDS: Final = ("cd", "ls", "cat", "head", "tail", "echo", "id")
PUBLISHED_COMMANDS: Final = ("cd", "ls", "cat", "head", "tail", "echo", "python", "pip", "id")

TOKEN_LIMIT: Final = 500  # tokens that are shown of a file at most, whatever it is
MAX_LISTED: Final = 1000  # names that are listed of a folder at most
MAX_WRITTEN: Final = 65_536  # characters that an episode can write with `echo`, in all
WHOLE_BYTES: Final = 1 << 20  # bytes of a file at most whose last lines `tail` shows

_LINE: Final = re.compile(r"[^\n]*\n|[^\n]+")


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


def truncate(text: str, name: str, *, tokens: PieceCounter = PIECES) -> str:
    """The first lines of a text, and of these the first tokens; with a note if it was cut."""
    limit, lines = LINE_LIMITS[kind_of(name)], text.split("\n")
    many = len(lines) > limit + (not lines[-1])  # behind a last line break there is no line
    shown = tokens.cut("\n".join(lines[:limit]) if many else text, TOKEN_LIMIT)
    if shown == text:
        return text
    note = fill(packaged_text("explore_truncated"), lines=str(limit), tokens=str(TOKEN_LIMIT))
    return f"{shown}\n...\n{note}\n"


class Result(NamedTuple):
    """What a command brought: its text, and the path that `id` handed in."""

    text: str
    identified: str | None = None


class CommandError(Exception):
    """A command that cannot be done; its text is given to the agent."""


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
        if isinstance(seed, Random):
            self.all_files()

    def _entries(self, folder: str) -> Sequence[Entry]:
        """The entries of the repository's folder that are not left out; none for a missing folder."""
        if folder not in self._left:
            found = self.index.folders.get(folder, ())
            rng = self._seed
            if not isinstance(rng, Random) and self._leaveout > 0:
                rng = Random(derive_seed(rng, "leave out", folder))
            if isinstance(rng, Random):  # as published it draws even where nothing is left out
                ends = "" if self._compat == "published" else "/"  # there a letter keeps what begins with it
                keep = [f"{kept}{ends}" for kept in self._keep]
                found = tuple(
                    entry
                    for entry in found
                    if any(kept.startswith(f"{posixpath.join(folder, entry.name)}{ends}") for kept in keep)
                    or rng.random() >= self._leaveout
                )
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
        new = {posixpath.basename(path) for path in self.written if posixpath.dirname(path) == folder}
        entries = self._entries(folder)
        if not new:
            return entries
        kept = [entry for entry in entries if entry.name not in new]
        return sorted([*kept, *(Entry(name, is_folder=False) for name in new)])

    def all_files(self) -> list[str]:
        """Paths of all files, sorted."""
        found, below = list[str](), [""]
        while below:
            folder = below.pop()
            folders = list[str]()
            for entry in self.entries(folder):
                (folders if entry.is_folder else found).append(posixpath.join(folder, entry.name))
            below += reversed(folders)
        return sorted(found)

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
            if command == "echo":
                return self._echo(rest)
            if command in {"cat", "head", "tail"}:
                return self._show(command, rest)
            given = rest or ["."] if command == "ls" else rest
            if len(given) != 1:
                raise CommandError(f"Error: {command} needs one {'file' if command == 'id' else 'folder'}")
            path, name = self._path(given[0]), _shown(unwrap(given[0], compat=self._compat))
            there = self.at(path)
            if command == "id":
                if there != "file":
                    raise CommandError(f"Error: {name} does not exist!")
                return Result(f"Success: Identified file {name}", identified=path)
            if command == "cd":
                if there != "folder":
                    number = errno.ENOTDIR if there else errno.ENOENT
                    raise CommandError(f"Error: [Errno {number}] {os.strerror(number)}: '{name}'")
                self.cwd = path
                return Result(f"Success: Now at {path or '.'}")
            if there != "folder":
                raise CommandError(f"Error: ls: {name}: {os.strerror(errno.ENOTDIR)}\n")
            names = [f"'{entry.name}'" for entry in self.entries(path)]
            more = [f"... and {len(names) - MAX_LISTED} more"] if len(names) > MAX_LISTED else []
            return Result("\n".join(["Success: The result of ls is:", *names[:MAX_LISTED], *more]))
        except CommandError as error:
            return Result(str(error))

    def _echo(self, rest: Sequence[str]) -> Result:
        match rest:
            case [*parts, ">", name] if not _operators([*parts, name]):
                path, there = self._path(name), self.at(posixpath.dirname(self._path(name)))
                text = " ".join(unwrap(word, compat=self._compat) for word in parts) + "\n"
                total = len(path) + len(text) + sum(map(len, self.written.values()))
                if self.at(path) or there != "folder" or not path.isprintable() or total > MAX_WRITTEN:
                    raise CommandError(f"Error: echo: {_shown(name)}: cannot be written")
                self.written[path] = text
            case _ if _operators(rest):
                raise CommandError("Error: echo writes to one new file, or prints a text")
        return Result(f"Success: echoed to {_shown(rest[-1]) if rest else ''}")

    def _show(self, command: str, rest: Sequence[str]) -> Result:
        """`cat`, `head`, `tail`."""
        count, names = 10, list(rest)
        match names:
            case ["-n", number, *files] if command != "cat" and number.isdecimal() and number.isascii():
                count, names = int(number[:9]), files
        if not names or _operators(names) or any(name.startswith("-") for name in names):
            raise CommandError(f"Error: {command} needs files, and knows no pipes")
        text = ""
        for name in names:
            path = self._path(name)
            if (there := self.at(path)) != "file":
                why = os.strerror(errno.EISDIR if there else errno.ENOENT)
                raise CommandError(f"Error: {command}: {_shown(name)}: {why}\n")
            part = self._text(path, name, WHOLE_BYTES if command == "tail" else bytes_shown(self._tokens))
            lines = _LINE.findall(part) if command != "cat" else []
            text += {
                "head": "".join(lines[:count]),
                "tail": "".join(lines[max(len(lines) - count, 0) :]),
            }.get(command, part)
        text = truncate(text, unwrap(names[0], compat=self._compat), tokens=self._tokens)
        return Result(f"Success: The content of {_shown(' '.join(names))} is:\n{text}")

    def _text(self, path: str, name: str, limit: int) -> str:
        """Up to `limit` bytes of a file as text."""
        if path in self.written:
            return self.written[path]
        try:
            data, whole = self.index.read(path, limit)
            text = codecs.getincrementaldecoder("utf-8")().decode(data, final=whole)
        except OSError as error:
            raise CommandError(f"Error: {_shown(name)}: {error.strerror}") from error
        except UnicodeDecodeError:
            raise CommandError(f"Error: {_shown(name)} is not a text in UTF-8") from None
        if "\0" in text:
            raise CommandError(f"Error: {_shown(name)} is not a text")
        if limit == WHOLE_BYTES and not whole:
            raise CommandError(f"Error: {_shown(name)} is too long for tail")
        return text

    def _path(self, word: str) -> str:
        """The path of a word of a command, "" for the repository itself."""
        path = posixpath.normpath(posixpath.join(self.cwd, unwrap(word, compat=self._compat)))
        if path.startswith(("/", "../")) or path == "..":
            raise CommandError(
                fill(packaged_text("explore_outside"), file=_shown(path), folder=self.cwd or ".")
            )
        return "" if path == "." else path


def _operators(words: Sequence[str]) -> bool:
    return any(word[:1] in {">", "<", "|", "&", ";"} for word in words)


def _shown(name: str) -> str:
    """A name in a message: on one line, and not without end."""
    name = name if len(name) <= 200 else f"{name[:200]}..."
    return name if name.isprintable() else ascii(name)[1:-1]
