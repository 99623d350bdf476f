"""Made repositories on disk: folders to explore, and the task records that ask about them."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from sweet_rl import tracking
from sweet_rl.errors import StorageError, UsageError
from sweet_rl.records.files import replace_file
from sweet_rl.worlds.auto_explore.repositories.made import MadeRepository, make_repository, repository_names

REPOSITORIES: Final = "repos"
"""The folder of repositories, in the folder that is written."""

TASKS: Final = "made_tasks.json"
"""The file of task records beside it."""


def write_repositories(
    folder: str | Path, *, num: int, seed: int = 0, hops: int = 1, overwrite: bool = False
) -> int:
    """Write `num` repositories and their task records. The same seed writes the same bytes.

    A repository appears whole or not at all.
    """
    if num < 1:
        raise UsageError(f"The number of repositories must be at least 1, got {num}.")
    folder = Path(folder).expanduser()
    made = [make_repository(name) for name in repository_names(num, seed, hops=hops)]
    there = [path for path in (folder / TASKS, *(_place(folder, one) for one in made)) if path.exists()]
    if there and not overwrite:
        raise UsageError(f"{str(there[0])!r} exists; pass --overwrite or choose another --output_dir.")
    rows = [row for one in made for row in one.rows()]
    write_into(folder / REPOSITORIES, made)
    tracking.writes(folder / TASKS)
    replace_file(folder / TASKS, [json.dumps(rows, indent=1).encode()])
    return len(rows)


def write_into(folder: Path, made: Sequence[MadeRepository]) -> None:
    """Write repositories as sub-folders of `folder`, one whole one after the other."""
    tracking.writes(folder)  # beside it: a file in there could be taken for a repository
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for one in made:
            _write(one, folder / one.name)
    except OSError as error:
        raise StorageError(f"Cannot write to {str(folder)!r}: {error}.") from error


def _place(folder: Path, made: MadeRepository) -> Path:
    return folder / REPOSITORIES / made.name


def _write(made: MadeRepository, place: Path) -> None:
    with tempfile.TemporaryDirectory(dir=place.parent, prefix=".making-") as work:
        new = Path(work) / made.name
        for path, text in made.files.items():
            (new / path).parent.mkdir(parents=True, exist_ok=True)
            (new / path).write_text(text, encoding="utf-8")
        if place.is_symlink() or place.exists():
            shutil.move(place, Path(work) / "old")
        new.rename(place)
