"""The machine: free disk, GPUs and their memory, programs and packages."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from sweet_rl.flags import listed
from sweet_rl.preflight.findings import Finding, fine, missing, warn
from sweet_rl.preflight.models import GB

_ROOM: Final = 1.5
"""An estimate is no promise: with less room than so many times of it, there is a warning."""

_FULL: Final = 0.9
"""Share of a GPU's memory that may be planned for."""


class Gpu(NamedTuple):
    """One GPU: bytes of memory, and how many of them are free."""

    total: float
    free: float


def look_at_output(folder: Path) -> Finding:
    """Whether files can be written there, by writing one."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".preflight-") as file:
            file.write(b"x" * 4096)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        return missing(
            "output", f"{folder} cannot be written: {error.strerror}", "another folder (--set folder=...)"
        )
    return fine("output", f"{folder} can be written")


def look_at_disk(folder: Path, needed: float, parts: str) -> Finding:
    """Whether the disk has room for the outputs."""
    there = next((one for one in (folder, *folder.absolute().parents) if one.exists()), Path("/"))
    free = shutil.disk_usage(there).free
    seen = f"{free / GB:.1f} GB are free at {there}, about {needed / GB:.1f} GB are needed ({parts})"
    if free < needed:
        return missing(
            "disk", seen, "another folder (--set folder=...), room on this disk, or fewer checkpoints"
        )
    if free < _ROOM * needed:
        return warn("disk", seen, "these are estimates: make some room")
    return fine("disk", seen)


def gpus() -> list[Gpu]:
    """The GPUs that child processes see; none where nvidia-smi lists none."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return []
    query = [program, "--query-gpu=memory.total,memory.free", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(query, capture_output=True, text=True, timeout=8, check=True)
        found = [Gpu(*(float(part) * 2**20 for part in line.split(","))) for line in done.stdout.splitlines()]
    except (OSError, ValueError, TypeError, subprocess.SubprocessError):
        return []
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return found
    named = listed(visible)
    if not all(part.isdigit() for part in named):
        return found[: len(named)]  # named by their identity
    return [found[int(part)] for part in named if int(part) < len(found)]


def look_at_gpus(found: Sequence[Gpu], *, processes: int, needed: float, parts: str) -> Finding:
    """Whether the training has as many GPUs as processes, and each has the memory."""
    what, need = "GPU memory", f"about {needed / GB:.1f} GB"
    if not found:
        return _without_gpus(what, f"nvidia-smi lists no GPU; {need} are needed ({parts})", processes)
    if processes > len(found):
        seen = f"{processes} processes are to be launched, and there are {len(found)} GPUs"
        return missing(what, seen, f"--set values.gpus={len(found)}, if that is enough memory")
    least, free = min(gpu.total for gpu in found), min(gpu.free for gpu in found)
    seen = f"{need} of each GPU's {least / GB:.1f} GB are needed ({parts})"
    if needed > least:
        more = "more GPUs, --zero_stage 3, --lora_rank, --adam_offload or a smaller --max_len"
        return missing(what, seen, f"{more} in the configuration")
    if needed > free:
        return warn(what, f"{seen}, and {free / GB:.1f} GB are free", "end what else runs there (nvidia-smi)")
    if needed > _FULL * least:
        return warn(what, seen, "that is tight: a smaller --max_len, or --adam_offload")
    return fine(what, seen)


def _without_gpus(what: str, seen: str, processes: int) -> Finding:
    if processes > 1:
        return missing(what, seen, "a machine with GPUs, or a launcher with one process")
    return warn(what, f"{seen}, in main memory then", "none, if the CPU shall train; large models take long")


def look_at_main_memory(needed: float) -> Finding:
    """Whether main memory has room for offloaded tensors."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    seen = f"{total / GB:.0f} GB, about {needed / GB:.0f} GB are needed for Adam's states"
    if needed > total:
        return missing("main memory", seen, "no --adam_offload, or --lora_rank")
    return fine("main memory", seen)


def look_at_programs(programs: Sequence[str], packages: Sequence[str]) -> list[Finding]:
    """Programs on the path, and packages of this environment, that stages will ask for."""
    lacking = {name: "is not on the path" for name in programs if shutil.which(name) is None}
    lacking |= {name: "is not installed" for name in packages if importlib.util.find_spec(name) is None}
    what = "programs and packages"
    if lacking:
        return [
            missing(what, f"{name!r} {why}", _INSTALL.get(name, "install it, or another configuration"))
            for name, why in lacking.items()
        ]
    return [fine(what, ", ".join(dict.fromkeys([*programs, *packages])))]


_INSTALL: Final = {
    "deepspeed": "pip install '.[deepspeed]'",
    "flash_attn": "--set values.flash_attn=false, or pip install flash-attn",
    "vllm": "--set values.vllm_python=the interpreter of an environment with vLLM, or agent: transformers",
    "chromium": "apt-get install chromium",
    "torch": "make install, or pip install '.[training]'",
    "PIL": "pip install '.[pages]'",
}
