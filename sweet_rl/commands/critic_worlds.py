"""Whether a critic is asked about the world that it was trained on."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from sweet_rl.runs.reading import maker_of, worlds_behind
from sweet_rl.types import Trajectory


def warn_of_another_world(critic: str | Path, trajectories: Iterable[Trajectory]) -> None:
    """Print a warning where records say that a critic has learned from other worlds than these dialogues are of.

    Args:
        critic: its folder, as the run that asks it names it; what has no record is not warned of.
        trajectories: that it scores, or has scored.
    """
    settings = (one.provenance.get("settings") or {} for one in trajectories)
    here = {str(own["task_type"]) for own in settings if "task_type" in own}
    learned = worlds_behind(critic) if Path(critic).expanduser().is_dir() else set()
    if here and learned and not here <= learned:
        print(
            f"warning: the critic {str(critic)!r} has learned from {', '.join(sorted(learned))}, and these dialogues "
            f"are of {', '.join(sorted(here))}: its scores may mean nothing. Name a critic of that world.",
            file=sys.stderr,
        )


def warn_of_a_file(path: str | Path, trajectories: Iterable[Trajectory]) -> None:
    """The same of the critic that a credit file was made by.

    Args:
        path: of the credit file.
        trajectories: whose turns it scores.
    """
    record = maker_of(Path(path)) or {}
    if record.get("stage") == "credit":
        critic = Path(str(record["folder"])) / Path(str(record["settings"]["critic"])).expanduser()
        warn_of_another_world(critic, trajectories)
