"""How an online run goes, on one line: means over the last iterations (Reflect-RL spec §6.3)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any, Self

from sweet_rl.commands.running import progress


class Bar:
    """A progress bar with cost, success and losses; also a context.

    Args:
        total: iterations.
        done: of them, before.
        window: iterations over which numbers are means.
        quiet: show nothing.
    """

    def __init__(self, total: int, done: int, *, window: int, quiet: bool) -> None:
        self._bar = progress(total, done, unit="iteration", quiet=quiet)
        self._recent: deque[Mapping[str, Any]] = deque(maxlen=window)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.close()

    def log(self, done: int, entry: Mapping[str, Any]) -> None:
        """One more iteration."""
        self._recent.append(entry)
        shown = {
            "cost": _mean(one["cost"] for one in self._recent),
            "success": _mean(one["succ"] for one in self._recent),
            "loss": _mean(loss for one in self._recent for loss in one["loss"]),
            "critic": _mean(loss for one in self._recent for loss in one["critic_loss"]),
        }
        self._bar.set_postfix_str(
            ", ".join(f"{name} {value:.3g}" for name, value in shown.items()), refresh=False
        )
        self._bar.update(done - self._bar.n)


def _mean(values: Iterable[float | None]) -> float:
    """Of those that there are; 0 where there are none, as published."""
    found = [value for value in values if value is not None]
    return sum(found) / len(found) if found else 0.0
