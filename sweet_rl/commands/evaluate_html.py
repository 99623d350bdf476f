"""Stage 2 of the pipeline for pages: pictures to grades, grades to a table and to preference pairs.

Published behaviour: docs/published/sweet_rl.md#grading-pages.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from sweet_rl.browsers.page import RenderFlags
from sweet_rl.cli.parse import Facets
from sweet_rl.cli.stage import recorded, stage
from sweet_rl.errors import UsageError
from sweet_rl.flags import Only, flag
from sweet_rl.flags.models import Device, Metric
from sweet_rl.flags.shared import BatchSize, Evaluation, FanOut, Margin, Quiet, Regrade, TempPath

_WITH_CLIP = Only("clip_model", ("given",), "--clip_model")


@dataclass(frozen=True, kw_only=True)
class PageGradingFlags(
    Evaluation, Regrade, Metric, Margin, Device, BatchSize, RenderFlags, FanOut, TempPath, Quiet
):
    """Grading."""

    clip_model: str | None = flag(
        None, "folder or hub name of a CLIP or SigLIP model; published: openai/clip-vit-base-patch32."
    )
    long_page: Literal["center", "tile"] = flag(
        "center",
        "what the model sees of a long page: center (its middle, as published) or tile (all of it, in squares).",
        shown="all",
        only=_WITH_CLIP,
    )

    def check_together(self) -> None:
        """Whether the metric needs a model that is not named."""
        super().check_together()
        if self.metric == "clip" and not self.clip_model:
            raise UsageError(
                "--metric clip needs --clip_model, for example --clip_model openai/clip-vit-base-patch32."
            )

    @property
    def rewarded(self) -> str:
        """The metric that becomes the reward."""
        usual = "clip" if self.clip_model else "combined"
        return usual if self.metric == "auto" else self.metric


def _facets(flags: Mapping[str, Any]) -> Facets:
    return {"clip_model": {"given" if flags["clip_model"] else "none"}, "fan_out": {flags["fan_out"]}}


@recorded("evaluate_html", reads=("saved_path", "clip_model"))
@stage(
    "saved_path",
    defaults={"metric": "auto", "margin": 0.1, "batch_size": 32},
    helps={
        "metric": "which metric becomes the reward; auto is clip with --clip_model, else combined.",
        "margin": "least difference of the rewards in a pair.",
        "batch_size": "pictures that the model is given at once.",
        "preference_path": "write pairs there: any two repeats of a task whose rewards differ by --margin, as {input, output} objects.",
        "fan_out": "local (this machine), or ray: pages are rendered by --browsers browsers in each worker of a Ray cluster.",
        "overwrite": "replace files of pairs, and a report of another file, when they exist.",
        "temp_path": "of no effect: pages leave no files.",
    },
    narrow={"margin": {"at_least": None, "above": 0, "at_most": 1}, "temp_path": {"shown": "never"}},
    only={"device": _WITH_CLIP, "batch_size": _WITH_CLIP},
    facets=_facets,
)
def evaluate_html(flags: PageGradingFlags, /) -> None:
    """Grade web pages by their last picture; print the table; write preference pairs.

    The target is rendered, and the answer's picture compared with it: by its structure (ssim), its colours,
    its texts and its layout, all in [0, 1] and 1 for equal pages; combined is their mean. With --clip_model
    also by the cosine of both pictures' features, as published. A missing picture counts as a black one.

    Each graded row gets `reward`, `grades` (every metric), `floors` (what a black picture and a blank page
    would score) and how it was graded. Rows that have these are not graded again. Rows whose target cannot
    be rendered get no reward and are in no number.
    """
    from sweet_rl.commands.evaluation import check_outputs
    from sweet_rl.grading.pages import need_page_metrics

    need_page_metrics()
    check_outputs(flags)
    from sweet_rl.commands import page_evaluation

    page_evaluation.start(flags)
