"""The environment of a run: versions, the library's commit, the machine. Nothing heavy is imported.

No host name, no user name and no environment is among them.
"""

from __future__ import annotations

import functools
import os
import platform
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Final

from sweet_rl.types import Json
from sweet_rl.version import __version__

_PACKAGES: Final = (
    "torch", "transformers", "tokenizers", "safetensors", "accelerate", "peft", "deepspeed", "bitsandbytes",
    "vllm", "ray", "datasets", "huggingface_hub", "hydra-core", "aiohttp", "numpy", "pillow",
)  # fmt: skip
_NOT_OF_RUNS: Final = frozenset({"dev", "docs", "bench"})
"""Extras whose packages no stage imports."""


@functools.cache
def versions() -> dict[str, str]:
    """Versions of the library, of Python, and of installed packages that affect numbers."""
    found = {"sweet_rl": __version__, "python": platform.python_version()}
    for name in dict.fromkeys((*_PACKAGES, *_of_extras())):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def _of_extras() -> Iterator[str]:
    """The packages that the library names in its extras, such as the engines of worlds."""
    try:
        wanted = metadata.requires("sweet_rl") or ()
    except metadata.PackageNotFoundError:  # not installed, but on the path
        return
    for line in wanted:
        found = re.match(r"([\w.-]+)(?:\[.*?\])?[^;]*;.*extra == [\"']([\w-]+)", line)
        if found and found[1] != "sweet_rl" and found[2] not in _NOT_OF_RUNS:
            yield found[1]


@functools.cache
def boot() -> str | None:
    """What tells this start of this machine from others, and says nothing else; None where nothing does."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")[:8]
    except OSError:
        return None


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
    return {
        "system": f"{platform.system()} {platform.release()}",
        "processor": _processor(),
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


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


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
