"""Which rows have a page that renders: the work of `filter_websites` and of `prepare_websight --validate`.

Every verdict is a line of a report, appended as soon as it is known. A verdict belongs to a page and to the
way in which it was rendered, so it is found again whatever happened in between.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path

from sweet_rl.browsers.page import Renderer, RenderFailed
from sweet_rl.command_line.running import progress, run_until_stopped
from sweet_rl.concurrency import for_each
from sweet_rl.errors import UsageError
from sweet_rl.records import Journal, replace_file, replace_rows
from sweet_rl.types import Json

_MAY_PASS = {"timeout", "crash"}
"""What can be the fault of a busy machine: tried again, alone, at the end of a run and by the next one."""

_SHOWN = 5

Opener = Callable[[], AbstractAsyncContextManager[Renderer]]
"""Starts the browsers; called only where there is a page to render."""


@dataclass(frozen=True, slots=True)
class PageRow:
    """A row that may be kept, and its position for messages.

    `missing` says why it is dropped without a look at its page: a short word, and a clause about the field.
    """

    where: str
    row: Mapping[str, Json]
    missing: tuple[str, str] | None = None

    @property
    def page(self) -> str:
        """The source of its page; only for rows that have one."""
        return str(self.row["ground_truth"])


@dataclass(frozen=True, slots=True)
class Checks:
    """How pages are checked.

    Args:
        report_path: the file of verdicts, which a stopped run is continued from.
        rendered_with: what decides about the pictures; verdicts made otherwise do not count.
        at_once: pages in work at a time.
        pictures: folder that gets the picture of each page; None for none.
        overwrite: forget the verdicts that the report holds.
        quiet: no progress bar.
    """

    report_path: Path
    rendered_with: Mapping[str, Json]
    at_once: int
    pictures: Path | None = None
    overwrite: bool = False
    quiet: bool = False


def require_text(row: Mapping[str, Json], fields: Sequence[str]) -> tuple[str, str] | None:
    """The error of the first of these fields that is not a text: a short word, and a clause."""
    for name in fields:
        value = row.get(name)
        if not isinstance(value, str):
            found = type(value).__name__
            return f"no {name}", "is missing or null" if value is None else f"is a {found}, not a string"
        if not value.strip():
            return f"no {name}", "is empty"
    return None


def check_rows(rows: Sequence[PageRow], checks: Checks, opener: Opener) -> list[dict[str, Json]]:
    """A verdict for each row, in their order; its `reason` is None where the row is to be kept.

    The report holds the same when all is done.
    """
    with Journal(checks.report_path, overwrite=checks.overwrite) as journal:
        verdicts = {
            str(row["page"]): row
            for _, row in journal.rows
            if row.get("rendered_with") == checks.rendered_with and row["reason"] not in _MAY_PASS
        }
        todo = {
            digest: row for row in rows if row.missing is None and (digest := _digest(row)) not in verdicts
        }
        if todo:
            work = _render(todo, verdicts, checks, journal, opener)
            total = len(verdicts) + len(todo)
            run_until_stopped(work, checks.report_path, total, noun="verdicts on pages", verb="renders")
        report = [_final(row, verdicts) for row in rows]
        replace_rows(checks.report_path, report)
    return report


async def _render(
    todo: Mapping[str, PageRow],
    verdicts: dict[str, dict[str, Json]],
    checks: Checks,
    journal: Journal,
    opener: Opener,
) -> None:
    """Fill in the verdicts, each appended to the report at once; one that is appended later counts."""
    done = len(verdicts)

    async def check(digest: str) -> None:
        row = todo[digest]
        reason, detail = await _verdict(row, digest, renderer, checks.pictures)
        verdict = {"where": row.where, "page": digest, "reason": reason, "detail": detail}
        verdicts[digest] = verdict | {"rendered_with": dict(checks.rendered_with)}
        await journal.append_soon(verdicts[digest])
        bar.update(reason not in _MAY_PASS or digest in again)

    again: list[str] = []
    bar = progress(done + len(todo), done, unit="page", quiet=checks.quiet)
    async with opener() as renderer:
        with bar:
            await for_each(todo, check, at_once=checks.at_once)
            again += [digest for digest in todo if verdicts[digest]["reason"] in _MAY_PASS]
            await for_each(again, check, at_once=1)


async def _verdict(
    row: PageRow, digest: str, renderer: Renderer, pictures: Path | None
) -> tuple[str | None, str]:
    """Why the page gives no picture, as a short word (None where it gives one) and in words."""
    try:
        rendered = await renderer.render(row.page)
    except RenderFailed as error:
        return error.failure.kind, error.failure.detail
    if pictures is not None:
        await asyncio.to_thread(replace_file, pictures / f"{digest}.png", [rendered.image])
    return None, ""


def unrendered(row: PageRow) -> dict[str, Json]:
    """The verdict on a row whose page is not looked at."""
    reason, detail = row.missing or (None, "")
    return {"where": row.where, "reason": reason, "detail": detail}


def _final(row: PageRow, verdicts: Mapping[str, Mapping[str, Json]]) -> dict[str, Json]:
    return unrendered(row) if row.missing else {**verdicts[_digest(row)], "where": row.where}


def _digest(row: PageRow) -> str:
    return hashlib.sha256(row.page.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def refuse_to_overwrite(paths: Sequence[Path], *, to_continue: bool, overwrite: bool) -> None:
    """Never change rows unless a flag allows it."""
    if overwrite and to_continue:
        raise UsageError("--overwrite and --to_continue exclude each other.")
    there = [str(path) for path in paths if path.is_file() and path.stat().st_size]
    if there and not (to_continue or overwrite):
        raise UsageError(
            f"{there[0]!r} exists. Pass --to_continue to finish it (pages that were rendered are "
            "not rendered again), --overwrite to start again, or choose another place."
        )


def say_dropped(report: Sequence[Mapping[str, Json]]) -> None:
    """Print how many rows were dropped and why, and name the first of each reason."""
    dropped = [row for row in report if row["reason"] is not None]
    counts = Counter(str(row["reason"]) for row in dropped)
    for reason, count in counts.most_common():
        places = [str(row["where"]) for row in dropped if row["reason"] == reason]
        more = f", and {count - _SHOWN} more" if count > _SHOWN else ""
        print(f"  {count} dropped, {reason}: {'; '.join(places[:_SHOWN])}{more}")
    if not _MAY_PASS.isdisjoint(counts):
        print("  On a quieter machine the same command with --to_continue tries those again that may pass.")


def require_rows(rows: Sequence[PageRow], source: str, fields: Sequence[str], repair: str) -> None:
    """Refuse a source of which no row can become a task."""
    if not rows:
        raise UsageError(f"{source!r} holds no rows. {repair}")
    if all(row.missing for row in rows):
        raise UsageError(
            f"None of the {len(rows)} rows of {source!r} has both {' and '.join(fields)}. "
            f"The first one has the fields {', '.join(rows[0].row) or '(none)'}. {repair}"
        )
