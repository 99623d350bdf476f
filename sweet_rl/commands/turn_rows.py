"""A file with one row for each agent turn, on disk: which rows are done, how to go on, the final order.

Used by the stages that append such rows (sampled, ranked); pure file work, no models.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any

from tqdm import tqdm

from sweet_rl.errors import UsageError
from sweet_rl.preferences.candidates import TurnKey
from sweet_rl.records import read_rows, replace_rows
from sweet_rl.runs import HOW_TO_MIX, check_settings
from sweet_rl.types import Json


def key_of(row: Mapping[str, Json]) -> TurnKey:
    """The identity of a row that these stages wrote."""
    return row.get("task_id", ""), row.get("sample_index", 0), row.get("turn_index", 0)


def done_keys(
    rows: Sequence[tuple[int, Mapping[str, Json]]],
    wanted: Mapping[TurnKey, str],
    *,
    settings: Mapping[str, Json],
    field: str,
    path: str | Path,
    force: bool,
) -> set[TurnKey]:
    """Which of the wanted rows the file holds.

    Args:
        rows: what the file holds, with line numbers.
        wanted: the prompt of every row that this run would write.
        settings: what this run would write into `field` of its rows.
        field: where the settings stand in a row.
        path: the file, for errors.
        force: accept rows of other turns and settings; they are kept.

    Raises:
        UsageError: the file was made from other data or with other settings, and `force` is not set.
    """
    done: set[TurnKey] = set()
    for line, row in rows:
        key = key_of(row)
        where = f"{str(path)!r}, line {line}"
        if not force:
            if wanted.get(key) != row.get("input"):
                raise UsageError(f"{where}: this row is of a turn that is not among yours. {HOW_TO_MIX}")
            check_settings(row.get(field) or {}, settings, where)
        done.add(key)
    return done & set(wanted)


def finish(path: str | Path, order: Sequence[TurnKey]) -> None:
    """Bring a complete file into the order of its source, at once or not at all."""
    places = {key: i for i, key in enumerate(order)}
    rows = [row for _, row in read_rows(path)]
    in_order = sorted(rows, key=lambda row: places.get(key_of(row), len(places)))
    if any(a is not b for a, b in zip(rows, in_order, strict=True)):
        replace_rows(path, in_order)


def progress(total: int, done: int, *, unit: str, quiet: bool) -> Any:
    """A progress bar on standard error; its time left counts from this run's first row."""
    interval = 0.2 if sys.stderr.isatty() else 10.0
    return tqdm(total=total, initial=done, unit=unit, disable=quiet, mininterval=interval, dynamic_ncols=True)


def run_until_stopped(work: Coroutine[Any, Any, None], path: str | Path, total: int) -> None:
    """Run `work`; Ctrl-C and a polite kill end it cleanly, with words about how to go on.

    Raises:
        KeyboardInterrupt: it was stopped; what had finished is in the file.
    """

    async def main() -> None:
        current = asyncio.current_task()
        if current is not None:
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, current.cancel)
        await work

    try:
        asyncio.run(main())
    except (KeyboardInterrupt, asyncio.CancelledError):
        there = sum(1 for _ in read_rows(path))
        print(
            f"\nStopped. {there} of {total} rows are in {path}; the same command with --to_continue does the "
            "rest.",
            file=sys.stderr,
        )
        raise KeyboardInterrupt from None
