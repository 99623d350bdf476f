"""What a run says of itself while it works: progress, newest numbers; and its trackers.

The record of the run (`sweet_rl.runs.record`) keeps `content`. Numbers that
have steps of their own, such as losses, come by `log`; those of a rollout are taken now and then, by `tick`.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from sweet_rl import trackers
from sweet_rl.errors import first_line
from sweet_rl.tracking import Destination, Progress
from sweet_rl.types import Json

_COUNTED: Final = ("requests", "retries", "failed_requests", "prompt_tokens", "completion_tokens")


def now() -> str:
    """The date and the time, in UTC."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Live:
    """The progress and the numbers of one session of a run."""

    def __init__(self) -> None:
        self._progress: Progress | None = None
        self._begun, self._took_s = time.monotonic(), 0.0
        self._seen: tuple[Any, ...] = ()
        self._moved = now()
        self._step: int | None = None
        self._newest: dict[str, float] = {}
        self._destination = Destination()
        self._trackers: list[trackers.Tracker] = []
        self._ticked: int | None = None

    def progresses(self, progress: Progress) -> None:
        """Work of known length begins; it takes the place of what was before."""
        self._progress, self._begun, self._ticked = progress, time.monotonic(), None
        self._look()

    def logs_to(self, destination: Destination) -> None:
        """Where numbers go, once the first output begins."""
        self._destination = trackers.usable(destination)

    def open(
        self, beside: Path, *, run: str, stage: str, continues: bool, config: Mapping[str, Json]
    ) -> None:
        """The first output begins: so do the trackers."""
        self._trackers = trackers.opened(
            self._destination, folder=beside, run=run, stage=stage, continues=continues, config=config
        )

    def log(self, step: int, numbers: Mapping[str, Any]) -> None:
        """Take the numbers of a step; what is no number is left out, and the step itself."""
        found = {name: float(value) for name, value in numbers.items() if isinstance(value, int | float)}
        found.pop("step", None)
        self._keep(step, found)
        self._track(step, found)

    def tick(self, usage: Mapping[str, Mapping[str, Mapping[str, Json]]]) -> None:
        """Take what the progress says, if it has moved: its own numbers, and for trackers speed and tokens.

        Args:
            usage: of the session's models, by role and model, as in a record.
        """
        progress = self._progress
        if progress is None or progress.done in {self._ticked, progress.first}:
            return
        self._ticked = progress.done
        self._look()
        numbers = dict(progress.numbers)
        if numbers:
            self._keep(progress.done, numbers)
        speed = self._per_s(progress)
        numbers |= {f"{progress.unit}s_per_s": speed} if speed is not None else {}
        numbers |= {"failed": progress.failed} if progress.failed else {}
        for role, models in usage.items():
            for name in _COUNTED:
                known = [row[name] for row in models.values() if row.get(name) is not None]
                numbers |= {f"{role}.{name}": sum(known)} if any(known) else {}
        self._track(max(progress.done, self._step or 0), numbers)

    def content(self) -> dict[str, Json]:
        """What the record says of it."""
        found: dict[str, Json] = {}
        if (progress := self._progress) is not None:
            self._look()
            speed = self._per_s(progress)
            found["progress"] = {
                "unit": progress.unit,
                "done": progress.done,
                "total": progress.total,
                "failed": progress.failed,
                "phase": progress.phase,
                "per_s": None if speed is None else float(f"{speed:.4g}"),
                "moved": self._moved,
            }
        if self._newest:
            finite = {name: value if math.isfinite(value) else None for name, value in self._newest.items()}
            found["numbers"] = {"step": self._step, **finite}
        return found

    def close(self) -> None:
        """End the trackers."""
        open_ones, self._trackers = self._trackers, []
        for tracker in open_ones:
            try:
                tracker.close()
            except Exception as error:  # noqa: BLE001 - the run itself is whole
                _warn(tracker, error)

    def _keep(self, step: int, numbers: Mapping[str, float]) -> None:
        self._step, self._moved = step, now()
        self._newest |= numbers

    def _track(self, step: int, numbers: Mapping[str, float]) -> None:
        for tracker in list(self._trackers):
            try:
                tracker.log(step, numbers)
            except Exception as error:  # noqa: BLE001 - hours of work do not end for a curve
                self._trackers.remove(tracker)
                _warn(tracker, error)

    def _per_s(self, progress: Progress) -> float | None:
        """Units of this session per second; None before the first."""
        done = progress.done - progress.first
        return done / max(self._took_s, 1e-9) if done > 0 else None

    def _look(self) -> None:
        """Note when anything has moved last, as far as it was looked at."""
        seen = () if (at := self._progress) is None else (at.unit, at.total, at.done, at.phase)
        if seen != self._seen:
            self._seen, self._moved, self._took_s = seen, now(), time.monotonic() - self._begun


def _warn(tracker: trackers.Tracker, error: Exception) -> None:
    print(  # for the person at the terminal
        f"{type(tracker).__name__} has failed and gets no more numbers: {first_line(error)} The run goes on.",
        file=sys.stderr,
    )
