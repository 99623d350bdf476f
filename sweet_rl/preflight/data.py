"""Tasks and dialogues: whether they exist, are complete, many enough, and of the right kind."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Final

from sweet_rl.errors import SweetRLError
from sweet_rl.preflight.findings import Finding, fine, missing
from sweet_rl.records import read_rows
from sweet_rl.records.rows import trajectory_from_row
from sweet_rl.worlds import load_tasks, world_of
from sweet_rl.worlds.dialogue import HUB_REPOSITORY, published_data

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
