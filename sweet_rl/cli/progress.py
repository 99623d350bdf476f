"""Progress of a long stage, and how it ends when it is interrupted."""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

from tqdm import tqdm

from sweet_rl import tracking
from sweet_rl.errors import BudgetSpent, ServiceError
from sweet_rl.records import read_rows, replace_file
from sweet_rl.types import Failure, Json

MAX_FAILED: Final = 0.02
"""The share of its pieces that may fail before a stage ends with exit status 1."""
NEARLY_ALL: Final = 0.9
"""The share of episodes from which on a run says nothing, where something cut them short."""


if TYPE_CHECKING:
    _Bar = tqdm[NoReturn]
else:
    _Bar = tqdm  # takes no type where it runs


class Bar(_Bar):
    """A progress bar on standard error whose count the run's record has as well, also where it is not shown.

    Its time left counts from this run's first row.
    """

    def __init__(self, total: int, done: int, *, unit: str, quiet: bool) -> None:
        self.progress = tracking.progresses(unit, total, done)
        every_s = 0.2 if sys.stderr.isatty() else 10.0
        super().__init__(
            total=total, initial=done, unit=f" {unit}", disable=quiet, mininterval=every_s, dynamic_ncols=True
        )

    def update(self, n: float | None = 1) -> bool | None:
        """Count `n` more; a bar that is not shown counts, too."""
        if self.disable:
            self.n += n or 0
        shown = super().update(n)
        self.progress.done = int(self.n)
        return shown


def silence_libraries() -> None:
    """No bars and hints of the libraries below beside our own bar."""
    from huggingface_hub.utils import enable_progress_bars  # type: ignore[attr-defined]
    from transformers.utils import logging as transformers_logging

    # It warns that there is no GPU; a level would be set anew when it is imported, a filter stays.
    logging.getLogger("DeepSpeed").addFilter(_at_least_an_error)
    transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    transformers_logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)  # each try to reach it, and there are many
    if "HF_HUB_DISABLE_PROGRESS_BARS" not in os.environ:
        enable_progress_bars()  # transformers turned them off with its own, and a download may take long


def _at_least_an_error(record: logging.LogRecord) -> bool:
    return record.levelno >= logging.ERROR


@contextmanager
def on_interrupt(words: str) -> Iterator[None]:
    """Ctrl-C, SIGTERM and SIGHUP end the stage with a message that says how to resume."""

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    here = threading.current_thread() is threading.main_thread()  # no other thread can take signals
    wanted = (signal.SIGTERM, signal.SIGHUP) if here else ()
    before = {one: was for one in wanted if (was := signal.getsignal(one)) is not signal.SIG_IGN}  # nohup
    for one in before:
        signal.signal(one, stop)
    try:
        yield
    except KeyboardInterrupt:
        with suppress(OSError):  # the terminal may be gone
            print(f"\nStopped. {words}", flush=True)
        raise
    finally:
        for one, was in before.items():
            signal.signal(one, was)


def until_stopped(work: Coroutine[Any, Any, None], words: Callable[[], str]) -> None:
    """Run `work`; Ctrl-C and SIGTERM end it cleanly, with a message that says how to resume."""

    import asyncio

    async def main() -> None:
        current = asyncio.current_task()
        if current is not None:
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, current.cancel)
        await work

    try:
        asyncio.run(main())
    except (KeyboardInterrupt, asyncio.CancelledError):
        print(f"\nStopped. {words()}", file=sys.stderr)
        raise KeyboardInterrupt from None
    except BudgetSpent as error:
        raise BudgetSpent(f"{error} What was under way is dropped. {words()}") from None


def run_until_stopped(
    work: Coroutine[Any, Any, None],
    path: str | Path,
    total: int,
    *,
    noun: str,
    verb: str,
    again: str = "with --to_continue ",
) -> None:
    """Run `work`; Ctrl-C and SIGTERM end it cleanly, with a message that says how to resume."""

    def words() -> str:
        there = sum(1 for _ in read_rows(path)) if Path(path).exists() else 0
        return f"{there} of {total} {noun} are in {path}; the same command {again}{verb} the rest."

    until_stopped(work, words)


def judge_failed(
    failed: int,
    total: int,
    first: object,
    *,
    noun: str,
    kept: str,
    most: float = MAX_FAILED,
    flag: str = "--max_failed",
) -> None:
    """Say how much of a finished stage failed, and end it with an error where that is too much."""
    if not failed:
        return
    all_of = "All" if failed == total else f"{failed} of"
    summary = f"{all_of} {total} {noun} failed ({failed / total:.1%}): they have no score and are in no mean."
    words = f"{summary} The first: {first}. {kept}"
    if failed == total or failed > most * total:
        limit = f"{flag} {most:g} allows" if flag else f"the {most:.0%} that may"
        share = "" if failed == total else f" That is more than {limit}."
        raise ServiceError(words + share)
    print(words)


def judge_full(full: int, total: int) -> None:
    """Warn where half of the episodes or more ended because the agent's context was full; nearly all are an error."""
    if not full or 2 * full < total:
        return
    words = (
        f"{full} of {total} episodes ended because the agent's context was full, so their scores say little of the "
        "agent. Choose a larger context, a smaller --max_tokens where it counts in it, or a smaller --max_turns."
    )
    if full >= NEARLY_ALL * total:
        raise ServiceError(words)
    print(f"Warning: {words}")


def words_of(failure: Mapping[str, Json]) -> str:
    """A recorded failure in words."""
    status = failure.get("status")
    words = Failure(str(failure.get("kind")), str(failure.get("detail", "")).rstrip(" ."))
    return str(Failure(words.kind, words.detail, status if isinstance(status, int) else None))


def write_report(saved_path: str, report_path: str | None, content: Mapping[str, Json]) -> None:
    """The numbers as JSON, beside the file unless a path is given."""
    target = Path(report_path) if report_path else Path(saved_path).with_suffix(".report.json")
    numbers = {"saved_path": saved_path} | dict(content)
    tracking.writes(target)
    replace_file(target, [json.dumps(numbers, indent=1).encode() + b"\n"])
    print(f"The same numbers are in {target}")
