"""Digests of a run's inputs and outputs, cheap enough for every file.

A file's digest is the SHA-256 of its bytes. Tensors fill files that are too large for that: of a file of
weights above 64 MiB it covers the size, the first and the last MiB, and 62 pieces of 64 KiB at even distances
between them (`sampled` says so). A training changes all of these; an edit of a few bytes elsewhere is not
seen. A folder's digest is that of its files' names, sizes and digests.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path
from typing import Final

from sweet_rl.chat.names import model_path
from sweet_rl.tracking import is_record
from sweet_rl.types import Json

_WEIGHTS: Final = frozenset({".safetensors", ".bin", ".pt", ".pth", ".gguf"})
_WHOLE: Final = 64 << 20
_END: Final = 1 << 20
_PIECE: Final = 64 << 10
_PIECES: Final = 62


def digest_of(path: Path) -> dict[str, Json]:
    """`bytes`, `mtime` (seconds) and `sha256` of a file; of a folder `files`, `bytes` and `sha256`.

    Raises:
        OSError: it is not there, or cannot be read.
    """
    return _of_folder(path) if path.is_dir() else of_open_file(path.open("rb"), path.suffix)


def identity_of(model: str | Path) -> str:
    """What a model goes by: `sha256:` and the digest of a folder; the name of what is none."""
    folder = Path(model_path(model)).expanduser()
    return f"sha256:{digest_of(folder)['sha256']}" if folder.is_dir() else str(model)


def of_open_file(file: BufferedReader, suffix: str) -> dict[str, Json]:
    """Of a file that is open already: as it was then, even if it has been replaced since. Closes it."""
    with file:
        facts = os.fstat(file.fileno())
        found: dict[str, Json] = {"bytes": facts.st_size, "mtime": facts.st_mtime}
        if suffix in _WEIGHTS and facts.st_size > _WHOLE:
            return found | {"sha256": _sampled(file, facts.st_size), "sampled": True}
        return found | {"sha256": hashlib.file_digest(file, "sha256").hexdigest()}


def unchanged(path: Path, then: Json) -> bool | None:
    """Whether the file still has the digest of `digest_of`; None where there is none.

    A file of the same size and time of change is believed to be the same.
    """
    try:
        facts = path.stat()
        if not path.is_dir():
            if facts.st_size != then.get("bytes"):
                return False
            if facts.st_mtime == then.get("mtime"):
                return True
        return bool(digest_of(path)["sha256"] == then.get("sha256"))
    except OSError:
        return None


def files_of(folder: Path) -> Iterator[Path]:
    """The files below a folder in the order of their names, without hidden ones and records."""
    return (path for path in entries_of(folder) if not is_record(path) and path.is_file())


def entries_of(folder: Path) -> Iterator[Path]:
    """What is no folder below a folder, in the order of the names, without what is hidden."""
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (Path(place, name) for name in sorted(names) if not name.startswith("."))


def _of_folder(folder: Path) -> dict[str, Json]:
    whole, number, size, sampled = hashlib.sha256(), 0, 0, False
    for path in files_of(folder):
        one = digest_of(path)
        name = path.relative_to(folder).as_posix()
        whole.update(f"{name}\0{one['bytes']}\0{one['sha256']}\n".encode("utf-8", "surrogateescape"))
        number, size, sampled = number + 1, size + one["bytes"], sampled or "sampled" in one
    found: dict[str, Json] = {"files": number, "bytes": size, "sha256": whole.hexdigest()}
    return found | ({"sampled": True} if sampled else {})


def _sampled(file: BufferedReader, size: int) -> str:
    digest = hashlib.sha256(str(size).encode())
    digest.update(file.read(_END))
    room = size - 2 * _END - _PIECE
    for piece in range(_PIECES):
        file.seek(_END + room * piece // (_PIECES - 1))
        digest.update(file.read(_PIECE))
    file.seek(size - _END)
    digest.update(file.read(_END))
    return digest.hexdigest()
