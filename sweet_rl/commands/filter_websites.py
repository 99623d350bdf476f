"""Frontend tasks of which every page renders.

Published behaviour: docs/published/sweet_rl.md#viewers-and-filter.
"""

from __future__ import annotations

from sweet_rl import tracking
from sweet_rl.command_line.recording import recorded
from sweet_rl.errors import UsageError


@recorded("filter_websites", reads=("saved_path",))
def filter_websites(
    saved_path: str,
    filtered_path: str,
    temp_path: str | None = None,
    *,
    browser: str = "chromium",
    network: str = "none",
    allow_scripts: bool = False,
    viewport: str = "1366x768",
    page_timeout_s: float = 30.0,
    browsers: int = 2,
    render_cache: str = "none",
    to_continue: bool = False,
    overwrite: bool = False,
    quiet: bool = False,
) -> None:
    """Keep the rows of a task file that have a request and a page that a real browser can show.

    Rows are kept as they are, in their order. Beside filtered_path a report (NAME.report.jsonl) says of
    each row whether it was kept, and why not: no ground_truth, no problem_description, timeout, crash,
    too_large, empty, navigation. Pages that time out are tried again, one at a time, before they are
    dropped. A run that was stopped is finished by the same command with --to_continue.

    The smallest run: filter_websites.py tasks.jsonl kept.jsonl

    Args:
        saved_path: the .jsonl file of frontend tasks: rows with problem_description and ground_truth (the page).
        filtered_path: the .jsonl file that the kept rows are written to.
        temp_path: folder that gets the picture of each page that renders, as PAGE.png where PAGE is the page's name in the report; default: no pictures are kept.
        browser: chromium or firefox.
        network: none (pages get what the package ships and nothing else) or allow.
        allow_scripts: run the scripts of pages.
        viewport: the window that pages are laid out for, WIDTHxHEIGHT in pixels.
        page_timeout_s: seconds that one page may take.
        browsers: browsers at once.
        render_cache: folder that keeps rendered pages for other runs, or none.
        to_continue: finish the run that filtered_path's report holds; of its pages only those that timed out are rendered again.
        overwrite: forget the report and replace filtered_path.
        quiet: no progress bar.
    """
    import functools
    import os
    from pathlib import Path

    from sweet_rl.commands import page_checks
    from sweet_rl.commands.rendering import render_settings
    from sweet_rl.pages import open_renderer
    from sweet_rl.records import read_rows, replace_rows

    settings = render_settings(
        browser=browser,
        network=network,
        allow_scripts=allow_scripts,
        viewport=viewport,
        page_timeout_s=page_timeout_s,
        browsers=browsers,
        render_cache=render_cache,
    )
    filtered = Path(filtered_path)
    if os.path.realpath(saved_path) == os.path.realpath(filtered):
        raise UsageError(
            "--saved_path and --filtered_path are the same file; choose another --filtered_path."
        )
    if filtered.is_dir():
        raise UsageError(f"--filtered_path {filtered_path!r} is a folder; name a .jsonl file in it.")
    report_path = filtered.with_name(f"{filtered.stem}.report.jsonl")
    page_checks.refuse_to_overwrite([filtered, report_path], to_continue=to_continue, overwrite=overwrite)
    fields = ("problem_description", "ground_truth")
    rows = [
        page_checks.PageRow(f"line {line}", row, page_checks.require_text(row, fields))
        for line, row in read_rows(saved_path)
    ]
    page_checks.require_rows(rows, saved_path, fields, "Make such a file with prepare_websight.py.")
    checks = page_checks.Checks(
        report_path=report_path,
        rendered_with=page_checks.rendered_with(settings),
        at_once=4 * browsers,
        pictures=Path(temp_path) if temp_path is not None else None,
        overwrite=overwrite,
        quiet=quiet,
    )
    for path in (filtered, report_path):
        tracking.writes(path, continues=to_continue)
    if temp_path is not None:
        tracking.writes(temp_path, folder=True, continues=to_continue)
    report = page_checks.check_rows(rows, checks, functools.partial(open_renderer, settings))
    kept = [dict(row.row) for row, verdict in zip(rows, report, strict=True) if verdict["reason"] is None]
    replace_rows(filtered, kept)
    print(f"{len(kept)} of {len(rows)} rows are in {filtered_path}; the reasons are in {report_path}.")
    page_checks.say_dropped(report)
