"""Tasks to train, validate and test on: exact shares, drawn from a seed.

Published behaviour: docs/published/reflect_rl.md#data-of-autoexplore, #deviations.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Final

from sweet_rl.types import Compat, Json

SHARES: Final[dict[str, int]] = {"train": 7, "validate": 2, "test": 1}
"""File name to share, in tenths."""

Rows = list[Mapping[str, Json]]


def split_tasks(
    tasks: Sequence[Mapping[str, Json]], *, seed: int = 0, by_repo: bool = False, compat: Compat = "fixed"
) -> dict[str, Rows]:
    """Give every task with a question to one of the three parts; within a part the order stays."""
    asked = [task for task in tasks if str(task.get("question") or "").strip()]
    draws = random.Random(seed)
    if compat == "published":
        parts = [draws.choices(list(SHARES), list(SHARES.values()))[0] for _ in asked]
    elif by_repo:
        parts = _by_repository(asked, draws)
    else:
        parts = [part for part, size in _sizes(len(asked)).items() for _ in range(size)]
        draws.shuffle(parts)
    return {name: [task for task, part in zip(asked, parts, strict=True) if part == name] for name in SHARES}


def _sizes(total: int) -> dict[str, int]:
    """Whole numbers next to the shares that add up to `total`; the largest remainders get what is left."""
    sizes = {name: tenths * total // 10 for name, tenths in SHARES.items()}
    remainders = sorted(SHARES, key=lambda name: -(SHARES[name] * total % 10))
    for name in remainders[: total - sum(sizes.values())]:
        sizes[name] += 1
    return sizes


def _by_repository(tasks: Sequence[Mapping[str, Json]], draws: random.Random) -> list[str]:
    counts: dict[str, int] = {}
    for task in tasks:
        counts[str(task["root"])] = counts.get(str(task["root"]), 0) + 1
    names = sorted(counts)
    draws.shuffle(names)  # equally large ones come in any order
    missing = _sizes(len(tasks))
    part: dict[str, str] = {}
    for i, name in enumerate(sorted(names, key=lambda name: -counts[name])):
        empty = [part_name for part_name in SHARES if part_name not in part.values()]
        open_parts = empty if len(names) - i <= len(empty) else list(SHARES)
        part[name] = max(open_parts, key=missing.__getitem__)
        missing[part[name]] -= counts[name]
    return [part[str(task["root"])] for task in tasks]
