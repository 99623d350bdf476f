"""Stage 5 of the pipeline: the critic's scores for the sampled candidates.

Published behaviour: docs/published/sweet_rl.md#ranking.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from sweet_rl import tracking
from sweet_rl.cli.parse import Facets
from sweet_rl.cli.stage import recorded, stage
from sweet_rl.errors import UsageError
from sweet_rl.flags import REQUIRED, flag
from sweet_rl.flags.models import (
    IN_PROCESS,
    SERVED,
    VLLM,
    Advantage,
    BaseUrl,
    Device,
    DType,
    KeyVar,
    Requests,
    Tokenizer,
)
from sweet_rl.flags.shared import (
    Compatible,
    ContinuingOtherwise,
    InputPath,
    LogTo,
    ModelFanOut,
    OutputPath,
    Quiet,
    SaveSteps,
)
from sweet_rl.types import Json


@dataclass(frozen=True, kw_only=True)
class RankingFlags(
    InputPath,
    OutputPath,
    Advantage,
    Tokenizer,
    SaveSteps,
    ContinuingOtherwise,
    Compatible,
    LogTo,
    Quiet,
    ModelFanOut,
):
    """Scores."""

    model_id: str = flag(
        REQUIRED,
        "the critic: a checkpoint folder, a hub name, smollm2, embedded, or the name under which a server offers it.",
    )
    no_use_ground_truth: bool = flag(False, "score without the hidden solution.")
    use_sum: bool = flag(False, "sums of log-probabilities instead of means.")
    swap_test: bool = flag(
        False,
        "score every turn a second time, with another task's hidden solution, and say how far the scores move: does the critic read it? Twice the work.",
    )

    def check_together(self) -> None:
        """What excludes each other, and what needs another."""
        super().check_together()
        if self.advantage == "paper" and self.no_use_ground_truth:
            raise UsageError("--advantage paper and --no_use_ground_truth exclude each other.")
        if self.swap_test and self.no_use_ground_truth:
            raise UsageError(
                "--swap_test and --no_use_ground_truth exclude each other: without a solution there is none "
                "to swap."
            )
        if self.published and self.reference_model is not None:
            raise UsageError(
                "--compat published uses the stored log-probabilities; leave --reference_model out."
            )

    def settings(self) -> dict[str, Json]:
        """What decides about a score: a file may be continued only with the same."""
        return {
            "model_id": self.model_id,
            "reference_model": self.reference_model,
            "advantage": self.advantage,
            "use_ground_truth": not self.no_use_ground_truth,
            "use_sum": self.use_sum,
            "compat": self.compat,
        } | ({"swap_test": True} if self.swap_test else {})


@dataclass(frozen=True, kw_only=True)
class ScorerFlags(BaseUrl, KeyVar, Requests, Device, DType, VLLM):
    """The models that score."""

    engine: Literal["transformers", "vllm", "openai"] = flag(
        "transformers",
        "what runs the models: transformers (in process), vllm (starts its own server), or openai (a vLLM server that runs).",
    )
    max_batch_tokens: int = flag(
        32768, "tokens in one forward pass at most.", at_least=1, shown="all", only=IN_PROCESS
    )

    def check_together(self) -> None:
        """Whether a server that is needed is named."""
        super().check_together()
        if self.engine == "openai" and self.base_url is None:
            raise UsageError("--engine openai needs --base_url, for example http://127.0.0.1:8001/v1.")


def _facets(flags: Mapping[str, Any]) -> Facets:
    asked = {"nobody"} if flags["engine"] == "transformers" else {"server"}
    return {"engine": {flags["engine"]}, "asked": asked, "fan_out": {flags["fan_out"]}}


@recorded("rank_best_of_n", reads=("input_path", "model_id", "reference_model", "tokenizer"), prices=True)
@stage(
    "input_path",
    "output_path",
    "model_id",
    defaults={"save_steps": 100, "request_timeout_s": 600.0},
    helps={
        "input_path": "sampled turns of sweet-rl sample_best_of_n, or a published file.",
        "output_path": "the .jsonl file that ranked turns are appended to.",
        "save_steps": "rows that are scored and saved together; a killed run loses at most these.",
        "overwrite": "throw away what output_path holds.",
        "tokenizer": "folder or name of the critic's tokenizer; default model_id.",
        "fan_out": "local (this process), or ray: copies of the models on the machines of a Ray cluster.",
        "ray_workers": "copies; default as many as the GPUs allow, without GPUs one on each machine.",
        "compat": "fixed, or published: the header of the turn is scored, the end token is not.",
    },
    narrow={"save_steps": {"at_least": 1}},
    only={"base_url": SERVED, "api_key_var": SERVED},
    facets=_facets,
)
def rank_best_of_n(flags: RankingFlags, scorers: ScorerFlags, /) -> None:
    """Score sampled candidates with a critic that knows the hidden solution; candidates keep their order.

    A score is the critic's mean log-probability of the candidate's own tokens (the end token included where
    one was generated) minus the reference's. A critic with a regression head gives its value instead.

    The smallest run: sweet-rl rank_best_of_n sampled.jsonl ranked.jsonl path/to/critic
    """
    from sweet_rl.commands import ranking

    tracking.logs_to(flags.destination())
    ranking.run(flags, scorers)
