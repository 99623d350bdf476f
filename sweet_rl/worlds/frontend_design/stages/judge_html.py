"""Win rate of one run against another, page by page (table 2 of the paper)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sweet_rl.browsers.page import RenderFlags
from sweet_rl.command_line.recording import recorded
from sweet_rl.command_line.stages import stage
from sweet_rl.flags import REQUIRED, Only, flag
from sweet_rl.flags.common import BatchSize, Margin, OutputPath, Overwriting, Quiet, ReportPath
from sweet_rl.flags.models import BaseUrl, KeyVar, MaxPixels, MaxTokens, Metric, Requests, ServerPlace

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
    KeyVar,
    Requests,
    MaxTokens,
    MaxPixels,
    BatchSize,
    RenderFlags,
    Overwriting,
    Quiet,
):
    """Who judges what."""

    run_a: str = flag(REQUIRED, "trajectory file whose win rate is wanted.")
    run_b: str = flag(REQUIRED, "trajectory file that it is compared with.")
    judge: str = flag(
        "auto",
        "the server's name for a vision model; auto is the first model that it offers; metrics asks no server.",
    )
    prompt_path: str | None = flag(
        None,
        "the judge's instructions before it sees the pictures; default the packaged judge_html_prompt.txt.",
        shown="all",
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
        "output_path": "the .jsonl journal of verdicts; default run_a with .vs.NAME_OF_B.jsonl in place of .jsonl.",
        "report_path": "JSON file for the numbers; default run_a with .vs.NAME_OF_B.report.json in place of .jsonl.",
        "metric": "which grade decides.",
        "margin": "a difference up to this is a tie.",
        "max_tokens": "of the judge's reply.",
        "batch_size": "pages in work at once.",
        "overwrite": "throw away the verdicts that the journal holds, and replace a report of other runs.",
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

    Rows are paired by task_id and sample_index. A vision model is shown the target and both pictures, twice,
    in both orders; where the two verdicts differ, the page is a tie. Equal pictures are a tie and a picture
    wins against none without asking. A tie is half a win; the 95 % interval is Wilson's, over tasks.

    Every verdict is appended to a journal, so that the same command resumes where it stopped.
    With --judge metrics nothing is asked or rendered: the higher grade of sweet-rl evaluate_html wins.
    """
    from sweet_rl.grading.pages import need_page_metrics

    need_page_metrics()
    from sweet_rl.runs import new_file
    from sweet_rl.worlds.frontend_design.stages import page_judging

    report = flags.report_path
    if report is not None and not page_judging.is_report_of(flags.run_a, flags.run_b, report):
        new_file(report, "report_path", overwrite=flags.overwrite)
    runs = page_judging.load_runs(flags.run_a, flags.run_b)
    if flags.judge == "metrics":
        page_judging.run_by_metric(runs, flags.metric, flags.margin, report)
    else:
        page_judging.start(runs, flags)
