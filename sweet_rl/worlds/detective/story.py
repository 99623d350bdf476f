"""The Detective game file: its path, and a check that it is the right one.

The file is not part of this project; its checksum identifies it.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from sweet_rl.errors import UsageError

VARIABLE = "SWEET_RL_DETECTIVE"
"""The environment variable that names the file."""

MD5 = "822655c9be83e292e06d3d3b1d6a9734"
"""Of detective.z5, release 1, serial number 000715: what jericho knows the game by."""

_HOW_TO_GET = (
    "Get detective.z5 from jericho's collection of games (github.com/BYU-PCCL/z-machine-games, folder "
    f"jericho-game-suite) and name it, or set {VARIABLE} to its path."
)


def find_story(path: str | Path | None = None) -> Path:
    """The game file, checked."""
    named = path or os.environ.get(VARIABLE)
    if not named:
        raise UsageError(f"No Detective game file is named. {_HOW_TO_GET}")
    story = Path(named).expanduser()
    try:
        found = hashlib.md5(story.read_bytes(), usedforsecurity=False).hexdigest()
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise UsageError(
            f"Cannot read the Detective game file {str(story)!r} ({reason}). {_HOW_TO_GET}"
        ) from None
    if found != MD5:
        raise UsageError(
            f"{str(story)!r} is not the Detective game file: its MD5 is {found}, expected {MD5}. "
            f"{_HOW_TO_GET}"
        )
    return story
