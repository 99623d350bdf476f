"""Which of the viewer's layouts shows trajectories: chosen by what their rows have, whatever their world."""

from __future__ import annotations

from collections.abc import Sequence

from sweet_rl.types import Trajectory
from sweet_rl.viewer.content import Kind
from sweet_rl.viewer.game import rewards_turns


def kind_of_trajectories(trajectories: Sequence[Trajectory]) -> Kind:
    """The kind that shows them."""
    if rewards_turns(trajectories):
        return "game"
    return "design" if has_pictures(trajectories) else "code"


def has_pictures(trajectories: Sequence[Trajectory]) -> bool:
    """Whether any row names a picture: of the target, of a draft, or as its answer (published rows)."""
    return any(
        "target_image" in one.extra or "drafts" in one.extra or (one.answer or "").endswith(".png")
        for one in trajectories
    )
