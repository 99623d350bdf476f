"""The time of a test: processor time, and wall time in which it could have run.

Waiting for a core, or for the disk, is the machine's doing and not the test's. Both are seen from outside, in
what the kernel says of the child's threads; nothing of it is the child's own word.
"""

from __future__ import annotations

import math
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

_MOST_THREADS = 64  # that are looked at; no child has more
_WAITS_FOR_DISK, _RUNS = "D", "R"


@dataclass(slots=True)
class TestClock:
    """One test's time. `start` it, `look` now and then.

    Args:
        started: when the test was begun, in seconds of the monotonic clock.
        computed_s: processor time of all of the child's threads since then, at the last look.
        waited_s: time by the clock since then, without that in which it was ready and the machine was not.
        runs: whether it was running, or about to, at the last look.
    """

    __test__ = False  # not a pytest class

    started: float = 0.0
    computed_s: float = 0.0
    waited_s: float = 0.0
    runs: bool = False
    _looked: float = 0.0
    _computed_before: float = 0.0
    _delays: dict[int, float] = field(default_factory=dict)

    def start(self, now: float, process: int | None = None, claimed_s: float = math.inf) -> None:
        """Start the clock of a test.

        Args:
            now: seconds of the monotonic clock.
            process: the child's number, where it has been computing before.
            claimed_s: processor time that it claims to have used until then; too much is not believed.
        """
        self.started = self._looked = now
        self.computed_s = self.waited_s = 0.0
        self._computed_before = min(claimed_s, _computed(process)) if process is not None else 0.0
        self._delays = {thread: delay for thread, delay, _ in _threads(process)} if process else {}

    def look(self, now: float, process: int | None) -> None:
        """See what has been used until now."""
        threads = _threads(process)
        passed = now - self._looked
        delays = {thread: delay for thread, delay, _ in threads}
        delayed = max(
            (delay - self._delays.get(thread, 0.0) for thread, delay in delays.items()), default=0.0
        )
        if any(state == _WAITS_FOR_DISK for _, _, state in threads):
            delayed = passed
        self.runs = any(state == _RUNS for _, _, state in threads)
        self.waited_s += max(0.0, passed - delayed)
        self.computed_s = _computed(process) - self._computed_before if process is not None else 0.0
        self._delays |= delays
        self._looked = now


def _computed(process: int) -> float:
    """Processor time of a process: its clock's number is made from its own (clock_getcpuclockid)."""
    try:
        return time.clock_gettime((~process << 3) | 2)
    except OSError:
        return 0.0


def _threads(process: int | None) -> list[tuple[int, float, str]]:
    """Of each thread its number, the seconds that it has waited for a core, and its state."""
    if process is None:
        return []
    try:
        threads = [task.name for task in Path(f"/proc/{process}/task").iterdir()][:_MOST_THREADS]
    except OSError:
        return []
    found = []
    for thread in threads:
        with suppress(OSError, IndexError):  # it has ended meanwhile
            state = Path(f"/proc/{process}/task/{thread}/stat").read_text().rpartition(")")[2].split()[0]
            found.append((int(thread), _delay(f"/proc/{process}/task/{thread}/schedstat"), state))
    return found


def _delay(path: str) -> float:
    """Seconds waited for a core; 0 where the kernel does not count them."""
    try:
        return int(Path(path).read_text().split()[1]) * 1e-9
    except OSError:
        return 0.0


def children_of(process: int) -> list[int]:
    """The processes that this one has started."""
    try:
        return [int(child) for child in Path(f"/proc/{process}/task/{process}/children").read_text().split()]
    except OSError:  # a kernel without that file: ask everybody
        return [
            int(stat.parent.name) for stat in Path("/proc").glob("[0-9]*/stat") if _parent(stat) == process
        ]


def _parent(stat: Path) -> int:
    try:
        return int(stat.read_text().rpartition(")")[2].split()[1])
    except (OSError, IndexError):
        return 0
