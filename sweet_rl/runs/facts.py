"""What a record says beside flags: versions, the library's commit, the machine; digests of inputs and outputs.

No host name, no user name and no environment is among them, and nothing heavy is imported. A file's digest is the SHA-256
of its bytes. Tensors fill files that are too large for that: of a file of weights above 64 MiB it covers the size, the first
and the last MiB, and 62 pieces of 64 KiB at even distances between them (`sampled` says so). A training changes all of
these; an edit of a few bytes elsewhere is not seen. A folder's digest is that of its files' names, sizes and digests.
"""

from __future__ import annotations

import functools
import hashlib
import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from importlib import metadata
from io import BufferedReader
from pathlib import Path
from typing import Final

from sweet_rl.chat.formats import model_path
from sweet_rl.tracking import is_record
from sweet_rl.types import Json
from sweet_rl.version import __version__

_PACKAGES: Final = (
    "torch", "transformers", "tokenizers", "safetensors", "accelerate", "peft", "deepspeed", "bitsandbytes",
    "vllm", "ray", "datasets", "huggingface_hub", "hydra-core", "aiohttp", "numpy", "pillow",
    "jericho", "alfworld", "textworld", "fast-downward-textworld", "verifiers", "inspect_ai", "openenv",
    "skyrl-gym", "trl", "verl",
)  # fmt: skip


def now() -> str:
    """The date and the time, in UTC."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@functools.cache
def versions() -> dict[str, str]:
    """Versions of the library, of Python, and of installed packages that affect numbers."""
    found = {"sweet_rl": __version__, "python": platform.python_version()}
    for name in _PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


@functools.cache
def library() -> dict[str, Json]:
    """`commit` and `changed` (whether tracked files differ from it), where the library is a git checkout."""
    package = Path(__file__).parents[1]
    if not _git(package, "ls-files", "__init__.py"):  # installed, or in another repository
        return {}
    return {
        "commit": _git(package, "rev-parse", "HEAD"),
        "changed": bool(_git(package, "status", "--porcelain", "--untracked-files=no", "--", ".")),
    }


def commit() -> str:
    """The library's commit in words; empty where it is no git checkout."""
    found = library()
    return f"{found['commit']}{' with changes' if found['changed'] else ''}" if found else ""


@functools.cache
def machine() -> dict[str, Json]:
    """Kernel, processor, cores that we may use, and memory."""
    processor = platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
        processor = next(names, processor)
    except OSError:
        processor = platform.processor() or processor
    return {
        "system": f"{platform.system()} {platform.release()}",
        "processor": processor,
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
    }


def gpus() -> list[str]:
    """Names of the GPUs that torch has in use; none where it is not loaded."""
    torch = sys.modules.get("torch")
    cuda = getattr(torch, "cuda", None)
    if cuda is None or not getattr(cuda, "is_initialized", bool)():  # not loaded, or only just being loaded
        return []
    return [str(cuda.get_device_name(place)) for place in range(cuda.device_count())]


def _git(folder: Path, *words: str) -> str:
    try:
        done = subprocess.run(  # fixed words
            ["git", "-C", str(folder), *words],  # whichever git there is
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
            env={**os.environ, "GIT_OPTIONAL_LOCKS": "0"},
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


_WEIGHTS: Final = frozenset({".safetensors", ".bin", ".pt", ".pth", ".gguf"})
_WHOLE: Final = 64 << 20  # bytes of a file of weights whose digest covers all of it
_END, _PIECE, _PIECES = 1 << 20, 64 << 10, 62


def digest_of(path: Path) -> dict[str, Json]:
    """`bytes`, `mtime` (seconds) and `sha256` of a file; of a folder `files`, `bytes` and `sha256`."""
    if not path.is_dir():
        return of_open_file(path.open("rb"), path.suffix)
    whole, number, size, sampled = hashlib.sha256(), 0, 0, False
    for file in entries_of(path):
        if is_record(file) or not file.is_file():
            continue
        one = digest_of(file)
        name = file.relative_to(path).as_posix()
        whole.update(f"{name}\0{one['bytes']}\0{one['sha256']}\n".encode("utf-8", "surrogateescape"))
        number, size, sampled = number + 1, size + one["bytes"], sampled or "sampled" in one
    found: dict[str, Json] = {"files": number, "bytes": size, "sha256": whole.hexdigest()}
    return found | ({"sampled": True} if sampled else {})


def identity_of(model: str | Path) -> str:
    """What a model goes by: `sha256:` and the digest of a folder; the name of what is none."""
    folder = Path(model_path(model)).expanduser()
    return f"sha256:{digest_of(folder)['sha256']}" if folder.is_dir() else str(model)


def of_open_file(file: BufferedReader, suffix: str) -> dict[str, Json]:
    """Of a file that is open already: as it was then, even if it has been replaced since. Closes it."""
    with file:
        facts = os.fstat(file.fileno())
        found: dict[str, Json] = {"bytes": facts.st_size, "mtime": facts.st_mtime}
        if suffix not in _WEIGHTS or facts.st_size <= _WHOLE:
            return found | {"sha256": hashlib.file_digest(file, "sha256").hexdigest()}
        digest = hashlib.sha256(str(facts.st_size).encode())
        digest.update(file.read(_END))
        room = facts.st_size - 2 * _END - _PIECE
        for piece in range(_PIECES):
            file.seek(_END + room * piece // (_PIECES - 1))
            digest.update(file.read(_PIECE))
        file.seek(facts.st_size - _END)
        digest.update(file.read(_END))
        return found | {"sha256": digest.hexdigest(), "sampled": True}


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


def entries_of(folder: Path) -> Iterator[Path]:
    """What is no folder below a folder, in the order of the names, without what is hidden."""
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (Path(place, name) for name in sorted(names) if not name.startswith("."))
