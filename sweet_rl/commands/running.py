"""What a long stage shows of itself, and how it ends when it is stopped."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, NoReturn

from tqdm import tqdm

from sweet_rl.records import read_rows


def progress(total: int, done: int, *, unit: str, quiet: bool) -> tqdm[NoReturn]:
    """A progress bar on standard error; its time left counts from this run's first row."""
    interval = 0.2 if sys.stderr.isatty() else 10.0
    return tqdm(total=total, initial=done, unit=unit, disable=quiet, mininterval=interval, dynamic_ncols=True)


def run_until_stopped(
    work: Coroutine[Any, Any, None], path: str | Path, total: int, *, noun: str, verb: str
) -> None:
    """Run `work`; Ctrl-C and a polite kill end it cleanly, with words about how to go on.

    Args:
        work: appends rows to a file.
        path: the file.
        total: rows that it holds when all is done.
        noun: what a row is, in the plural.
        verb: what the same command does with the rest, in the third person.

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
            f"\nStopped. {there} of {total} {noun} are in {path}; "
            f"the same command with --to_continue {verb} the rest.",
            file=sys.stderr,
        )
        raise KeyboardInterrupt from None
