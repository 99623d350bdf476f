"""Keeps the frontend tasks whose pages render.

Published behaviour: docs/published/sweet_rl.md#viewers-and-filter.
"""

from __future__ import annotations

from dataclasses import dataclass

from sweet_rl import tracking
from sweet_rl.browsers.page import RenderFlags
from sweet_rl.command_line.recording import recorded
from sweet_rl.command_line.stages import stage
from sweet_rl.errors import UsageError
from sweet_rl.flags import REQUIRED, flag
from sweet_rl.flags.common import Continuing, Quiet, SavedPath, TempPath


@dataclass(frozen=True, kw_only=True)
class FilterFlags(SavedPath, TempPath, RenderFlags, Continuing, Quiet):
    """Inputs and outputs."""

    filtered_path: str = flag(REQUIRED, "the .jsonl file that the kept rows are written to.")


@recorded("filter_websites", reads=("saved_path",))
@stage(
    "saved_path",
    "filtered_path",
    "temp_path",
    defaults={"render_cache": "none"},
    helps={
        "saved_path": "the .jsonl file of frontend tasks: rows with problem_description and ground_truth (the page).",
        "temp_path": "folder that gets the picture of each page that renders, as PAGE.png where PAGE is the page's name in the report; default: no pictures are kept.",
        "to_continue": "finish the run that filtered_path's report holds; of its pages only those that timed out are rendered again.",
        "overwrite": "forget the report and replace filtered_path.",
    },
)
def filter_websites(flags: FilterFlags, /) -> None:
    """Keep the rows of a task file that have a request and a page that a real browser can show.

    Rows are kept as they are, in their order. Beside filtered_path a report (NAME.report.jsonl) says of
    each row whether it was kept, and why not: no ground_truth, no problem_description, timeout, crash,
    too_large, empty, navigation. Pages that time out are tried again, one at a time, before they are
    dropped. A run that was stopped is finished by the same command with --to_continue.

    The smallest run: sweet-rl filter_websites tasks.jsonl kept.jsonl
    """
    import functools
    import os
    from pathlib import Path

    from sweet_rl.browsers import open_renderer
    from sweet_rl.records import read_rows, replace_rows
    from sweet_rl.worlds.frontend_design.stages import page_checks

    filtered = Path(flags.filtered_path)
    if os.path.realpath(flags.saved_path) == os.path.realpath(filtered):
        raise UsageError(
            "--saved_path and --filtered_path are the same file; choose another --filtered_path."
        )
    if filtered.is_dir():
        raise UsageError(f"--filtered_path {flags.filtered_path!r} is a folder; name a .jsonl file in it.")
    report_path = filtered.with_name(f"{filtered.stem}.report.jsonl")
    page_checks.refuse_to_overwrite(
        [filtered, report_path], to_continue=flags.to_continue, overwrite=flags.overwrite
    )
    fields = ("problem_description", "ground_truth")
    rows = [
        page_checks.PageRow(f"line {line}", row, page_checks.require_text(row, fields))
        for line, row in read_rows(flags.saved_path)
    ]
    page_checks.require_rows(
        rows, flags.saved_path, fields, "Make such a file with sweet-rl prepare_websight."
    )
    checks = page_checks.Checks(
        report_path=report_path,
        rendered_with=flags.rendered_with(),
        at_once=4 * flags.browsers,
        pictures=Path(flags.temp_path) if flags.temp_path is not None else None,
        overwrite=flags.overwrite,
        quiet=flags.quiet,
    )
    for path in (filtered, report_path):
        tracking.writes(path, continues=flags.to_continue)
    if flags.temp_path is not None:
        tracking.writes(flags.temp_path, folder=True, continues=flags.to_continue)
    report = page_checks.check_rows(rows, checks, functools.partial(open_renderer, flags.rendering()))
    kept = [dict(row.row) for row, verdict in zip(rows, report, strict=True) if verdict["reason"] is None]
    replace_rows(filtered, kept)
    print(f"{len(kept)} of {len(rows)} rows are in {flags.filtered_path}; the reasons are in {report_path}.")
    page_checks.say_dropped(report)
