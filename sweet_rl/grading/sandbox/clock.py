"""The time of a test: processor time, and wall time in which it could have run.

Waiting for a core, or for the disk, is the machine's doing and not the test's; nor is it one's own while
somebody has stopped us or the child. All is seen from outside, in what the kernel says of the child's threads;
nothing of it is the child's own word.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from sweet_rl.grading.sandbox.guest.isolation import MOST_THREADS

_HELD, _RUNS = frozenset("DTt"), "R"  # by the disk, by whoever has stopped it
_LATE_S = 0.05  # that we may be late for the next look, by our own doing


class WakingTime:
    """Seconds in which this process could look after others.

    A stop of it (Ctrl-Z, a frozen container, a closed lid), or a caller who is slow to ask for the
    next result, is no time: nothing that has come meanwhile could be seen.
    """

    def __init__(self) -> None:
        self._seconds, self._seen = 0.0, time.monotonic()

    def now(self, slept_s: float = 0.0) -> float:
        """The time; since the last look we have meant to sleep for so long."""
        seen = time.monotonic()
        self._seconds += min(seen - self._seen, slept_s + _LATE_S)
        self._seen = seen
        return self._seconds


@dataclass(slots=True)
class TestClock:
    """One test's time. `start` it, `look` now and then.

    Args:
        started: when the test was begun, in waking seconds.
        computed_s: processor time of all of the child's threads since then, at the last look.
        waited_s: time by the clock since then, without that in which it was ready and the machine was not.
        runs: whether it was running, or about to, at the last look.
        threads: how many it had then.
    """

    __test__ = False  # not a pytest class

    started: float = 0.0
    computed_s: float = 0.0
    waited_s: float = 0.0
    runs: bool = False
    threads: int = 0
    _looked: float = 0.0
    _computed_before: float = 0.0
    _delays: dict[str, float] = field(default_factory=dict)

    def start(self, now: float, process: int | None = None) -> None:
        """Start the clock of a test; with the child's number where it has been computing before."""
        self.started = self._looked = now
        self.computed_s = self.waited_s = 0.0
        self._computed_before = _computed(process) if process is not None else 0.0
        self._delays = {thread: delay for thread, delay, _ in _seen(_threads(process))}

    def look(self, now: float, process: int | None) -> None:
        """See what has been used until now."""
        names = _threads(process)
        threads = _seen(names)
        passed = now - self._looked
        delays = {thread: delay for thread, delay, _ in threads}
        delayed = max(
            (delay - self._delays.get(thread, 0.0) for thread, delay in delays.items()), default=0.0
        )
        if any(state in _HELD for _, _, state in threads):
            delayed = passed
        self.threads = len(names)
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


def _threads(process: int | None) -> list[str]:
    """Where the kernel tells of each thread."""
    folder = f"/proc/{process}/task"
    try:
        return [f"{folder}/{thread}" for thread in os.listdir(folder)] if process is not None else []
    except OSError:
        return []


def _seen(threads: list[str]) -> list[tuple[str, float, str]]:
    """Of each thread its place, the seconds that it has waited for a core, and its state."""
    found = []
    for thread in threads[:MOST_THREADS]:
        with suppress(OSError, IndexError):  # it has ended meanwhile
            state = Path(f"{thread}/stat").read_text().rpartition(")")[2].split()[0]
            found.append((thread, _delay(f"{thread}/schedstat"), state))
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
