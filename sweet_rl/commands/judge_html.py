"""Win rate of one run against another, page by page (table 2 of the paper)."""

from __future__ import annotations

from sweet_rl.command_line.recording import recorded
from sweet_rl.commands.belonging import belonging
from sweet_rl.errors import UsageError


@recorded("judge_html", reads=("run_a", "run_b", "prompt_path"), prices=True)
@belonging(lambda flags: {"judge": {"metrics" if flags["judge"] == "metrics" else "model"}})
def judge_html(
    run_a: str,
    run_b: str,
    *,
    judge: str = "auto",
    metric: str = "combined",
    margin: float = 0.01,
    hostname: str | None = None,
    port: int | None = None,
    base_url: str | None = None,
    api_key_var: str | None = None,
    output_path: str | None = None,
    report_path: str | None = None,
    prompt_path: str | None = None,
    max_tokens: int = 512,
    max_pixels: int = 1500000,
    batch_size: int = 16,
    request_timeout_s: float = 120.0,
    request_attempts: int = 4,
    overwrite: bool = False,
    browser: str = "chromium",
    network: str = "none",
    allow_scripts: bool = False,
    viewport: str = "1366x768",
    page_timeout_s: float = 30.0,
    browsers: int = 2,
    render_cache: str = "default",
    quiet: bool = False,
) -> None:
    """Compare two runs over the same tasks page by page, and print the win rate of the first.

    Rows are paired by task_id and sample_index. A vision model is shown the target and both pictures, twice,
    in both orders; where the two verdicts differ, the page is a tie. Equal pictures are a tie and a picture
    wins against none without asking. A tie is half a win; the 95 % interval is Wilson's, over tasks.

    Every verdict is appended to a journal, so that the same command goes on where it was stopped.
    With --judge metrics nothing is asked or rendered: the higher grade of evaluate_html.py wins.

    Args:
        run_a: trajectory file whose win rate is wanted.
        run_b: trajectory file that it is compared with.
        judge: the server's name for a vision model; auto is the first model that it offers; metrics asks no server.
        metric: for --judge metrics: clip, combined, ssim, colour, text or layout.
        margin: for --judge metrics: a difference up to this is a tie.
        hostname: host of the OpenAI-compatible server; default 127.0.0.1.
        port: its port; default 8000.
        base_url: its base URL instead (like https://host/v1); several, separated by commas, share the load.
        api_key_var: environment variable that holds its key, which must be set; default OPENAI_API_KEY, if that is set.
        output_path: the .jsonl journal of verdicts; default run_a with .vs.NAME_OF_B.jsonl in place of .jsonl.
        report_path: JSON file for the numbers; default run_a with .vs.NAME_OF_B.report.json in place of .jsonl.
        prompt_path: the judge's instructions before it sees the pictures; default the packaged judge_html_prompt.txt.
        max_tokens: of the judge's reply.
        max_pixels: larger pictures are scaled down to so many pixels before they are sent.
        batch_size: pages in work at once.
        request_timeout_s: seconds that one request may take.
        request_attempts: how often a request is tried when it fails in a way that can pass.
        overwrite: throw away the verdicts that the journal holds, and replace a report of other runs.
        browser: what renders targets: chromium or firefox.
        network: none (pages get what the package ships) or allow.
        allow_scripts: run the scripts of pages.
        viewport: width and height of the window that pages are laid out for.
        page_timeout_s: seconds that one page may take.
        browsers: browsers at once.
        render_cache: folder that keeps rendered pages for the next run; default: the user's cache; none keeps none.
        quiet: no progress bar.
    """
    from sweet_rl.commands.evaluation import page_metrics

    metrics = page_metrics()
    if metric not in metrics:
        raise UsageError(f"--metric must be one of {', '.join(metrics)}, got {metric!r}.")
    if not 0 <= margin <= 1:
        raise UsageError(f"--margin must be from 0 to 1, got {margin:g}.")
    for flag, value in {
        "max_tokens": max_tokens,
        "max_pixels": max_pixels,
        "batch_size": batch_size,
        "request_attempts": request_attempts,
    }.items():
        if value < 1:
            raise UsageError(f"--{flag} must be at least 1, got {value}.")

    from sweet_rl.commands import page_judging
    from sweet_rl.runs import new_file

    if report_path is not None and not page_judging.is_report_of(run_a, run_b, report_path):
        new_file(report_path, "report_path", overwrite=overwrite)

    if judge == "metrics":
        page_judging.run_by_metric(page_judging.load_runs(run_a, run_b), metric, margin, report_path)
        return
    from sweet_rl.commands.rendering import render_settings

    page_judging.start(
        page_judging.load_runs(run_a, run_b),
        page_judging.JudgeFlags(
            model=judge,
            hostname=hostname,
            port=port,
            base_url=base_url,
            api_key_var=api_key_var,
            request_timeout_s=request_timeout_s,
            request_attempts=request_attempts,
            prompt_path=prompt_path,
            max_tokens=max_tokens,
            journal_path=output_path,
            most_pixels=max_pixels,
            at_once=batch_size,
            overwrite=overwrite,
            quiet=quiet,
        ),
        render_settings(
            browser=browser,
            network=network,
            allow_scripts=allow_scripts,
            viewport=viewport,
            page_timeout_s=page_timeout_s,
            browsers=browsers,
            render_cache=render_cache,
        ),
        report_path,
    )
