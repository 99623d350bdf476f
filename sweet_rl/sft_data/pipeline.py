"""Which stage of Reflect-RL writes which file: what to do when one is missing.

Published behaviour: docs/published/reflect_rl.md#data-of-autoexplore, #file-formats.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

_WRITERS: Final = {
    "repos": "make_repositories",
    "repos_filtered": "filter_repo",
    "tasks": "gen_task",
    "tasks/data.json": "gen_task",
    "tasks_filtered/data.json": "filter_task",
    "data_reflection_negative.json": "reflection_negative",
    "train.json": "split_data",
    "validate.json": "split_data",
    "test.json": "split_data",
    "taxi/data_reflection.json": "taxi_reflection",
    "alfworld/data_reflection.json": "alfworld_reflection",
}


def written_by(path: Path) -> str:
    """A sentence on the stage that writes such a file or folder, behind a blank; "" for any other."""
    name, folder = path.name, path.parent.name
    stage = _WRITERS.get(f"{folder}/{name}") or _WRITERS.get(name)
    if stage is None and name.startswith("sft") and path.suffix == ".jsonl":
        stage = f"{folder}_gen_sft" if folder in {"taxi", "alfworld"} else "gen_sft"
    return f" `sweet-rl reflect {stage}` writes it." if stage else ""
