"""What `evaluate_html` does once its flags are known: grade what is missing, save, report, pair."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from sweet_rl.cluster import Cluster
from sweet_rl.command_line.running import progress
from sweet_rl.commands.evaluation import GradedFile, graded_file, usable_in_pairs, write_pairs, write_report
from sweet_rl.grading.pages.embedding import Embedder
from sweet_rl.grading.pages.grader import PageGrader, PageGrades
from sweet_rl.grading.pages.report import page_report
from sweet_rl.pages.settings import RenderSettings
from sweet_rl.pages.types import Renderer
from sweet_rl.preferences.trajectory_pairs import margin_pairs, turn_pair_rows
from sweet_rl.types import Json


@dataclass(frozen=True, slots=True)
class PageEvaluation:
    """Settings of an evaluation of pages.

    Args:
        saved_path: the trajectory file; its rows keep every field they have.
        k: repeats of each task.
        metric: which grade becomes the reward.
        margin: least difference of the rewards of a pair.
        regrade: also rows that have their grades.
        pair_paths: where pairs go, by whether the hidden page precedes them.
        report_path: where the numbers go; None for beside the file.
        rendering: what the grades depend on besides the pages, kept in each row.
        model: likewise for "clip"; empty without a model.
        batch_size: pictures that the model is given at once.
        at_once: tasks in work at a time.
        quiet: no progress bar.
    """

    saved_path: str
    k: int = 1
    metric: str = "combined"
    margin: float = 0.1
    regrade: bool = False
    pair_paths: Mapping[bool, str | None] = field(default_factory=dict)
    report_path: str | None = None
    rendering: Mapping[str, Json] = field(default_factory=dict)
    model: Mapping[str, Json] = field(default_factory=dict)
    batch_size: int = 32
    at_once: int = 8
    quiet: bool = False


def rendering_of(settings: RenderSettings) -> dict[str, Json]:
    """What grades without a model depend on besides the pages, as rows keep it."""
    return {
        "browser": settings.browser,
        "network": settings.network,
        "allow_scripts": settings.allow_scripts,
        "viewport": f"{settings.viewport.width}x{settings.viewport.height}",
    }


def start(
    job: PageEvaluation, settings: RenderSettings, *, device: str, cluster: Cluster | None = None
) -> None:
    """Load the model, if there is one, start the browsers, here or over there, and `run`."""
    from sweet_rl.pages import open_renderer

    embedder: Embedder | None = None
    if job.model:
        from sweet_rl.grading.pages.embedding import ClipEmbedder

        embedder = ClipEmbedder(
            job.model["clip_model"],
            device=device,
            batch_size=job.batch_size,
            long_page=job.model["long_page"],
        )

    async def main() -> None:
        async with open_renderer(settings) as renderer:
            await run(job, renderer, embedder)

    if cluster is None:
        asyncio.run(main())
        return
    from sweet_rl.commands.fan_out import RayRenderer, rendering_workers

    with rendering_workers(cluster, settings, job.at_once) as workers:
        asyncio.run(run(job, RayRenderer(workers), embedder))


async def run(job: PageEvaluation, renderer: Renderer, embedder: Embedder | None = None) -> None:
    """Grade, save, print and pair.

    Raises:
        SweetRLError: the file is broken, in use, or not in groups of k (nothing in it was changed), or there
            is no browser.
    """
    with graded_file(job.saved_path, job.k) as file:
        missing = _missing(file, job)
        folder = Path(job.saved_path).parent
        grader = PageGrader(
            renderer, folder=folder, embedder=embedder, batch_size=job.batch_size, at_once=job.at_once
        )
        with progress(len(missing), 0, unit="page", quiet=job.quiet or not missing) as bar:
            async for place, grades in grader.grade([file.trajectories[index] for index in missing]):
                file.update(missing[place], graded_fields(grades, job))
                bar.update()
    report = page_report(file.rows, file.groups, k=job.k, metric=job.metric, failed=file.failed)
    print(report.to_text(job.saved_path))
    write_report(job.saved_path, job.report_path, report.to_json())
    _write_pairs(file, job)


def _missing(file: GradedFile, job: PageEvaluation) -> list[int]:
    """Rows to grade; the others get the reward that is asked for from their grades.

    A row that has a reward and no grades was scored elsewhere and is left as it is.
    """
    missing = []
    for index, row in enumerate(file.rows):
        if not file.counts(index):
            continue
        known = _known_grade(row, job)
        if job.regrade or (known is None and (row.get("reward") is None or row.get("grades"))):
            missing.append(index)
        elif known is not None and row.get("reward") != known:  # the reward was another metric
            file.update(index, {"reward": known})
    return missing


def _known_grade(row: Mapping[str, Json], job: PageEvaluation) -> float | None:
    """The metric's stored value, where it was computed in the same way."""
    needed = dict(job.rendering) | (dict(job.model) if job.metric == "clip" else {})
    graded_with = row.get("graded_with") or {}
    if any(graded_with.get(name) != value for name, value in needed.items()):
        return None
    value: float | None = (row.get("grades") or {}).get(job.metric)
    return value


def graded_fields(grades: PageGrades, job: PageEvaluation) -> dict[str, Json]:
    """The fields that grading gives a row; `reward` is null where the target has no picture."""
    details: dict[str, Json] = {"picture": grades.shown.value} if grades.shown else {}
    if grades.failures:
        details["failures"] = [
            {name: value for name, value in asdict(failure).items() if value not in (None, "")}
            for failure in grades.failures
        ]
    values = dict(grades.values) if grades.values is not None else {}
    return {
        "reward": values.get(job.metric),
        "grades": values,
        "floors": {name: dict(floor) for name, floor in grades.floors.items()},
        "graded_with": dict(job.rendering) | dict(job.model),
        "grading_details": details,
    }


def _write_pairs(file: GradedFile, job: PageEvaluation) -> None:
    rewards: Sequence[float | None] = [row.get("reward") for row in file.rows]
    usable = usable_in_pairs(file.trajectories)
    pairs = margin_pairs(rewards, file.groups, job.margin, usable)
    write_pairs(
        job.pair_paths,
        pairs,
        lambda hidden: turn_pair_rows(file.trajectories, pairs, with_ground_truth=hidden),
        why_none=f"no two repeats of a task differ by {job.margin:g}",
        skipped=usable.count(False) - file.failed,
    )
