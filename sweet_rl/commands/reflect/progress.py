"""The progress of an online run on one line: means over the last iterations.

Published behaviour: docs/published/reflect_rl.md#losses.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any, Self

from sweet_rl import tracking
from sweet_rl.algorithms.reflect.playground import Playground
from sweet_rl.algorithms.reflect.settings import ReflectSettings
from sweet_rl.command_line.running import progress


class Bar:
    """A progress bar with the level of a curriculum, cost, success and losses; also a context.

    Args:
        settings: of the run.
        ground: what is played.
        done: iterations made before.
        quiet: show nothing.
    """

    def __init__(self, settings: ReflectSettings, ground: Playground, done: int, *, quiet: bool) -> None:
        self._bar = progress(settings.max_steps, done, unit="iteration", quiet=quiet)
        self._recent: deque[Mapping[str, Any]] = deque(maxlen=settings.logging_steps)
        self._ground, self._critic = ground, settings.use_critic
        self.failed = 0
        """Episodes that the world broke, of all iterations that were shown."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.close()

    def log(self, done: int, entry: Mapping[str, Any]) -> None:
        """Report an iteration, show means over the last ones, and move the bar to `done`."""
        self._recent.append(entry)
        self.failed += len(entry.get("failed", ()))
        tracking.logs(done, _numbers(entry))
        shown = {
            "cost": _mean(one["cost"] for one in self._recent),
            "success": _mean(one["succ"] for one in self._recent),
            "loss": _mean(loss for one in self._recent for loss in one["loss"]),
        }
        if self._critic:
            shown["critic"] = _mean(loss for one in self._recent for loss in one["critic_loss"])
        if len(self._ground.levels) > 1:
            self._bar.set_description_str(self._level(done - 1), refresh=False)
        if self.failed:
            shown["failed"] = self.failed
        self._bar.set_postfix_str(
            ", ".join(f"{name} {value:.3g}" for name, value in shown.items()), refresh=False
        )
        self._bar.update(done - self._bar.n)

    def _level(self, iteration: int) -> str:
        """The name of the level that is played in an iteration."""
        begun = bisect_right(self._ground.starts, iteration)
        return str(self._ground.names[max(0, begun - 1)])


def _numbers(entry: Mapping[str, Any]) -> dict[str, float]:
    """An iteration as curves have it: of new episodes, then of those from memory, where there are any."""
    found = {"succ": entry["succ"], "cost": entry["cost"], "failed": len(entry.get("failed", ()))}
    for name in ("loss", "critic_loss"):
        fresh, again = entry[name]
        found |= {name: fresh, f"{name}.replay": again}
    return {name: value for name, value in found.items() if value is not None}


def _mean(values: Iterable[float | None]) -> float:
    """Of those that there are; 0 where there are none, as published."""
    found = [value for value in values if value is not None]
    return sum(found) / len(found) if found else 0.0
