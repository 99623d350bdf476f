"""JSON Lines: read with line numbers, replaced as a whole, or appended to by one process at a time.

What `Journal.append` has returned from survives kill -9, a full disk and a power cut, and what a crash tears off is at most
the last line. Nothing here knows what the rows mean.

Published behaviour: docs/published/sweet_rl.md#files.
"""

from __future__ import annotations

import bisect
import contextlib
import errno
import gzip
import json
import os
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, Self, cast

from sweet_rl.errors import DataError, StorageError, UsageError
from sweet_rl.records.rows import task_from_row, trajectories_from_rows, unique_tasks
from sweet_rl.types import Json, Task, Trajectory

if TYPE_CHECKING:
    import asyncio  # which is not loaded for help

try:
    import fcntl
except ImportError as error:
    raise UsageError(
        "Windows cannot lock files in the way that runs need: install and run sweet_rl in WSL (docs/get_started.md)."
    ) from error

Stamp = tuple[int, int, int, int]
_DEEPEST, _MOST, _LONGEST_NUMBER = 50, 100_000, 1000
"""Of a YAML file: parts within parts, values with those that aliases stand for, characters of a number."""


def read_rows(path: str | Path) -> Iterator[tuple[int, dict[str, Json]]]:
    """Yield (1-based line number, object) for every line that is not blank; UsageError, DataError name what is wrong."""
    try:
        with gzip.open(path) if Path(path).suffix == ".gz" else Path(path).open("rb") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    yield number, parse_line(line, path, number)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise UsageError(f"{str(path)!r} is truncated or not a gzip file: {error}.") from error
    except FileNotFoundError:
        raise UsageError(
            f"There is no file {str(path)!r}. Check the path (it is relative to {str(Path.cwd())!r})."
        ) from None
    except OSError as error:
        raise UsageError(f"Cannot read {str(path)!r}: {error.strerror}.") from error


def parse_line(line: bytes, path: str | Path | None, number: int) -> dict[str, Json]:
    """One line of JSON to an object, or DataError; NaN and Infinity are refused, as JSON does."""

    def fail(problem: str, repair: str) -> NoReturn:
        raise DataError(problem, path=path, line=number, value=line[:80], repair=repair) from None

    def refuse_constant(name: str) -> NoReturn:
        fail(f"holds {name}, which is not JSON", "Use null for a number that is not there.")

    try:
        row = json.loads(line.decode("utf-8-sig"), parse_constant=refuse_constant)
    except UnicodeDecodeError:
        fail("is not UTF-8 text", "Save the file as UTF-8, one JSON object a line.")
    except RecursionError:
        fail("is nested too deeply", "Remove this line.")
    except ValueError as error:
        repair = "One JSON object a line is expected; a line cut off by a crash can be deleted."
        fail(f"is not JSON ({error})", repair)
    if not isinstance(row, dict):
        fail("must hold one JSON object", "A JSON Lines file has one {...} a line.")
    return row


def check_yaml(text: str, path: str | Path) -> None:
    """Refuse YAML that no reader survives: too deep, or whose aliases stand for too much. YAMLError: it is none."""
    import yaml

    opened: list[tuple[str | None, int]] = []  # of each part that has begun: its anchor, what stood before it
    sizes: dict[str | None, int] = {}
    total = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        problem = ""
        if isinstance(event, yaml.CollectionStartEvent):
            opened.append((event.anchor, total))
            problem = "it is nested too deeply" if len(opened) > _DEEPEST else ""
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = opened.pop()
            sizes[anchor] = total - before
        elif isinstance(event, yaml.AliasEvent):
            total += sizes.get(event.anchor, 0)
            within = any(anchor == event.anchor for anchor, _ in opened)
            problem = f"*{event.anchor} stands within itself" if within else ""
        elif isinstance(event, yaml.ScalarEvent):
            sizes[event.anchor] = 1
            if len(event.value) > _LONGEST_NUMBER and event.value[:1] in "+-0123456789" and not event.style:
                problem = f"a number of {len(event.value):,} characters" * (" " not in event.value)
        total += 1
        if problem or total > _MOST:
            problem = problem or f"with its aliases it has more than {_MOST:,} values"
            where = f"{path}, line {event.start_mark.line + 1}"
            raise UsageError(f"{where}: this cannot be read: {problem}. Make it smaller.")


def load_tasks_file(path: str | Path) -> list[Task]:
    """All tasks of a ColBench JSON Lines file, each with an identity of its own; errors as `read_rows`, `task_from_row`."""
    return unique_tasks(task_from_row(row, path=path, line=line) for line, row in read_rows(path))


def load_trajectories(path: str | Path) -> list[Trajectory]:
    """All trajectories of a file, ours or a published one, in file order; errors as `read_rows`, `trajectory_from_row`."""
    return trajectories_from_rows(list(read_rows(path)), path=path)


def encode_row(row: Json) -> bytes:
    """One row as a line; raises ValueError for NaN and Infinity which are not JSON."""
    return json.dumps(row, allow_nan=False).encode() + b"\n"


def replace_rows(path: str | Path, rows: Iterable[Json], as_read: Stamp | None = None) -> Stamp:
    """Write all rows to `path`, at once or not at all; see `replace_file`."""
    return replace_file(path, (encode_row(row) for row in rows), as_read)


def stamp_of(path: str | Path) -> Stamp | None:
    """What tells whether a file has changed; take it before the file is read. None: there is none."""
    try:
        found = Path(path).stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def replace_file(path: str | Path, chunks: Iterable[bytes], as_read: Stamp | None = None) -> Stamp:
    """Write the chunks to `path`, at once or not at all, and survive a power cut.

    Returns the stamp of the new file. UsageError: the file is another one than that of the stamp `as_read`, and the
    content is beside it. StorageError: the disk is full or read-only; the old file is as it was.
    """
    target = Path(os.path.realpath(path))
    temporary: str | None = None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        os.umask(umask := os.umask(0))  # there is no other way to ask for it
        mode = target.stat().st_mode & 0o777 if target.exists() else 0o666 & ~umask
        descriptor, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".tmp")
        with os.fdopen(descriptor, "wb") as file:
            file.writelines(chunks)
            file.flush()
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        written = cast(Stamp, stamp_of(temporary))
        if as_read is not None and stamp_of(target) != as_read:
            kept = Path(temporary).rename(target.with_name(f"{target.stem}.kept_{written[1]}{target.suffix}"))
            temporary = None
            raise UsageError(
                f"{str(target)!r} has changed since it was read, so it was not replaced. The new "
                f"version is in {str(kept)!r}. Choose one of them, or run the same command again."
            )
        Path(temporary).replace(target)
        temporary = None
        sync_path(target.parent)
        return written
    except OSError as error:
        raise StorageError(
            f"Cannot write {str(target)!r}: {error.strerror}. The file is unchanged; "
            "free some space or choose another path, then run the same command again."
        ) from error
    finally:
        if temporary is not None:
            with contextlib.suppress(OSError):
                Path(temporary).unlink()


def sync_path(path: Path) -> None:
    """Sync `path` to disk: a file's content, or the names in a folder."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# ---- a file to which finished episodes are appended


class Journal:
    """Durable appends to one JSON Lines file, by one process at a time.

    Opening locks the file, reads what is there into `rows` (line number, object), and changes nothing: a run may
    still be refused. `begin`, or the first row, creates the file, cuts off a torn last line, and with `overwrite`
    empties it; then what it holds is not read. `each`, in place of `rows`, is called with every row that exists (line number,
    byte where its line begins, object), so that a file may be larger than memory.

    StorageError: another run is writing to the file, or it cannot be opened. DataError: a line before the last is broken
    (that is no crash of ours; a person must look).
    """

    def __init__(
        self,
        path: str | Path,
        *,
        overwrite: bool = False,
        each: Callable[[int, int, dict[str, Json]], None] | None = None,
    ) -> None:
        self.path = Path(path)
        self.rows: list[tuple[int, dict[str, Json]]] = []
        self._waiting: list[tuple[bytes, asyncio.Future[int]]] = []
        self._writer: asyncio.Task[None] | None = None
        self._size, self._begun, self._descriptor = 0, False, -1
        self._cleanup = contextlib.ExitStack()
        self._cleanup.enter_context(locked(self.path))
        try:
            if self.path.exists():
                self._open()
                with open(self._descriptor, "rb", closefd=False) as file:
                    for number, line in enumerate(() if overwrite else file, start=1):
                        if line.strip():
                            try:
                                row = parse_line(line, self.path, number)
                            except DataError:
                                if line.endswith(b"\n"):
                                    raise
                                break  # torn by a crash
                            if each is None:
                                self.rows.append((number, row))
                            else:
                                each(number, self._size, row)
                        self._size += len(line)
        except BaseException:
            self._cleanup.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def begin(self) -> None:
        """From now on the file is this run's: there, whole, and empty with `overwrite`; or StorageError."""
        if self._begun:
            return
        if self._descriptor < 0:
            self._open()
        try:
            os.ftruncate(self._descriptor, self._size)
            if self._size and os.pread(self._descriptor, 1, self._size - 1) != b"\n":
                os.pwrite(self._descriptor, b"\n", self._size)  # whole, but its newline was torn off
                self._size += 1
            sync_path(self.path.parent)
        except OSError as error:
            raise StorageError(f"Cannot write to {str(self.path)!r}: {error.strerror}.") from error
        self._begun = True

    def append(self, rows: Sequence[Json]) -> None:
        """Append rows and return once they are on the disk; StorageError: only those that had room are there, whole."""
        self.begin()
        _, error = self._write([encode_row(row) for row in rows])
        if error is not None:
            raise error

    async def append_soon(self, row: Json) -> int:
        """Append a row and return, once it is on the disk, the byte where its line begins; other episodes continue.

        Rows that arrive while the disk is busy are written together. StorageError: this row is not in the file.
        """
        import asyncio

        self.begin()
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._waiting.append((encode_row(row), future))
        if self._writer is None:
            self._writer = asyncio.create_task(self._write_waiting())
        return await future

    def read(self, start: int) -> dict[str, Json]:
        """The row whose line begins at byte `start`."""
        with open(self._descriptor, "rb", closefd=False) as file:
            file.seek(start)
            return parse_line(file.readline(), self.path, 0)

    async def flush(self) -> None:
        """Wait until every row that was handed over is on the disk (or has failed)."""
        if self._writer is not None:
            await self._writer

    def close(self) -> None:
        """Close the file and free its lock."""
        self._cleanup.close()

    async def _write_waiting(self) -> None:
        import asyncio

        try:
            while self._waiting:
                batch, self._waiting = self._waiting, []
                starts = accumulate((len(line) for line, _ in batch), initial=self._size)
                kept, error = await asyncio.to_thread(self._write, [line for line, _ in batch])
                for place, ((_, future), start) in enumerate(zip(batch, starts, strict=False)):
                    if future.done():  # its episode was cancelled; the row is written all the same
                        continue
                    if error is None or place < kept:
                        future.set_result(start)
                    else:
                        future.set_exception(error)
        finally:
            self._writer = None

    def _write(self, lines: Sequence[bytes]) -> tuple[int, StorageError | None]:
        """Write rows, each whole or not at all; returns how many are there, and why the others are not."""
        position, trouble = self._size, None
        try:
            view = memoryview(b"".join(lines))
            while view:
                written = os.pwrite(self._descriptor, view, position)
                view, position = view[written:], position + written
        except OSError as error:
            trouble = error
        ends = list(accumulate(map(len, lines), initial=self._size))
        kept = bisect.bisect_right(ends, position) - 1
        try:
            if trouble is not None:
                os.ftruncate(self._descriptor, ends[kept])
            os.fsync(self._descriptor)
        except OSError as error:
            trouble, kept = trouble or error, 0
            with contextlib.suppress(OSError):
                os.ftruncate(self._descriptor, self._size)
        self._size = ends[kept]
        if trouble is None:
            return kept, None
        return kept, StorageError(
            f"Cannot write to {str(self.path)!r}: {trouble.strerror}. The {self._size:,} bytes before are "
            "safe, and all rows that fitted; free some space, then run the same command with --to_continue."
        )

    def _open(self) -> None:
        try:
            self._descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            raise StorageError(f"Cannot open {str(self.path)!r} for writing: {error.strerror}.") from error
        self._cleanup.callback(os.close, self._descriptor)


@contextmanager
def locked(path: str | Path) -> Iterator[None]:
    """Hold the right to write to `path`, in the form of an empty hidden file beside it.

    The lock is the kernel's: a crash frees it. Folders that are made for it and stay empty are taken away again.
    StorageError: another run holds it, or the folder cannot be written to.
    """
    target = Path(os.path.realpath(path))
    lock = target.with_name(f".{target.name}.lock")
    made = [folder for folder in target.parents if not folder.exists()]
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        descriptor = _acquire(lock)
    except BlockingIOError as error:
        raise StorageError(
            f"Another run is writing to {str(path)!r}. Wait for it, stop it, or choose another file."
        ) from error
    except OSError as error:
        raise StorageError(f"Cannot write beside {str(path)!r}: {error.strerror}.") from error
    try:
        yield
    finally:
        with suppress(OSError):
            lock.unlink()
        os.close(descriptor)
        with suppress(OSError):
            for folder in made:
                folder.rmdir()  # an empty one


def is_being_written(path: str | Path) -> bool:
    """Whether a run holds the right to write to `path` at this moment."""
    target = Path(os.path.realpath(path))
    try:
        descriptor = os.open(target.with_name(f".{target.name}.lock"), os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno in {errno.EWOULDBLOCK, errno.EACCES}
    finally:
        os.close(descriptor)
    return False


def _acquire(lock: Path) -> int:
    while True:
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(descriptor).st_ino == lock.stat().st_ino:
                return descriptor
        except FileNotFoundError:
            pass  # its last holder removed it between our two calls: try again
        except OSError as error:
            if error.errno in {errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS}:
                return descriptor  # a file system without locks: better to run than to refuse
            os.close(descriptor)
            raise
        os.close(descriptor)
