"""The logs of a run and of the runs that it continues, as one series; moving averages.

A run that began at another one's checkpoint continues its iterations. Iterations are counted in trainer
calls of one pooled update each: those of a run that pools n calls are divided by n. No torch.

Published behaviour: docs/published/reflect_rl.md#evaluation, #deviations.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sweet_rl.errors import DataError, UsageError
from sweet_rl.online.reflect.experiments import beside, read_settings
from sweet_rl.training.checkpoints import step_of
from sweet_rl.types import Compat

STAGE = "rl_finetune"
WINDOW = 99
"""Iterations over which a point is a mean."""

Log = dict[str, Any]


def ensemble_logs(folder: Path, *, compat: Compat = "fixed") -> list[Log]:
    """All iterations up to a run's last checkpoint, those before `load_dir` included; without `log`."""
    found: list[Log] = []
    begin = 0.0
    for run, settings, until in _chain(folder):
        accumulation = int(settings.get("gradient_accumulation_steps") or 1)
        own = [entry for entry in read_logs(run) if until is None or entry["iter"] < until]
        if compat == "published":
            begin /= accumulation
        own = [{**entry, "iter": begin + entry["iter"] / accumulation} for entry in own]
        found = [*own, *found] if compat == "published" else [*found, *own]
        if until is not None:
            begin += until / accumulation
    if compat == "published":
        found.sort(key=lambda entry: float(entry["iter"]))  # its runs overlap
    if not found:
        raise UsageError(
            f"{str(folder)!r} holds no logs: no checkpoint-N/logs.json. Runs of rl_finetune have them, "
            "from their first checkpoint on (--save_steps)."
        )
    return found


def _chain(folder: Path) -> list[tuple[Path, dict[str, Any], int | None]]:
    """Runs, oldest first: folder, flags, and the iteration at which the next one took over."""
    chain: list[tuple[Path, dict[str, Any], int | None]] = []
    until: int | None = None
    while True:
        settings = read_settings(folder)
        chain.insert(0, (folder, settings, until))
        before = settings.get("load_dir")
        if not before or STAGE not in Path(str(before)).parent.name:
            return chain
        checkpoint = Path(beside(str(before), folder)).expanduser()
        until = step_of(checkpoint)
        if until < 0 or any(checkpoint.parent.resolve() == run.resolve() for run, _, _ in chain):
            raise UsageError(f"{str(folder)!r} began at {before!r}, which is no checkpoint of another run.")
        folder = checkpoint.parent


def read_logs(folder: Path) -> list[Log]:
    """Iterations in a run's checkpoints, in order, without their episodes."""
    found: list[Log] = []
    paths = [path for path in folder.glob("checkpoint-*/logs.json") if step_of(path.parent) >= 0]
    for path in sorted(paths, key=lambda path: step_of(path.parent)):
        try:
            entries = json.loads(path.read_text(encoding="utf-8"))
            found += [_without_episodes(entry) for entry in entries]
        except (OSError, ValueError, AttributeError, TypeError) as error:
            raise DataError(f"is no list of iterations ({error})", path=path) from error
    return found


def _without_episodes(entry: Log) -> Log:
    """An iteration's numbers."""
    if missing := [key for key in ("iter", "succ", "cost", "loss") if key not in entry]:
        raise ValueError(f"one has no {missing[0]!r}")
    if not isinstance(entry["iter"], int | float):
        raise TypeError(f"one has the number {entry['iter']!r}")
    return {key: value for key, value in entry.items() if key != "log"}


def moving_average(
    iters: Sequence[float],
    values: Sequence[float | Sequence[float | None] | None],
    *,
    window: int = WINDOW,
    compat: Compat = "fixed",
) -> tuple[list[float], list[float | None]]:
    """Means over the values at most half a window away, in iterations; pairs of values count as two points.

    A value that there is not is left out; where there are none around, the mean is None. Published, it
    counts as 0.
    """
    points: list[tuple[float, float | None]] = []
    for at, value in zip(iters, values, strict=True):
        several = value if isinstance(value, Sequence) else [value]
        points += [(at, one) for one in several]
    half = window // 2
    means: list[float | None] = []
    first = last = count = 0
    total = 0.0
    # Published: the window around a point is that of the point before it, and begins around 0.
    centres = [at for at, _ in points]
    for centre in [0.0, *centres[:-1]] if compat == "published" else centres:
        while last < len(points) and points[last][0] <= centre + half:
            total, count = _with(points[last][1], total, count, 1, compat=compat)
            last += 1
        while first < last and points[first][0] < centre - half:
            total, count = _with(points[first][1], total, count, -1, compat=compat)
            first += 1
        means.append(total / count if count else None)
    return centres, means


def _with(value: float | None, total: float, count: int, sign: int, *, compat: Compat) -> tuple[float, int]:
    """The sum and the number of its terms with a term more or less."""
    if value is None and compat == "fixed":
        return total, count
    return total + sign * (value or 0.0), count + sign
