"""WebSight to frontend tasks.

Published behaviour: docs/published/sweet_rl.md#files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sweet_rl import tracking
from sweet_rl.command_line.recording import recorded
from sweet_rl.errors import UsageError

if TYPE_CHECKING:
    from sweet_rl.commands.page_checks import PageRow


@recorded("prepare_websight", reads=("source",))
def prepare_websight(
    output_path: str,
    source: str = "HuggingFaceM4/WebSight",
    *,
    num_rows: int = 20_000,
    num_train: int = 10_000,
    validate: bool = False,
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
    """Make frontend tasks of WebSight v0.2, as ColBench's were made: train.jsonl and test.jsonl.

    The idea that a page was written from becomes the request, the page (its picture addresses normalised)
    the hidden one. Of the first num_rows rows the first num_train are train, the rest is test; a row
    keeps its side whatever else is dropped. Rows without an idea or a page are dropped, with --validate
    also those whose page does not render; report.jsonl names each and says why.

    The smallest run: prepare_websight.py websight_tasks
    Without network: prepare_websight.py websight_tasks --source path/to/parquet_files

    Args:
        output_path: the folder that gets train.jsonl, test.jsonl and report.jsonl.
        source: a data set on the hub (needs the package datasets), a .parquet or .jsonl file, or a folder of such files, with the columns llm_generated_idea and text.
        num_rows: rows of the source that are looked at, from the first on.
        num_train: how many of them, from the first on, are for training.
        validate: render each page and drop those that do not render; the flags below are for this.
        browser: chromium or firefox.
        network: none (pages get what the package ships and nothing else) or allow.
        allow_scripts: run the scripts of pages.
        viewport: the window that pages are laid out for, WIDTHxHEIGHT in pixels.
        page_timeout_s: seconds that one page may take.
        browsers: browsers at once.
        render_cache: folder that keeps rendered pages for other runs, or none.
        to_continue: finish the run that output_path holds; of its pages only those that timed out are rendered again.
        overwrite: forget what output_path holds.
        quiet: no progress bar.
    """
    import functools
    from pathlib import Path

    from sweet_rl.commands import page_checks
    from sweet_rl.commands.rendering import render_settings
    from sweet_rl.pages import open_renderer
    from sweet_rl.records import replace_rows

    if num_rows < 1 or not 0 <= num_train <= num_rows:
        raise UsageError(
            f"--num_rows must be at least 1 and --num_train between 0 and it, got {num_rows} and {num_train}."
        )
    settings = render_settings(
        browser=browser,
        network=network,
        allow_scripts=allow_scripts,
        viewport=viewport,
        page_timeout_s=page_timeout_s,
        browsers=browsers,
        render_cache=render_cache,
    )
    folder = Path(output_path)
    if folder.is_file():
        raise UsageError(f"--output_path {output_path!r} is a file; name a folder.")
    files = {name: folder / f"{name}.jsonl" for name in ("train", "test", "report")}
    page_checks.refuse_to_overwrite(list(files.values()), to_continue=to_continue, overwrite=overwrite)
    rows = _read(source, num_rows, quiet=quiet)
    tracking.writes(folder, folder=True, continues=to_continue)
    if validate:
        checks = page_checks.Checks(
            report_path=files["report"],
            rendered_with=page_checks.rendered_with(settings),
            at_once=4 * browsers,
            overwrite=overwrite,
            quiet=quiet,
        )
        report = page_checks.check_rows(rows, checks, functools.partial(open_renderer, settings))
    else:
        report = [page_checks.unrendered(row) for row in rows]
        replace_rows(files["report"], report)
    kept = [
        dict(row.row) if verdict["reason"] is None else None
        for row, verdict in zip(rows, report, strict=True)
    ]
    for name, part in (("train", kept[:num_train]), ("test", kept[num_train:])):
        tasks = [row for row in part if row is not None]
        replace_rows(files[name], tasks)
        print(f"{len(tasks)} tasks are in {files[name]}")
    print(f"{len(rows)} rows of {source} were looked at; {files['report']} has the verdict on each.")
    page_checks.say_dropped(report)
    if len(rows) <= num_train:
        print(f"All {len(rows)} rows went to train.jsonl; for a test set pass a smaller --num_train.")


def _read(source: str, num_rows: int, *, quiet: bool) -> list[PageRow]:
    """The rows as tasks; those that cannot become one with what is missing.

    Raises:
        SweetRLError: see `read_websight`, or no row has what it needs.
    """
    from sweet_rl.command_line.running import progress
    from sweet_rl.commands import page_checks
    from sweet_rl.worlds.frontend_design.websight import FIELDS, HUB_VERSION, read_websight, task_row

    rows = []
    with progress(num_rows, 0, unit="row", quiet=quiet) as bar:
        for place in read_websight(source, num_rows):
            missing = page_checks.require_text(place.row, tuple(FIELDS.values()))
            row = place.row if missing else task_row(place.row)
            rows.append(page_checks.PageRow(place.where, row, missing))
            bar.update()
    repair = f"WebSight {HUB_VERSION} has both; earlier versions do not."
    page_checks.require_rows(rows, source, tuple(FIELDS.values()), repair)
    return rows
