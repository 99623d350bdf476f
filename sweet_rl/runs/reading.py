"""Records of runs, read: where they are, what they say, who made a path.

A `run.json` may be another program's, torn, or edited: what has not the form of a record is none.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import msgspec

from sweet_rl.tracking import RECORD
from sweet_rl.types import Json

_Objects: Final = list[dict[str, Any]] | None
_Usage: Any = msgspec.defstruct(
    "_Usage",
    [
        ("prompt_tokens", int | None),
        ("completion_tokens", int | None),
        ("replies_without_usage", int),
        ("retries", int),
        ("replies", int),
        ("requests", int, 0),
        ("failed_requests", int, 0),
    ],
)
_Cost: Any = msgspec.defstruct("_Cost", [("usd", float | None)])
_Progress: Any = msgspec.defstruct(
    "_Progress",
    [
        ("unit", str),
        ("done", int),
        ("total", int),
        ("failed", int, 0),
        ("per_s", float | None, None),
    ],
)
_Record: Any = msgspec.defstruct(
    "_Record",
    [
        ("id", str),
        ("stage", str),
        ("status", str),
        ("sessions", list[dict[str, Any]]),
        ("wall_s", float | None, None),
        ("inputs", _Objects, None),
        ("outputs", _Objects, None),
        ("settings", dict[str, Any] | None, None),
        ("seeds", dict[str, Any] | None, None),
        ("step", dict[str, Any] | None, None),
        ("usage", dict[str, dict[str, _Usage]], {}),
        ("cost", _Cost | None, None),
        ("progress", _Progress | None, None),
        ("numbers", dict[str, float | None] | None, None),
    ],
)
"""What is read of a record by name; it may have more."""


def place_of(path: Path, *, folder: bool) -> Path:
    """Where the record of an output is."""
    return path / RECORD if folder else path.with_name(f"{path.name}.{RECORD}")


def read_record(place: Path) -> dict[str, Json] | None:
    """The record at that path; None where no readable one is."""
    try:
        found: dict[str, Json] = json.loads(place.read_bytes())
        msgspec.convert(found, _Record)
    except (OSError, ValueError, RecursionError):  # msgspec's own errors are ValueErrors
        return None
    return {"usage": {}} | found


def maker_of(path: Path) -> dict[str, Json] | None:
    """The record of a path: its own, or that of the folder around it."""
    for place in (place_of(path, folder=path.is_dir()), *(above / RECORD for above in path.parents[:3])):
        found = read_record(place)
        if found is not None:
            return found
    return None


def trained_from(critic: str | Path) -> str | None:
    """The model that a critic of `train_dpo` began as, by its folder's record; None where none says it."""
    found = read_record(place_of(Path(critic).expanduser(), folder=True))
    if found is None or found["stage"] != "train_dpo":
        return None
    base = (found.get("settings") or {}).get("pretrain")
    if not isinstance(base, str):
        return None
    there = Path(str(found.get("folder") or ""), base)
    return str(there) if there.is_dir() else base
