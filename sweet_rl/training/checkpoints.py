"""Checkpoints on disk: complete or absent. No torch.

A checkpoint is a folder `checkpoint-<step>` with a `trainer_state.json`. It is written under another name and
renamed, so that a folder of that name is always complete. Beside what Trainer writes it holds what was
minimised (`loss.json`), so that no run resumes with another loss unnoticed.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sweet_rl.errors import StorageError, UsageError
from sweet_rl.records import replace_file, sync_path
from sweet_rl.tracking import is_record
from sweet_rl.training.settings import LossSettings

PARTIAL = ".partial"
"""Folder in which a checkpoint is made."""

_NAME = re.compile(r"checkpoint-(\d+)")
STATE = "trainer_state.json"
"""The file that makes a folder a checkpoint."""
LOSS = "loss.json"
"""The file that says what was minimised."""


def step_of(checkpoint: Path) -> int:
    """The step in a checkpoint's name; -1 for any other name."""
    match = _NAME.fullmatch(checkpoint.name)
    return int(match[1]) if match else -1


def complete_checkpoints(folder: Path) -> list[Path]:
    """All complete checkpoints in `folder`, oldest first."""
    if not folder.is_dir():
        return []
    found = [path for path in folder.iterdir() if step_of(path) >= 0 and (path / STATE).is_file()]
    return sorted(found, key=step_of)


def newest_checkpoint(folder: Path) -> Path | None:
    """The checkpoint to resume from; `folder` may also be a checkpoint itself. None: there is none yet.

    Raises:
        UsageError: `folder` holds something else.
    """
    if step_of(folder) >= 0:
        if (folder / STATE).is_file():
            return folder
        raise UsageError(f"{str(folder)!r} is not a complete checkpoint: it has no {STATE}.")
    if folder.exists() and not folder.is_dir():
        raise UsageError(
            f"--ckpt_path {str(folder)!r} is a file; name the folder that holds the checkpoints."
        )
    found = complete_checkpoints(folder)
    if not found and folder.is_dir() and not all(_of_a_beginning(path) for path in folder.iterdir()):
        raise UsageError(
            f"--ckpt_path {str(folder)!r} holds no checkpoint (folders checkpoint-<step> with a {STATE}). "
            "Name the folder that the interrupted run wrote its checkpoints to, or an empty one."
        )
    return found[-1] if found else None


def _of_a_beginning(path: Path) -> bool:
    """Whether this may lie in the folder of a run that was killed before its first checkpoint."""
    return path.name.startswith(".") or is_record(path)  # hidden: what was being written


def keep_loss(checkpoint: Path, loss: LossSettings) -> None:
    """Write the loss settings into a checkpoint, before it is published."""
    replace_file(checkpoint / LOSS, [json.dumps(asdict(loss), indent=1).encode()])


def check_loss(checkpoint: Path, loss: LossSettings) -> None:
    """Refuse to resume with another loss than that of the checkpoint; one from before it was kept is taken.

    Raises:
        UsageError: names what differs.
    """
    kept = checkpoint / LOSS
    if not kept.exists():
        return
    theirs = json.loads(kept.read_text(encoding="utf-8"))
    differs = [
        f"{name} {theirs[name]!r}, now {ours!r}"
        for name, ours in asdict(loss).items()
        if name in theirs and theirs[name] != ours
    ]
    if differs:
        raise UsageError(
            f"The checkpoint {str(checkpoint)!r} was trained with another loss: {'; '.join(differs)}. Resume "
            "with the earlier flags, or start a new run with another --ckpt_path."
        )


@contextmanager
def writing(folder: Path, step: int, state: Mapping[str, Any]) -> Iterator[Path]:
    """An empty folder for the checkpoint of a step, which gets its place when the block has ended.

    Args:
        folder: of the run.
        step: of the checkpoint.
        state: what its `trainer_state.json` says.

    Raises:
        StorageError: the disk is full or read-only.
    """
    shutil.rmtree(folder / PARTIAL, ignore_errors=True)
    made = folder / PARTIAL / f"checkpoint-{step}"
    made.mkdir(parents=True)
    yield made
    (made / STATE).write_text(json.dumps(state, indent=1), encoding="utf-8")
    publish(folder, made.name)


def publish(folder: Path, name: str) -> Path:
    """Give the finished checkpoint `folder/.partial/<name>` its place in `folder`; it survives a power cut.

    Raises:
        StorageError: the disk is full or read-only.
    """
    made, target = folder / PARTIAL / name, folder / name
    try:
        for path in (*made.rglob("*"), made):
            sync_path(path)
        if target.exists():
            shutil.rmtree(target)
        made.rename(target)
        shutil.rmtree(folder / PARTIAL, ignore_errors=True)
        sync_path(folder)
    except OSError as error:
        raise StorageError(f"Cannot write the checkpoint {str(target)!r}: {error.strerror}.") from error
    return target


def rotate(folder: Path, *, keep: int, max_gb: float) -> None:
    """Remove the oldest checkpoints until at most `keep` of at most `max_gb` are left; the newest stays."""
    found = complete_checkpoints(folder)
    sizes = {path: sum(file.stat().st_size for file in path.rglob("*") if file.is_file()) for path in found}
    while len(found) > 1 and (len(found) > keep or sum(sizes[path] for path in found) > max_gb * 1e9):
        oldest = found.pop(0)
        (oldest / STATE).unlink()  # no longer complete, should we be killed in the middle
        shutil.rmtree(oldest)
