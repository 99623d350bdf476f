"""The stages that only Frontend Design has: where its tasks come from, and runs compared page by page.

Published behaviour: docs/published/sweet_rl.md#files, #viewers-and-filter.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sweet_rl import tracking
from sweet_rl.browsers.page import RenderFlags
from sweet_rl.cli.stage import recorded, stage
from sweet_rl.errors import UsageError
from sweet_rl.flags import REQUIRED, Only, flag, group
from sweet_rl.flags.models import BaseUrl, MaxPixels, MaxTokens, Metric, Requests, ServerPlace
from sweet_rl.flags.shared import (
    BatchSize,
    Continuing,
    Margin,
    OutputPath,
    Overwriting,
    Quiet,
    ReportPath,
    SavedPath,
    Source,
    TempPath,
)


@group("How pages are checked")
class PageFlags(RenderFlags, Continuing, Quiet):
    pass


@group("Which rows")
class WebSightFlags(OutputPath, Source, PageFlags):
    num_rows: int = flag(20_000, "rows of the source to read, from the first on.", at_least=1)
    num_train: int = flag(10_000, "rows among them for training, from the first on.", at_least=0)
    validate: bool = flag(False, "render each page and drop those that do not render.")

    def check_together(self) -> None:
        """Whether there are so many rows."""
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
        "output_path": "folder for train.jsonl, test.jsonl and report.jsonl.",
        "source": "a data set on the hub (needs the package datasets), a .parquet or .jsonl file, or a "
        "folder of such files, with the columns llm_generated_idea and text.",
        "to_continue": "resume the run in --output_path; pages that timed out are rendered again.",
        "overwrite": "discard what --output_path holds.",
    },
)
def prepare_websight(flags: WebSightFlags, /) -> None:
    """Make frontend tasks from WebSight v0.2, in the way ColBench's were made: train.jsonl and test.jsonl.

    The idea from which a page was written becomes the request, and the page (with normalised picture
    addresses) the hidden solution. Of the first num_rows rows, the first num_train are for training and the
    rest for testing; dropping rows never moves another row to the other split. Rows without an idea or a page
    are dropped, and with --validate also those whose page cannot be rendered; report.jsonl names each one and
    the reason.

    The smallest run: sweet-rl prepare_websight websight_tasks
    Without network: sweet-rl prepare_websight websight_tasks --source path/to/parquet_files
    """
    from pathlib import Path

    from sweet_rl.records import replace_rows
    from sweet_rl.worlds.frontend_design import websight

    folder = Path(flags.output_path)
    if folder.is_file():
        raise UsageError(f"--output_path {flags.output_path!r} is a file; name a folder.")
    files = {name: folder / f"{name}.jsonl" for name in ("train", "test", "report")}
    websight.refuse_to_overwrite(files.values(), flags)
    rows = websight.read_tasks(flags.source, flags.num_rows, quiet=flags.quiet)
    tracking.writes(folder, folder=True, continues=flags.to_continue)
    if flags.validate:
        report = websight.check_rows(rows, flags, files["report"])
    else:
        report = [websight.unrendered(row) for row in rows]
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
    websight.say_dropped(report)
    if len(rows) <= flags.num_train:
        print(f"All {len(rows)} rows went to train.jsonl; for a test set pass a smaller --num_train.")


@group("Inputs and outputs")
class FilterFlags(SavedPath, TempPath, PageFlags):
    filtered_path: str = flag(REQUIRED, "the .jsonl file that the kept rows are written to.")


@recorded("filter_websites", reads=("saved_path",))
@stage(
    "saved_path",
    "filtered_path",
    "temp_path",
    defaults={"render_cache": "none"},
    helps={
        "saved_path": "the .jsonl file of frontend tasks: rows with problem_description and ground_truth (the page).",
        "temp_path": "folder for the picture of each rendered page, as PAGE.png, where PAGE is the page's "
        "name in the report; default: pictures are not kept.",
        "to_continue": "resume the run whose report lies beside --filtered_path; pages that timed out are rendered again.",
        "overwrite": "discard the report and replace --filtered_path.",
    },
)
def filter_websites(flags: FilterFlags, /) -> None:
    """Keep the rows of a task file that have a request and a page that a real browser can render.

    Kept rows are unchanged and in the same order. A report beside filtered_path (NAME.report.jsonl) says for
    each row whether it was kept, and if not, why: no ground_truth, no problem_description, timeout, crash,
    too_large, empty, navigation. Pages that time out are tried again, one at a time, before they are dropped.
    The same command with --to_continue resumes an interrupted run.

    The smallest run: sweet-rl filter_websites tasks.jsonl kept.jsonl
    """
    import os
    from pathlib import Path

    from sweet_rl.records import read_rows, replace_rows
    from sweet_rl.worlds.frontend_design import websight

    filtered = Path(flags.filtered_path)
    if os.path.realpath(flags.saved_path) == os.path.realpath(filtered):
        raise UsageError(
            "--saved_path and --filtered_path are the same file; choose another --filtered_path."
        )
    if filtered.is_dir():
        raise UsageError(f"--filtered_path {flags.filtered_path!r} is a folder; name a .jsonl file in it.")
    report_path = filtered.with_name(f"{filtered.stem}.report.jsonl")
    websight.refuse_to_overwrite([filtered, report_path], flags)
    fields = ("problem_description", "ground_truth")
    rows = [
        websight.PageRow(f"line {line}", row, websight.require_text(row, fields))
        for line, row in read_rows(flags.saved_path)
    ]
    websight.require_rows(rows, flags.saved_path, fields, "Make such a file with sweet-rl prepare_websight.")
    for path in (filtered, report_path):
        tracking.writes(path, continues=flags.to_continue)
    if flags.temp_path is not None:
        tracking.writes(flags.temp_path, folder=True, continues=flags.to_continue)
    report = websight.check_rows(rows, flags, report_path, flags.temp_path)
    kept = [dict(row.row) for row, verdict in zip(rows, report, strict=True) if verdict["reason"] is None]
    replace_rows(filtered, kept)
    print(f"{len(kept)} of {len(rows)} rows are in {flags.filtered_path}; the reasons are in {report_path}.")
    websight.say_dropped(report)


_MODEL: Final = Only("judge", ("model",))
_METRICS: Final = Only("judge", ("metrics",))
_OF_A_MODEL: Final = (
    "hostname port base_url api_key_var prompt_path max_tokens max_pixels batch_size request_timeout_s "
    "request_attempts output_path browser network allow_scripts viewport page_timeout_s browsers render_cache"
)


@dataclass(frozen=True, kw_only=True)
class JudgeFlags(
    OutputPath,
    ReportPath,
    Metric,
    Margin,
    ServerPlace,
    BaseUrl,
    Requests,
    MaxTokens,
    MaxPixels,
    BatchSize,
    RenderFlags,
    Overwriting,
    Quiet,
):
    """Who judges what."""

    run_a: str = flag(REQUIRED, "trajectory file whose win rate is computed.")
    run_b: str = flag(REQUIRED, "trajectory file to compare it with.")
    judge: str = flag(
        "auto",
        "name of a vision model on the server; auto: the server's first model; metrics: no model, compare stored grades.",
    )
    prompt_path: str | None = flag(
        None, "file with the judge's instructions; default the packaged judge_html_prompt.txt.", shown="all"
    )


@recorded("judge_html", reads=("run_a", "run_b", "prompt_path"), prices=True, resumes=True)
@stage(
    "run_a",
    "run_b",
    defaults={
        "output_path": "",
        "metric": "combined",
        "margin": 0.01,
        "max_tokens": 512,
        "max_pixels": 1_500_000,
        "batch_size": 16,
    },
    helps={
        "output_path": ".jsonl journal of verdicts; default: the path of --run_a with .vs.NAME_OF_B.jsonl in place of .jsonl.",
        "report_path": "JSON file for the report; default: the path of --run_a with .vs.NAME_OF_B.report.json in place of .jsonl.",
        "metric": "metric that decides.",
        "margin": "largest difference of two grades that counts as a tie.",
        "max_tokens": "longest reply of the judge, in tokens.",
        "batch_size": "pages judged at once.",
        "overwrite": "discard the verdicts in the journal, and replace a report of other runs.",
    },
    narrow={
        "margin": {"at_most": 1},
        "metric": {"choices": ("clip", "combined", "ssim", "colour", "text", "layout")},
    },
    only=dict.fromkeys(_OF_A_MODEL.split(), _MODEL) | {"metric": _METRICS, "margin": _METRICS},
    facets=lambda flags: {"judge": {"metrics" if flags["judge"] == "metrics" else "model"}},
)
def judge_html(flags: JudgeFlags, /) -> None:
    """Compare two runs over the same tasks page by page, and print the win rate of the first.

    Rows are paired by task_id and sample_index. A vision model sees the target and both pictures twice, once
    in each order; if the two verdicts differ, the pair is a tie. Equal pictures are a tie and a picture wins
    against a missing one, without asking the model. A tie counts as half a win; the 95 % interval is
    Wilson's, over tasks.

    Every verdict is appended to a journal, so that the same command resumes where it stopped.
    With --judge metrics no model is asked and nothing is rendered: the higher grade of sweet-rl evaluate_html
    wins.
    """
    from sweet_rl.grading.pages import need_page_metrics

    need_page_metrics()
    from sweet_rl.worlds.frontend_design import judging

    judging.compare(flags)
