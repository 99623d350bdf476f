"""Stage 2 of the pipeline for pages: pictures to grades, grades to a table and to preference pairs.

Published behaviour: docs/published/sweet_rl.md#grading-pages.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from sweet_rl import browsers
from sweet_rl.browsers.page import Renderer, RenderFlags
from sweet_rl.cli.parse import Facets
from sweet_rl.cli.progress import Bar, write_report
from sweet_rl.cli.stage import recorded, stage
from sweet_rl.commands.evaluate import GradedFile, check_outputs, graded_file
from sweet_rl.errors import UsageError
from sweet_rl.flags import Only, flag, group
from sweet_rl.flags.models import Metric, Placement
from sweet_rl.flags.shared import BatchSize, Evaluation, FanOut, Margin, Quiet, Regrade, TempPath
from sweet_rl.grading.pages import need_page_metrics
from sweet_rl.grading.report import graded_with, shown
from sweet_rl.preferences.pairs import turn_pair_rows
from sweet_rl.types import Failure, Json

if TYPE_CHECKING:
    from sweet_rl.grading.pages.embedding import Embedder

_WITH_CLIP = Only("clip_model", ("given",), "--clip_model")


@group("Grading")
class PageGradingFlags(
    Evaluation, Regrade, Metric, Margin, Placement, BatchSize, RenderFlags, FanOut, TempPath, Quiet
):
    clip_model: str | None = flag(
        None, "folder or hub name of a CLIP or SigLIP model; published: openai/clip-vit-base-patch32."
    )
    long_page: Literal["center", "tile"] = flag(
        "center",
        "part of a long page that the model sees: center (the middle square, as published) or tile (the whole page, in squares).",
        shown="all",
        only=_WITH_CLIP,
    )

    def check_together(self) -> None:
        """Whether the metric needs a model that is not named."""
        if self.metric == "clip" and not self.clip_model:
            raise UsageError(
                "--metric clip needs --clip_model, for example --clip_model openai/clip-vit-base-patch32."
            )

    @property
    def rewarded(self) -> str:
        """The metric that becomes the reward."""
        usual = "clip" if self.clip_model else "combined"
        return usual if self.metric == "auto" else self.metric

    @property
    def at_once(self) -> int:
        """Tasks in work at a time: enough for the browsers of all machines, at most 16 where their number is not given."""
        return 4 * self.browsers * (1 if self.fan_out == "local" else self.ray_workers or 16)

    @property
    def model(self) -> dict[str, Json]:
        """What the metric "clip" depends on; empty without a model."""
        return {"clip_model": self.clip_model, "long_page": self.long_page} if self.clip_model else {}


def _facets(flags: Mapping[str, Any]) -> Facets:
    return {"clip_model": {"given" if flags["clip_model"] else "none"}, "fan_out": {flags["fan_out"]}}


@recorded("evaluate_html", reads=("saved_path", "clip_model"))
@stage(
    "saved_path",
    defaults={"metric": "auto", "margin": 0.1, "batch_size": 32},
    without=("dtype",),
    helps={
        "metric": "metric that becomes the reward; auto: clip with --clip_model, else combined.",
        "margin": "smallest difference between the rewards of a pair.",
        "batch_size": "pictures in one forward pass of the model.",
        "preference_path": "write preference pairs to this file: any two repeats of a task whose rewards "
        "differ by at least --margin, as {input, output} objects.",
    },
    narrow={"margin": {"at_least": None, "above": 0, "at_most": 1}, "temp_path": {"shown": "never"}},
    only={"device": _WITH_CLIP, "batch_size": _WITH_CLIP},
    facets=_facets,
)
def evaluate_html(flags: PageGradingFlags, /) -> None:
    """Grade web pages by their last picture; print the table; write preference pairs.

    The target is rendered and compared with the answer's picture by structure (ssim), colours, texts and
    layout, all in [0, 1] and 1 for equal pages; combined is their mean. With --clip_model, the cosine of both
    pictures' features is added, as published. A missing picture counts as a black one.

    Each graded row gets `reward`, `grades` (every metric), `floors` (the scores of a black picture and of a
    blank page) and `graded_with`. Rows that have these are skipped. Rows whose target cannot be rendered get
    no reward and count in no number.
    """
    import asyncio

    need_page_metrics()
    check_outputs(flags)
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
        async with browsers.open_renderer(settings) as renderer:
            await run(flags, renderer, embedder)

    if (cluster := flags.cluster) is None:
        asyncio.run(main())
        return
    with cluster.renderer_of(flags, settings, flags.at_once) as renderer:
        asyncio.run(run(flags, renderer, embedder))


async def run(job: PageGradingFlags, renderer: Renderer, embedder: Embedder | None = None) -> None:
    """Grade, save, print and pair."""
    from sweet_rl.grading.pages.grader import PageGrader, page_report, row_fields

    needed = job.rendered_with() | (job.model if job.rewarded == "clip" else {})

    def known(row: Mapping[str, Json]) -> dict[str, Json] | None:
        """The grade that was made in this way; a reward without grades was given elsewhere."""
        grades = row.get("grades") or {}
        alike = needed.items() <= (row.get("graded_with") or {}).items()
        if alike and grades.get(job.rewarded) is not None:
            return {"reward": grades[job.rewarded]}
        return None if grades or row.get("reward") is None else {}

    with graded_file(job.saved_path, job.k, regrade=job.regrade) as file:
        missing = file.missing(known, job.regrade, "pages")
        grader = PageGrader(
            renderer,
            folder=Path(job.saved_path).parent,
            cache=job.rendering().cache,
            embedder=embedder,
            batch_size=job.batch_size,
            at_once=job.at_once,
        )
        made_by = graded_with("pages", job.rendered_with() | job.model)
        with Bar(len(missing), 0, unit="page", quiet=job.quiet or not missing) as bar:
            async for place, grades in grader.grade([file.trajectories[index] for index in missing]):
                file.update(missing[place], row_fields(grades, job.rewarded, made_by))
                bar.update()
    reasons = {}
    for first, *_ in file.groups:
        row = file.rows[first]
        failures = (row.get("grading_details") or {}).get("failures")
        if row.get("reward") is None and failures:
            words = Failure(failures[0]["kind"].replace("_", " "), failures[0].get("detail", ""))
            reasons[file.trajectories[first].task.task_id] = f"its target gives no picture ({words})"
    if file.has_no_reward():
        raise UsageError(
            "\n".join([f"None of the tasks of {job.saved_path!r} can be graded:", *shown(reasons)])
        )
    report = page_report(file.rows, file.groups, k=file.k, metric=job.rewarded, failed=file.failed)
    print("\n".join([report.to_text(job.saved_path), *shown(reasons)]))
    cosines = [row["grades"].get("clip") for row in file.rows if row.get("grades")]
    if known_cosines := [cosine for cosine in cosines if cosine is not None]:
        print(f"Average cosine similarity: {sum(known_cosines) / len(known_cosines):.4f}")
    else:
        print(
            "No average cosine similarity: it needs a picture model (--clip_model openai/clip-vit-base-patch32, "
            f"as published). The reward above is {job.rewarded}."
        )
    write_report(job.saved_path, job.report_path, report.to_json() | {"not_gradable": reasons})
    file.write_pairs(job, job.margin, to_rows=turn_pair_rows)
