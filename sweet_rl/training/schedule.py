"""Learning rates over the updates of a run, as factors of the highest. No torch.

Published behaviour: docs/published/sweet_rl.md#preference-training.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from sweet_rl.errors import UsageError

FLOOR = 0.1
"""What the cosine ends at, as a share of the highest rate."""

_DECAYS: dict[str, Callable[[float], float]] = {
    "cosine_with_floor": lambda progress: FLOOR + (1 - FLOOR) * 0.5 * (1 + math.cos(math.pi * progress)),
    "linear": lambda progress: 1 - progress,
    "constant": lambda _: 1.0,
}
SCHEDULES = tuple(_DECAYS)


def rate_factor(name: str, *, steps: int, warmup_ratio: float, published: bool) -> Callable[[int], float]:
    """Factors of updates 0, 1, ...: a linear warm-up of ceil(warmup_ratio * steps) updates, then the decay.

    The published warm-up begins at 0, so its first update changes nothing; ours begins one step above.
    """
    if name not in _DECAYS:
        raise UsageError(f"--lr_scheduler must be one of {', '.join(SCHEDULES)}, got {name!r}.")
    warmup = math.ceil(warmup_ratio * steps)
    decay = _DECAYS[name]

    def factor(update: int) -> float:
        if update < warmup:
            return update / warmup if published else (update + 1) / (warmup + 1)
        return decay(min(1.0, (update - warmup) / max(1, steps - warmup)))

    return factor
