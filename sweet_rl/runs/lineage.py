"""What an output was made from, by the records of the runs behind it."""

from __future__ import annotations

from pathlib import Path

from sweet_rl.runs.reading import maker_of

_DEEP = 20
"""Runs behind runs that are looked at: more than a chain of stages has, so that a circle ends."""


def worlds_behind(path: str | Path, deep: int = _DEEP) -> set[str]:
    """The worlds whose dialogues an output was made from; none where no record says it.

    Args:
        path: a file or folder, such as a critic's.
        deep: how many runs behind it are looked at.
    """
    found = maker_of(Path(path).expanduser()) if deep else None
    if found is None:
        return set()
    if world := found.get("settings", {}).get("task_type"):
        return {str(world)}
    there = Path(str(found.get("folder", ".")))
    sources = (there / Path(str(one["source"])).expanduser() for one in found.get("inputs", ()))
    return {world for source in sources if source.exists() for world in worlds_behind(source, deep - 1)}
