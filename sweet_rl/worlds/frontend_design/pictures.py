"""The pictures of a run: PNG files in one folder, named so that a resumed run finds its own again.

Rows hold paths relative to the output file's folder, so that a run can be moved with its pictures.

Published behaviour: docs/published/sweet_rl.md#in-grading.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from sweet_rl import tracking
from sweet_rl.records import replace_file
from sweet_rl.types import Task, digest


class PictureFolder:
    """A folder of pictures, each written at once or not at all.

    Args:
        folder: where the files go; made when the first one comes.
        beside: the folder that paths in rows are relative to; None: they are whole.
        samples: which repeat an episode is, by task and seed; names of unknown ones have the seed instead.
    """

    def __init__(
        self, folder: Path, *, beside: Path | None, samples: Mapping[tuple[str, int], int] | None = None
    ) -> None:
        self._folder = Path(os.path.abspath(folder.expanduser()))  # links stay as they are
        self._beside = None if beside is None else Path(os.path.abspath(beside.expanduser()))
        self._samples = samples or {}

    def save_draft(self, task: Task, seed: int, turn: int, image: bytes) -> str:
        """Keep the picture of a turn; one of an interrupted run is overwritten."""
        sample = self._samples.get((task.task_id, seed))
        which = f"seed{seed}" if sample is None else f"{sample}"
        return self._save(f"{_slug(task.task_id)}_{which}_{turn}.png", image)

    def save_target(self, task: Task, image: bytes) -> str:
        """Keep the picture of a task's page; its repeats share it."""
        return self._save(f"{_slug(task.task_id)}_target.png", image)

    def _save(self, name: str, image: bytes) -> str:
        path = self._folder / name
        if not (path.is_file() and path.read_bytes() == image):
            tracking.writes(self._folder, folder=True, continues=True)
            replace_file(path, [image])
        return (path if self._beside is None else Path(os.path.relpath(path, self._beside))).as_posix()


def _slug(task_id: str) -> str:
    """A file name's part; ids that are none get a digest, so that two never share a name."""
    plain = re.sub(r"[^A-Za-z0-9-]+", "-", task_id)[:60]
    return plain if plain == task_id else f"{plain}-{digest(task_id, 8)}"
