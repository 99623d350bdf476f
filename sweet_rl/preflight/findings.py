"""Findings of a look at what a run needs: of data, and of the machine."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final, Literal, NamedTuple

from sweet_rl.errors import SweetRLError
from sweet_rl.flags import listed
from sweet_rl.records import read_rows
from sweet_rl.records.rows import trajectory_from_row
from sweet_rl.worlds import load_tasks, world_of
from sweet_rl.worlds.dialogue import HUB_REPOSITORY, published_data

Level = Literal["ok", "warn", "wrong"]


GB: Final = 1e9


@dataclass(frozen=True, slots=True)
class Finding:
    """One check and its result.

    Attributes:
        level: "wrong" would end the run sooner or later; "warn" may, or makes it another run than intended.
        what: the thing.
        seen: what it is like.
        repair: what to do; "" where it is as it should be.
    """

    level: Level
    what: str
    seen: str
    repair: str = ""

    def __str__(self) -> str:
        """One line, and a second one with the repair."""
        name = {"ok": "OK", "warn": "WARN", "wrong": "WRONG"}[self.level]
        line = f"{name:<6} {self.what}: {self.seen}"
        return f"{line}\n       repair: {self.repair}" if self.repair else line


def fine(what: str, seen: str) -> Finding:
    """A finding of level "ok"."""
    return Finding("ok", what, seen)


def warn(what: str, seen: str, repair: str) -> Finding:
    """A finding of level "warn": it may end the run, or makes it another one than intended."""
    return Finding("warn", what, seen, repair)


def missing(what: str, seen: str, repair: str) -> Finding:
    """A finding of level "wrong": it would end the run sooner or later."""
    return Finding("wrong", what, seen, repair)


_LOOKED_AT: Final = 100
"""Dialogues that are read; a published file has 15,000 and may take a gigabyte."""

_CHUNK_BYTES: Final = 1 << 22


def look_at_tasks(what: str, source: str, *, wanted: int, variable: str, world: str) -> Finding:
    """A task source: as many tasks as are wanted, each with what its world needs."""
    if source.partition(":")[0] == HUB_REPOSITORY and not _is_cached(source):
        repair = f"hf download {HUB_REPOSITORY} --repo-type dataset"
        return Finding("warn", what, f"{source} is not in the hub's cache and will be fetched.", repair)
    if source.endswith(".jsonl") and not Path(source).is_file():
        return missing(what, f"there is no file {source!r}", world_of(world).how_to_get(Path(source)))
    try:
        tasks = load_tasks(source, num_tasks=wanted)
    except SweetRLError as error:
        return missing(what, str(error), "name another source, or repair the file")
    if len(tasks) < wanted:
        seen = f"{source} has {len(tasks)} tasks, {wanted} are wanted"
        return missing(what, seen, f"{variable}={len(tasks)}, or the whole file" if tasks else "another file")
    named = world_of(world)
    wrong = next((task for task in tasks if named.lacks(task)), None)
    if wrong is not None:
        seen = f"task {wrong.task_id!r} of {source} has no {named.lacks(wrong)}"
        return missing(what, seen, f"tasks of {named.name}, such as {named.test_tasks}")
    return fine(what, f"{len(tasks)} of {source}")


def look_at_dialogues(path: str, *, repeats: int, flag: str = "OFFLINE") -> Finding:
    """Trajectories to learn from: readable, with prompts, `repeats` rows for each task."""
    what = "dialogues to learn from"
    if not Path(path).is_file():
        return missing(what, f"there is no file {path!r}", _near(path, flag) or published_data(Path(path)))
    try:
        rows = list(islice(read_rows(path), _LOOKED_AT))
        for line, row in rows:
            trajectory_from_row(row, path=path, line=line)
    except SweetRLError as error:
        return missing(what, str(error), f"fetch or make {path} again")
    if not rows:
        return missing(what, f"{path} is empty", "fetch or make it again")
    entries = [entry for _, row in rows for entry in row["dialogue_history"]]
    turns = [entry for entry in entries if entry.get("role") == "assistant"]
    if not turns or not all(turn.get("input") for turn in turns):
        seen = f"{path}: an agent's turn has no 'input', the prompt that it answered"
        return missing(what, seen, "take trajectories of simulate_interactions, or published ones")
    count = _lines(path)
    if count % repeats:
        seen = f"{path} has {count} rows, which is no multiple of {repeats} repeats of each task"
        return missing(what, seen, "set values.repeats to those that the file has, or fetch the whole file")
    return fine(what, f"{count} rows of {path}, {repeats} of each of {count // repeats} tasks")


def bytes_of_dialogues(path: str, count: int | None) -> float:
    """How much disk space dialogues take."""
    if count is not None:
        return count * 60e3
    return Path(path).stat().st_size if Path(path).is_file() else 0


def _lines(path: str) -> int:
    count, last = 0, b"\n"
    with Path(path).open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            count += chunk.count(b"\n")
            last = chunk
    return count + (not last.endswith(b"\n"))


def _near(path: str, flag: str) -> str:
    """Where a file of this name lies instead: in the nearest folder that there is, or one below it."""
    named = Path(path)
    above = next((folder for folder in named.parents if folder.is_dir()), Path())
    near = sorted([*above.glob(named.name), *above.glob(f"*/{named.name}")])
    return f"{flag}={near[0]}" if near else ""


def _is_cached(source: str) -> bool:
    try:
        from huggingface_hub import try_to_load_from_cache  # an extra
    except ImportError:
        return False
    split = source.partition(":")[2] or "test"
    found = try_to_load_from_cache(HUB_REPOSITORY, f"backend_tasks/{split}.jsonl", repo_type="dataset")
    return isinstance(found, str)


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
