"""Episodes that are graded as they end, for whoever learns while playing."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

from sweet_rl.batching import MicroBatcher
from sweet_rl.interface.grades import grade
from sweet_rl.pages.flags import RenderFlags
from sweet_rl.types import Trajectory
from sweet_rl.worlds import Options

_AT_ONCE: Final = 64


def grading_of(
    options: Options, settings: Mapping[str, Any], *, folder: Path | None = None
) -> dict[str, Any]:
    """Settings of `grade` for a world's episodes: pages are drawn as for the human, if nothing else is said.

    Args:
        options: of the world.
        settings: what is said.
        folder: that pictures in episodes are relative to; None: they are named by their whole paths.
    """
    if not isinstance(options, RenderFlags) or "grader" in settings:
        return dict(settings)
    drawn = {one.name: getattr(options, one.name) for one in fields(RenderFlags)}
    return {"rendering": drawn, **({} if folder is None else {"folder": folder}), **settings}


def grading_as_they_end(settings: Mapping[str, Any]) -> MicroBatcher[Trajectory, Trajectory]:
    """Gives each episode that is handed in its reward; whoever asks for it closes it.

    Episodes that end while others are graded wait for each other, and are graded together.

    Args:
        settings: of `grade`.
    """

    def engine(batch: Sequence[Trajectory]) -> Generator[Sequence[tuple[int, Trajectory]], None, None]:
        yield list(enumerate(grade(list(batch), **settings)))

    return MicroBatcher(engine, max_batch=_AT_ONCE)
