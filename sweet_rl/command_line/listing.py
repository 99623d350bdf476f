"""The list of stages without importing them: their modules, their purpose, their outputs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple


class StageEntry(NamedTuple):
    """A stage in a list of stages.

    Attributes:
        place: `module:function`; imported when the stage is asked for.
        summary: a line for the list.
        writes: patterns of the files that it writes, to say so where one is missing.
    """

    place: str
    summary: str
    writes: tuple[str, ...] = ()


def written_by(path: Path, stages: Mapping[str, StageEntry]) -> str:
    """A sentence on the stage that writes such a file or folder, behind a blank; "" for any other."""
    fits = [
        (len(pattern), name)
        for name, stage in stages.items()
        for pattern in stage.writes
        if path.match(pattern)
    ]
    return f" `sweet-rl {max(fits)[1]}` writes it." if fits else ""
