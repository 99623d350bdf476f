"""Seconds of several sides that take turns, so that what else the machine does meets all alike."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Mapping


def in_turn(
    sides: Mapping[str, Callable[[], object]],
    rounds: int,
    *,
    warm: int = 0,
    clock: Callable[[], float] = time.perf_counter,
    enough_s: float = math.inf,
) -> dict[str, list[float]]:
    """Seconds of each side in each round.

    Args:
        sides: what is timed.
        rounds: how often each runs.
        warm: further rounds before, which are not timed.
        clock: `time.process_time` counts the seconds of this process's processor only.
        enough_s: a side that has taken more does not run again; if it never ran but warm, that counts.
    """
    seconds: dict[str, list[float]] = {side: [] for side in sides}
    for _ in range(warm + rounds):
        for side, run in sides.items():
            if sum(seconds[side]) <= enough_s:
                began = clock()
                run()
                seconds[side].append(clock() - began)
    return {side: each[warm:] or each for side, each in seconds.items()}


def medians(seconds: Mapping[str, list[float]]) -> dict[str, float]:
    """Of each side."""
    return {side: statistics.median(each) for side, each in seconds.items()}
