"""A file to which finished episodes are appended, one durable line each.

The rule it keeps: what `append` has returned from survives kill -9, a full disk and a power cut, and what a
crash tears off is at most the last line. It knows nothing of what the rows mean.
"""

from __future__ import annotations

import bisect
import contextlib
import errno
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Self

from sweet_rl.errors import DataError, StorageError, UsageError
from sweet_rl.records.files import encode_row, parse_line, sync_path
from sweet_rl.types import Json

if TYPE_CHECKING:
    import asyncio  # which is not loaded for help


class Journal:
    """Durable appends to one JSON Lines file, by one process at a time.

    Opening locks the file, reads what is there into `rows` (line number, object), and changes nothing: a run may
    still be refused. `begin`, or the first row, creates the file, cuts off a torn last line, and with `overwrite`
    empties it.

    Args:
        path: the file.
        overwrite: what the file holds is thrown away, and not read.
        each: called with every row that exists (line number, byte where its line begins, object) in place of
            `rows`, so that a file may be larger than memory.

    Raises:
        StorageError: another run is writing to the file, or it cannot be opened.
        DataError: a line before the last is broken (that is no crash of ours; a person must look).
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
        self._each = each or (lambda number, _start, row: self.rows.append((number, row)))
        self._waiting: list[tuple[bytes, asyncio.Future[int]]] = []
        self._writer: asyncio.Task[None] | None = None
        self._size, self._begun, self._descriptor = 0, False, -1
        self._cleanup = contextlib.ExitStack()
        self._cleanup.enter_context(locked(self.path))
        try:
            if self.path.exists():
                self._open()
            if self._descriptor >= 0 and not overwrite:
                self._size = self._read_rows()
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

    def _read_rows(self) -> int:
        """Read the rows up to a torn tail; returns the size of what is whole."""
        size, number = 0, 0
        with open(self._descriptor, "rb", closefd=False) as file:
            file.seek(0)
            for number, line in enumerate(file, start=1):
                if line.strip():
                    try:
                        row = parse_line(line, self.path, number)
                    except DataError:
                        if line.endswith(b"\n"):
                            raise
                        break  # torn by a crash
                    self._each(number, size, row)
                size += len(line)
        return size


try:
    import fcntl
except ImportError as error:
    raise UsageError(
        "Windows itself cannot lock files as runs need it: install and run sweet_rl in WSL (docs/install.md)."
    ) from error


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
