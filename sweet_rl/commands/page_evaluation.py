"""The work of `evaluate_html` after its flags are checked: grade, save, report, pair."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sweet_rl.browsers.page import Renderer
from sweet_rl.cli.progress import progress, write_report
from sweet_rl.commands.evaluation import GradedFile, graded_file, usable_in_pairs, write_pairs
from sweet_rl.commands.parts import cluster_of
from sweet_rl.errors import UsageError
from sweet_rl.grading.pages.embedding import Embedder
from sweet_rl.grading.pages.grader import PageGrader, row_fields
from sweet_rl.grading.pages.metrics import Looks
from sweet_rl.grading.pages.report import page_report
from sweet_rl.grading.report import graded_with, shown
from sweet_rl.preferences.step_pairs import dialogue_hard_negatives
from sweet_rl.preferences.trajectory_pairs import margin_pairs, turn_pair_rows
from sweet_rl.types import Failure, Json

if TYPE_CHECKING:
    from sweet_rl.commands.evaluate_html import PageGradingFlags


_MANY_MACHINES = 16
"""For so many there are pages enough at once, where their number is not given."""


def start(flags: PageGradingFlags) -> None:
    """Load the model, if there is one, start the browsers, here or over there, and `run`."""
    from sweet_rl.browsers import open_renderer

    file = GradedFile(flags.saved_path, flags.k)  # what is wrong with it is said before browsers start
    if tests := [one.task.task_id for one in file.trajectories if one.task.test_cases]:
        raise UsageError(
            f"The task {tests[0]!r} of {flags.saved_path!r} has hidden tests and no page: grade it by "
            "sweet-rl evaluate_code."
        )
    settings = flags.rendering()
    embedder: Embedder | None = None
    if flags.clip_model:
        from sweet_rl.grading.pages.embedding import ClipEmbedder

        embedder = ClipEmbedder(
            flags.clip_model, device=flags.device, batch_size=flags.batch_size, long_page=flags.long_page
        )

    async def main() -> None:
        async with open_renderer(settings) as renderer:
            await run(flags, renderer, embedder)

    if (cluster := cluster_of(flags)) is None:
        asyncio.run(main())
        return
    with cluster.renderer_of(flags, settings, _at_once(flags)) as renderer:
        asyncio.run(run(flags, renderer, embedder))


def _at_once(flags: PageGradingFlags) -> int:
    """Tasks in work at a time: enough for the browsers of all machines."""
    machines = 1 if flags.fan_out == "local" else flags.ray_workers or _MANY_MACHINES
    return 4 * flags.browsers * machines


async def run(job: PageGradingFlags, renderer: Renderer, embedder: Embedder | None = None) -> None:
    """Grade, save, print and pair."""
    with graded_file(job.saved_path, job.k) as file:
        missing = _missing(file, job)
        folder = Path(job.saved_path).parent
        made_by = graded_with("pages", job.rendered_with() | _model(job))
        grader = PageGrader(
            renderer,
            folder=folder,
            looks=Looks(job.rendering().cache),
            embedder=embedder,
            batch_size=job.batch_size,
            at_once=_at_once(job),
        )
        with progress(len(missing), 0, unit="page", quiet=job.quiet or not missing) as bar:
            async for place, grades in grader.grade([file.trajectories[index] for index in missing]):
                file.update(missing[place], row_fields(grades, job.rewarded, made_by))
                bar.update()
    file.say_regraded(regrade=job.regrade)
    reasons = {}
    for group in file.groups:
        row = file.rows[group[0]]
        failures = (row.get("grading_details") or {}).get("failures")
        if row.get("reward") is None and failures:
            words = Failure(failures[0]["kind"].replace("_", " "), failures[0].get("detail", ""))
            reasons[file.trajectories[group[0]].task.task_id] = f"its target gives no picture ({words})"
    if all(file.rows[row].get("reward") is None for group in file.groups for row in group):
        raise UsageError(
            "\n".join([f"None of the tasks of {job.saved_path!r} can be graded:", *shown(reasons)])
        )
    report = page_report(file.rows, file.groups, k=file.k, metric=job.rewarded, failed=file.failed)
    print("\n".join([report.to_text(job.saved_path), *shown(reasons)]))
    graded = [row["grades"] for row in file.rows if row.get("grades")]
    cosines = [grades["clip"] for grades in graded if grades.get("clip") is not None]
    if cosines:
        print(f"Average cosine similarity: {sum(cosines) / len(cosines):.4f}")
    else:
        print(
            "No average cosine similarity: it needs a picture model (--clip_model openai/clip-vit-base-patch32, "
            f"as published). The reward above is {job.rewarded}."
        )
    write_report(job.saved_path, job.report_path, report.to_json() | {"not_gradable": reasons})
    _write_pairs(file, job)


def _missing(file: GradedFile, job: PageGradingFlags) -> list[int]:
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


def _known_grade(row: Mapping[str, Json], job: PageGradingFlags) -> float | None:
    """The metric's stored value, where it was computed in the same way."""
    needed = job.rendered_with() | (_model(job) if job.rewarded == "clip" else {})
    graded_with = row.get("graded_with") or {}
    if any(graded_with.get(name) != value for name, value in needed.items()):
        return None
    value: float | None = (row.get("grades") or {}).get(job.rewarded)
    return value


def _model(job: PageGradingFlags) -> dict[str, Json]:
    """What the metric "clip" depends on; empty without a model."""
    return {"clip_model": job.clip_model, "long_page": job.long_page} if job.clip_model else {}


def _write_pairs(file: GradedFile, job: PageGradingFlags) -> None:
    rewards: Sequence[float | None] = [row.get("reward") for row in file.rows]
    usable = usable_in_pairs(file.trajectories)
    pairs = margin_pairs(rewards, file.groups, job.margin, usable)
    write_pairs(
        job.pair_paths,
        pairs,
        lambda hidden: turn_pair_rows(file.trajectories, pairs, with_ground_truth=hidden),
        why_none=f"no two repeats of a task differ by {job.margin:g}",
        skipped=usable.count(False) - file.failed,
        guards=dialogue_hard_negatives(file.trajectories, pairs, job.hard_negatives),
    )
