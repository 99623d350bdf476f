"""Stage 2 of the pipeline for pages: pictures to grades, grades to a table and to preference pairs.

Published behaviour: docs/published/sweet_rl.md#grading-pages.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sweet_rl.command_line.recording import recorded
from sweet_rl.commands.belonging import Facets, belonging
from sweet_rl.errors import UsageError

_MANY_MACHINES = 16
"""For so many there are pages enough at once, where their number is not given."""


def _facets(flags: Mapping[str, Any]) -> Facets:
    return {"clip_model": {"given" if flags["clip_model"] else "none"}, "fan_out": {flags["fan_out"]}}


@recorded("evaluate_html", reads=("saved_path", "clip_model"))
@belonging(_facets)
def evaluate_html(
    saved_path: str,
    *,
    k: int = 1,
    preference_path: str | None = None,
    ground_truth_preference_path: str | None = None,
    metric: str = "auto",
    clip_model: str | None = None,
    long_page: str = "center",
    device: str = "auto",
    batch_size: int = 32,
    margin: float = 0.1,
    regrade: bool = False,
    report_path: str | None = None,
    browser: str = "chromium",
    network: str = "none",
    allow_scripts: bool = False,
    viewport: str = "1366x768",
    page_timeout_s: float = 30.0,
    browsers: int = 2,
    render_cache: str = "default",
    fan_out: str = "local",
    ray_address: str = "auto",
    ray_workers: int | None = None,
    temp_path: str | None = None,
    overwrite: bool = False,
    quiet: bool = False,
) -> None:
    """Grade Frontend trajectories by their last picture; print the table; write preference pairs.

    The target is rendered, and the answer's picture compared with it: by its structure (ssim), its colours,
    its texts and its layout, all in [0, 1] and 1 for equal pages; combined is their mean. With --clip_model
    also by the cosine of both pictures' features, as published. A missing picture counts as a black one.

    Each graded row gets `reward`, `grades` (every metric), `floors` (what a black picture and a blank page
    would score) and how it was graded. Rows that have these are not graded again. Rows whose target cannot
    be rendered get no reward and are in no number.

    Args:
        saved_path: trajectory file of simulate_interactions.py, or a published one.
        k: repeats of each task in the file (--best_of_n of the simulation).
        preference_path: write pairs there: any two repeats of a task whose rewards differ by --margin, as {input, output} objects.
        ground_truth_preference_path: write the same pairs there, each preceded by the hidden page: the critic's data.
        metric: which metric becomes the reward: clip, combined, ssim, colour, text or layout; auto is clip with --clip_model, else combined.
        clip_model: folder or hub name of a CLIP or SigLIP model; published: openai/clip-vit-base-patch32.
        long_page: what the model sees of a long page: center (its middle, as published) or tile (all of it, in squares).
        device: for --clip_model: auto, cpu, cuda, cuda:1, ...
        batch_size: for --clip_model: pictures at once.
        margin: least difference of the rewards in a pair.
        regrade: grade all rows again, also those that have their grades.
        report_path: JSON file for the numbers; default saved_path with .report.json in place of .jsonl.
        browser: what renders pages: chromium or firefox.
        network: none (pages get what the package ships) or allow (the published behaviour: grades depend on connectivity).
        allow_scripts: run the scripts of pages.
        viewport: width and height of the window that pages are laid out for.
        page_timeout_s: seconds that one page may take.
        browsers: browsers at once.
        render_cache: folder that keeps rendered pages for the next run; default: the user's cache; none keeps none.
        fan_out: local (this machine), or ray: pages are rendered by --browsers browsers in each worker of a Ray cluster.
        ray_address: auto (the cluster that runs on this machine or that RAY_ADDRESS names), local (one of our own, for this run), or HOST:PORT of its head.
        ray_workers: for --fan_out ray: workers; default one on each machine.
        temp_path: accepted for the published command line; has no effect: pages leave no files.
        quiet: no progress bar.
        overwrite: replace files of pairs, and a report of another file, when they exist.
    """
    del temp_path
    from sweet_rl.commands.evaluation import check_outputs, page_metrics

    metrics = page_metrics()
    if metric == "auto":
        metric = "clip" if clip_model else "combined"
    if metric not in metrics:
        raise UsageError(f"--metric must be auto or one of {', '.join(metrics)}, got {metric!r}.")
    if metric == "clip" and not clip_model:
        raise UsageError(
            "--metric clip needs --clip_model, for example --clip_model openai/clip-vit-base-patch32."
        )
    if long_page not in {"center", "tile"}:
        raise UsageError(f"--long_page must be center or tile, got {long_page!r}.")
    if k < 1 or batch_size < 1:
        raise UsageError("--k and --batch_size must be at least 1.")
    if not 0 < margin <= 1:
        raise UsageError(f"--margin must be above 0 and at most 1, got {margin:g}.")

    pair_paths = {False: preference_path, True: ground_truth_preference_path}
    check_outputs(saved_path, pair_paths, report_path, overwrite=overwrite)
    from sweet_rl.commands.fan_out import cluster_of

    cluster = cluster_of(fan_out, ray_address, ray_workers)
    from sweet_rl.commands import page_evaluation
    from sweet_rl.commands.rendering import render_settings

    settings = render_settings(
        browser=browser,
        network=network,
        allow_scripts=allow_scripts,
        viewport=viewport,
        page_timeout_s=page_timeout_s,
        browsers=browsers,
        render_cache=render_cache,
    )
    page_evaluation.start(
        page_evaluation.PageEvaluation(
            saved_path=saved_path,
            k=k,
            metric=metric,
            margin=margin,
            regrade=regrade,
            pair_paths=pair_paths,
            report_path=report_path,
            rendering=page_evaluation.rendering_of(settings),
            model={"clip_model": clip_model, "long_page": long_page} if clip_model else {},
            batch_size=batch_size,
            at_once=4 * browsers * (1 if cluster is None else ray_workers or _MANY_MACHINES),
            quiet=quiet,
        ),
        settings,
        device=device,
        cluster=cluster,
    )
