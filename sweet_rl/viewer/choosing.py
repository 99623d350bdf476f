"""Which of the viewer's layouts shows trajectories: chosen by what their rows have, whatever their world."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sweet_rl.types import Trajectory
from sweet_rl.viewer.code import CodeContents
from sweet_rl.viewer.content import Contents
from sweet_rl.viewer.design import DesignContents
from sweet_rl.viewer.game import GameContents, rewards_turns

PICTURE_BYTES = 100_000_000
"""The default limit of pictures in an exported page."""


def contents_of(trajectories: Sequence[Trajectory], title: str, *, folder: Path) -> Contents:
    """Turns with rewards, pictures beside the wanted one, or answers beside hidden ones, test by test.

    Args:
        trajectories: in the order in which they are to be listed.
        title: usually the name of their file.
        folder: that of the file, which pictures are relative to.
    """
    if rewards_turns(trajectories):
        return GameContents(trajectories, title)
    if has_pictures(trajectories):
        return DesignContents(trajectories, title, folder=folder)
    return CodeContents(trajectories, title)


def has_pictures(trajectories: Sequence[Trajectory]) -> bool:
    """Whether any row names a picture: of the target, of a draft, or as its answer (published rows)."""
    return any(
        "target_image" in one.extra or "drafts" in one.extra or (one.answer or "").endswith(".png")
        for one in trajectories
    )
