"""What goes on below a folder, by the records that runs leave there; for whoever looks again and again.

Only records are read, and those that have not changed only once. A run is at work, stands still, is gone (its
process has ended without a word), or has ended.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal

from sweet_rl.runs import facts
from sweet_rl.runs.digests import entries_of
from sweet_rl.runs.reading import read_record
from sweet_rl.tracking import is_record
from sweet_rl.types import Json

_SILENT_S: Final = 60.0
"""A record is written every few seconds; after so many without it something is wrong."""

_GONE_S: Final = 15.0
_SLOW: Final = 10.0
"""Work that takes so many times its usual time for a piece stands still."""

_FIRST_S: Final = 600.0
"""As long may the first piece take: models are loaded before it."""

State = Literal["running", "still", "gone", "finished", "interrupted", "failed"]
AT_WORK: Final = frozenset({"running", "still"})


@dataclass(frozen=True, slots=True)
class Sight:
    """A run as it looks now: its record, its state, why it stands still or is gone, and its parts."""

    content: Mapping[str, Json]
    state: State
    why: str = ""
    parts: list[Sight] = field(default_factory=list)

    @property
    def active(self) -> bool:
        """Whether it, or a part of it, is at work."""
        return self.state in AT_WORK or any(part.active for part in self.parts)


class Watch:
    """Looks at a folder.

    Args:
        folder: with all folders in it.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[Path, tuple[tuple[int, int], dict[str, Json] | None]] = {}

    def look(self, at: datetime | None = None) -> list[Sight]:
        """The runs that are no part of another one: those at work by their beginning, then the newest.

        Args:
            at: the time, for tests.
        """
        at = at or datetime.now(UTC)
        runs: dict[str, dict[str, Json]] = {}
        for content in self._records():
            other = runs.get(str(content["id"]))
            if other is None or str(other.get("updated")) < str(content.get("updated")):
                runs[str(content["id"])] = content
        parts: dict[str, list[str]] = {}
        for name, content in runs.items():
            parent = str(content.get("parent"))
            parts.setdefault(parent if parent in runs else "", []).append(name)
        found = [_sight(runs, parts, name, at) for name in parts.get("", ())]
        return ordered(found)

    def _records(self) -> Iterable[dict[str, Json]]:
        there = {}
        for place in entries_of(self._folder):
            if not is_record(place):
                continue
            try:
                facts_ = place.stat()
            except OSError:  # replaced this very moment
                continue
            state, known = (facts_.st_mtime_ns, facts_.st_size), self._known.get(place)
            there[place] = known if known is not None and known[0] == state else (state, read_record(place))
        self._known = there
        return [content for _, content in there.values() if content is not None]


def ordered(sights: Sequence[Sight]) -> list[Sight]:
    """Those at work first, in the order in which they began; then those that ended, the newest first."""
    active = sorted((one for one in sights if one.active), key=lambda one: str(one.content.get("started")))
    ended = [one for one in sights if not one.active]
    return [*active, *sorted(ended, key=ended_at, reverse=True)]


def ended_at(sight: Sight) -> str:
    """When it ended, or was heard of last."""
    return str(sight.content.get("finished") or sight.content.get("updated"))


def _sight(
    runs: Mapping[str, Mapping[str, Json]], parts: Mapping[str, Sequence[str]], name: str, at: datetime
) -> Sight:
    below = ordered([_sight(runs, parts, one, at) for one in parts.get(name, ())])
    state, why = _state(runs[name], at)
    if state == "still" and any(one.active for one in below):  # it waits for them
        state, why = "running", ""
    return Sight(runs[name], state, why, below)


def _state(content: Mapping[str, Json], at: datetime) -> tuple[State, str]:
    status = str(content["status"])
    if status != "running":
        return status if status in {"finished", "interrupted"} else "failed", ""  # type: ignore[return-value]
    silent = seconds_since(content.get("updated"), at)
    last = (content.get("sessions") or [{}])[-1]
    if silent > _GONE_S and _has_gone(last):
        return "gone", f"process {last.get('pid')} is gone"
    if silent > _SILENT_S:
        return "still", f"no word for {duration(silent)}"
    progress = content.get("progress") or {}
    if progress and progress["done"] < progress["total"]:
        idle, speed = seconds_since(progress.get("moved"), at), progress.get("per_s")
        if idle > (max(_SILENT_S, _SLOW / speed) if speed else _FIRST_S):
            return "still", f"nothing done for {duration(idle)}"
    return "running", ""


def _has_gone(session: Mapping[str, Json]) -> bool:
    """Whether the process is known to be there no more: only of this machine, since it was started."""
    pid, boot = session.get("pid"), session.get("boot")
    if not isinstance(pid, int) or boot is None or boot != facts.boot():
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except OSError:  # another person's
        return False
    return False


def seconds_since(date: Json, at: datetime) -> float:
    """Seconds from a record's date until then; 0 where it is none."""
    try:
        return max(0.0, (at - datetime.fromisoformat(str(date))).total_seconds())
    except (ValueError, TypeError):
        return 0.0


def duration(seconds: float) -> str:
    """In words: 3.2 s, 4:05, 1:30:00."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02d}" if minutes < 60 else f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}"
