"""One writer at a time for a file, also across atomic replacements of it."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sweet_rl.errors import StorageError, UsageError

try:
    import fcntl
except ImportError as error:
    raise UsageError(
        "Windows itself cannot lock files as runs need it: install and run sweet_rl in WSL (docs/install.md)."
    ) from error


@contextmanager
def locked(path: str | Path) -> Iterator[None]:
    """Hold the right to write to `path`, in the form of an empty hidden file beside it.

    The lock is the kernel's: a crash frees it, and the file it leaves behind blocks no other run. Folders that are
    made for it and stay empty are taken away again.

    Raises:
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
