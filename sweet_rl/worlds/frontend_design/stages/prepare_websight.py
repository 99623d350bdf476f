"""WebSight to frontend tasks.

Published behaviour: docs/published/sweet_rl.md#files.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sweet_rl import tracking
from sweet_rl.browsers.page import RenderFlags
from sweet_rl.command_line.recording import recorded
from sweet_rl.command_line.stages import stage
from sweet_rl.errors import UsageError
from sweet_rl.flags import flag
from sweet_rl.flags.common import Continuing, OutputPath, Quiet, Source

if TYPE_CHECKING:
    from sweet_rl.worlds.frontend_design.stages.page_checks import PageRow


@dataclass(frozen=True, kw_only=True)
class WebSightFlags(OutputPath, Source, RenderFlags, Continuing, Quiet):
    """Which rows."""

    num_rows: int = flag(20_000, "rows of the source that are looked at, from the first on.", at_least=1)
    num_train: int = flag(10_000, "how many of them, from the first on, are for training.", at_least=0)
    validate: bool = flag(False, "render each page and drop those that do not render.")

    def check_together(self) -> None:
        """Whether there are so many rows."""
        super().check_together()
        if self.num_train > self.num_rows:
            raise UsageError(
                f"--num_train must be at most --num_rows, got {self.num_train} and {self.num_rows}."
            )


@recorded("prepare_websight", reads=("source",))
@stage(
    "output_path",
    "source",
    defaults={"source": "HuggingFaceM4/WebSight", "render_cache": "none"},
    helps={
        "output_path": "the folder that gets train.jsonl, test.jsonl and report.jsonl.",
        "source": "a data set on the hub (needs the package datasets), a .parquet or .jsonl file, or a folder of such files, with the columns llm_generated_idea and text.",
        "to_continue": "finish the run that output_path holds; of its pages only those that timed out are rendered again.",
        "overwrite": "forget what output_path holds.",
    },
)
def prepare_websight(flags: WebSightFlags, /) -> None:
    """Make frontend tasks of WebSight v0.2, as ColBench's were made: train.jsonl and test.jsonl.

    The idea that a page was written from becomes the request, the page (its picture addresses normalised)
    the hidden one. Of the first num_rows rows the first num_train are train, the rest is test; a row
    keeps its side whatever else is dropped. Rows without an idea or a page are dropped, with --validate
    also those whose page does not render; report.jsonl names each and says why.

    The smallest run: sweet-rl prepare_websight websight_tasks
    Without network: sweet-rl prepare_websight websight_tasks --source path/to/parquet_files
    """
    import functools
    from pathlib import Path

    from sweet_rl.browsers import open_renderer
    from sweet_rl.records import replace_rows
    from sweet_rl.worlds.frontend_design.stages import page_checks

    folder = Path(flags.output_path)
    if folder.is_file():
        raise UsageError(f"--output_path {flags.output_path!r} is a file; name a folder.")
    files = {name: folder / f"{name}.jsonl" for name in ("train", "test", "report")}
    page_checks.refuse_to_overwrite(
        list(files.values()), to_continue=flags.to_continue, overwrite=flags.overwrite
    )
    rows = _read(flags.source, flags.num_rows, quiet=flags.quiet)
    tracking.writes(folder, folder=True, continues=flags.to_continue)
    if flags.validate:
        checks = page_checks.Checks(
            report_path=files["report"],
            rendered_with=flags.rendered_with(),
            at_once=4 * flags.browsers,
            overwrite=flags.overwrite,
            quiet=flags.quiet,
        )
        report = page_checks.check_rows(rows, checks, functools.partial(open_renderer, flags.rendering()))
    else:
        report = [page_checks.unrendered(row) for row in rows]
        replace_rows(files["report"], report)
    kept = [
        dict(row.row) if verdict["reason"] is None else None
        for row, verdict in zip(rows, report, strict=True)
    ]
    for name, part in (("train", kept[: flags.num_train]), ("test", kept[flags.num_train :])):
        tasks = [row for row in part if row is not None]
        replace_rows(files[name], tasks)
        print(f"{len(tasks)} tasks are in {files[name]}")
    print(f"{len(rows)} rows of {flags.source} were looked at; {files['report']} has the verdict on each.")
    page_checks.say_dropped(report)
    if len(rows) <= flags.num_train:
        print(f"All {len(rows)} rows went to train.jsonl; for a test set pass a smaller --num_train.")


def _read(source: str, num_rows: int, *, quiet: bool) -> list[PageRow]:
    """The rows as tasks; those that cannot become one with what is missing."""
    from sweet_rl.command_line.running import progress
    from sweet_rl.worlds.frontend_design.stages import page_checks
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
