"""The index of a file of rows, kept beside it: where rows begin, what a list needs of each, their words.

SQLite does the work, with FTS5 for the words. An index is made once, goes on where a file has grown, and is
made anew when the file was changed otherwise. Of a file that is being written only whole lines count; a line
that cannot be read is told and passed over.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import sqlite3
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from sweet_rl.errors import DataError, StorageError, UsageError
from sweet_rl.records import locked
from sweet_rl.records.files import parse_line
from sweet_rl.types import Json

VERSION = 2  # of what an index holds: one of another version is made anew
_EDGE = 1 << 16  # bytes at both ends of what is known, by which a file that grows is known
_BATCH = 1000  # rows that are committed together
_AGAIN_S = 0.2  # between two looks whether another process has made the index
_WORD = re.compile(r"[^\W_]+")

_TABLES = """
CREATE TABLE rows(
    position INTEGER PRIMARY KEY, start INTEGER, length INTEGER, task TEXT, repeat INTEGER, entry TEXT
);
CREATE INDEX by_task ON rows(task, repeat);
CREATE TABLE broken(line INTEGER PRIMARY KEY, why TEXT);
CREATE TABLE facts(name TEXT PRIMARY KEY, value TEXT);
CREATE VIRTUAL TABLE words USING fts5(text, content='', tokenize="unicode61 remove_diacritics 2");
INSERT INTO words(words, rank) VALUES ('hashsize', 33554432); -- bytes in memory: fewer pieces to merge
"""


@dataclass(frozen=True, slots=True)
class Entry:
    """What the index keeps of one row."""

    task: str
    repeat: int | None  # None: the count of rows of the task before it
    shown: Mapping[str, Json]  # what list, filters and figures need
    text: str = ""  # what a search looks through


@dataclass(frozen=True, slots=True)
class Row:
    """A row as it stands in the file, with its identity."""

    position: int
    task: str
    repeat: int
    row: Mapping[str, Json]


class FileIndex:
    """A file of rows by its index, for several threads; `read` makes an entry, or raises DataError."""

    def __init__(self, path: Path, kind: str, read: Callable[[Mapping[str, Json]], Entry]) -> None:
        self.path, self.kind = path, kind
        self._read = read
        self._lock = threading.RLock()
        self._database: sqlite3.Connection | None = None
        self._known: tuple[int, ...] = ()
        self.done_bytes = 0

    def refresh(self) -> bool:
        """Bring the index up to date; True where anything was new."""
        with self._lock:
            try:
                about = self.path.stat()
                state = (about.st_ino, about.st_size, about.st_mtime_ns)
                if state == self._known:
                    return False
                with self.path.open("rb") as file, _alone(place_of(self.path)):
                    changed = self._bring_up(file, state)
            except OSError as error:
                raise UsageError(f"Cannot read {str(self.path)!r}: {error.strerror}.") from error
            except sqlite3.Error as error:
                raise StorageError(
                    f"Cannot keep an index of {str(self.path)!r} as {str(place_of(self.path))!r}: {error}. "
                    "Free some space, or delete that file."
                ) from error
            self._known = state
            return changed

    def __len__(self) -> int:
        """How many rows there are."""
        return int(self._one("SELECT count(*) FROM rows"))

    @property
    def broken(self) -> list[tuple[int, str]]:
        """Lines that could not be read, and why."""
        with self._lock:
            return list(self._open().execute("SELECT line, why FROM broken ORDER BY line LIMIT 20"))

    def entries(self) -> Iterator[tuple[str, int, dict[str, Json]]]:
        """Task, repeat and what is shown in lists, of every row in file order."""
        with self._lock:
            query = "SELECT task, repeat, entry FROM rows ORDER BY position"
            for task, repeat, shown in self._open().execute(query):
                yield task, repeat, json.loads(shown)

    def listing(self, make: Callable[[], Json]) -> str:
        """The JSON text that `make` gives, kept until the rows change."""
        with self._lock:
            known = self._one("SELECT value FROM facts WHERE name = 'listing'")
            if known is not None:
                return str(known)
            text = json.dumps(make(), ensure_ascii=True, allow_nan=False, separators=(",", ":"))
            with contextlib.suppress(sqlite3.OperationalError), self._open() as database:
                database.execute("INSERT OR REPLACE INTO facts VALUES ('listing', ?)", (text,))
            return text

    def row(self, position: int) -> Row:
        """One row from the file."""
        with self._lock:
            query = "SELECT start, length, task, repeat FROM rows WHERE position = ?"
            found = self._open().execute(query, (position,)).fetchone()
        if found is None:
            raise IndexError(position)
        start, length, task, repeat = found
        with self.path.open("rb") as file:
            file.seek(start)
            return Row(position, task, repeat, parse_line(file.read(length), self.path, position + 1))

    def of_task(self, task: str, repeat: int) -> list[int]:
        """Positions of the rows of one repeat of a task."""
        with self._lock:
            query = "SELECT position FROM rows WHERE task = ? AND repeat = ? ORDER BY position"
            return [place for (place,) in self._open().execute(query, (_plain(task), repeat))]

    def search(self, text: str) -> list[int]:
        """Positions of the rows with these words one after the other, whatever case, accents and what stands between."""
        words = _WORD.findall(_plain(text))
        if not words:
            return []
        with self._lock:
            query = "SELECT rowid FROM words WHERE words MATCH ? ORDER BY rowid"
            return [place for (place,) in self._open().execute(query, (f'"{" ".join(words)}" *',))]

    def close(self) -> None:
        """Close the index; it stays on the disk."""
        with self._lock:
            if self._database is not None:
                self._database.close()
                self._database = None
                self._known = ()

    def _one(self, query: str) -> Json:
        with self._lock:
            found = self._open().execute(query).fetchone()
        return None if found is None else found[0]

    def _open(self) -> sqlite3.Connection:
        """The index, made where it is missing or broken."""
        if self._database is not None:
            return self._database
        place = place_of(self.path)
        for attempt in range(2):
            database = sqlite3.connect(place, timeout=60, check_same_thread=False)
            try:
                database.execute("PRAGMA synchronous = OFF")  # it can be made anew
                database.execute("PRAGMA cache_size = -32000")
                tables = {name for (name,) in database.execute("SELECT name FROM sqlite_master")}
                if "facts" not in tables:
                    database.executescript(_TABLES)
                break
            except sqlite3.DatabaseError:
                database.close()
                if attempt:
                    raise
                place.unlink(missing_ok=True)
        self._database = database
        return database

    def _bring_up(self, file: BinaryIO, state: tuple[int, ...]) -> bool:
        database = self._open()
        facts = dict(database.execute("SELECT name, value FROM facts WHERE name != 'listing'"))
        end, before = int(facts.get("end", 0)), json.loads(facts.get("state") or "null")
        same = facts.get("kind") == self.kind and facts.get("version") == str(VERSION)
        if same and before == list(state):
            self.done_bytes = state[1]
            return False
        grown = same and state[1] >= end and facts.get("edges") == _edges(file, end)
        if not grown or (before and (before[0] != state[0] or before[1] >= state[1])):  # changed otherwise
            end = 0
            with database:
                for name in ("rows", "broken", "facts", "words"):
                    database.execute(f"DROP TABLE IF EXISTS {name}")
            database.executescript(_TABLES)
        self._append(database, file, end, state)
        return True

    def _append(self, database: sqlite3.Connection, file: BinaryIO, end: int, state: tuple[int, ...]) -> None:
        """Read the lines behind `end`; a commit for every batch, so that a kill loses no more."""
        position = int(database.execute("SELECT count(*) FROM rows").fetchone()[0])
        line = position + int(database.execute("SELECT count(*) FROM broken").fetchone()[0])
        repeats: dict[str, int] = {}
        file.seek(end)
        raw = b"\n"
        while raw:
            with database:
                for _ in range(_BATCH):
                    start, raw = end, file.readline()
                    if not raw:
                        break
                    line += 1
                    entry, why = None, ""
                    if raw.strip():
                        try:
                            entry = self._read(parse_line(raw, None, line))
                        except DataError as error:
                            why = _plain(str(error))
                    if entry is not None:
                        task, repeat = _plain(entry.task), entry.repeat
                        if repeat is None:  # those that rows do not name are counted
                            if task not in repeats:
                                query = "SELECT count(*) FROM rows WHERE task = ?"
                                repeats[task] = database.execute(query, (task,)).fetchone()[0]
                            repeat = repeats[task]
                        if task in repeats:
                            repeats[task] += 1
                        row = (position, start, len(raw), task, repeat, json.dumps(entry.shown))
                        database.execute("INSERT INTO rows VALUES (?, ?, ?, ?, ?, ?)", row)
                        if entry.text:
                            words = (position, _plain(entry.text))
                            database.execute("INSERT INTO words(rowid, text) VALUES (?, ?)", words)
                        position += 1
                    elif not raw.endswith(b"\n"):  # is still being written
                        raw = b""
                        break
                    elif why:
                        database.execute("INSERT OR REPLACE INTO broken VALUES (?, ?)", (line, why))
                    end += len(raw)
                self.done_bytes = end
                facts = {"kind": self.kind, "version": VERSION, "end": end, "edges": _edges(file, end)}
                facts["state"] = json.dumps(state) if not raw else ""
                database.executemany("INSERT OR REPLACE INTO facts VALUES (?, ?)", facts.items())
                database.execute("DELETE FROM facts WHERE name = 'listing'")
                file.seek(end)


@contextlib.contextmanager
def _alone(place: Path) -> Iterator[None]:
    """While no other process works on the index; two would write the same rows."""
    with contextlib.ExitStack() as held:
        while True:
            try:
                held.enter_context(locked(place))
                break
            except StorageError as error:
                if not isinstance(error.__cause__, BlockingIOError):
                    raise
                time.sleep(_AGAIN_S)
        yield


def place_of(path: Path) -> Path:
    """Where the index of a file is: hidden beside it; in a temporary folder where that cannot be written."""
    beside = path.with_name(f".{path.name}.index.sqlite")
    if os.access(path.parent, os.W_OK):
        return beside
    name = hashlib.sha256(str(path.resolve()).encode("utf-8", "surrogateescape")).hexdigest()[:24]
    folder = Path(tempfile.gettempdir()) / f"sweet_rl_view_{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.stat().st_uid != os.getuid() or folder.is_symlink():
        raise UsageError(f"{str(folder)!r} belongs to somebody else; set TMPDIR to a folder of your own.")
    return folder / f"{name}.sqlite"


def _edges(file: BinaryIO, end: int) -> str:
    """A digest of the file's first and last bytes before `end`."""
    file.seek(0)
    digest = hashlib.sha256(file.read(min(_EDGE, end)))
    file.seek(max(0, end - _EDGE))
    digest.update(file.read(min(_EDGE, end)))
    return digest.hexdigest()


def _plain(text: str) -> str:
    """Without lone surrogates, which SQLite does not take."""
    return text.encode("utf-8", "replace").decode()
