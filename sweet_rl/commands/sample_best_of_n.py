"""Stage 4 of the pipeline: alternatives for every agent turn of the offline data.

Published behaviour: docs/published/sweet_rl.md#sampling.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sweet_rl import tracking
from sweet_rl.cli.parse import Facets
from sweet_rl.cli.stage import built, recorded, stage
from sweet_rl.commands.agent_flags import AgentFlags, Player, engine_of
from sweet_rl.flags import flag
from sweet_rl.flags.shared import (
    BatchSize,
    Compatible,
    ContinuingOtherwise,
    InputPath,
    LogTo,
    ModelFanOut,
    OutputPath,
    Quiet,
    Seeded,
)


@dataclass(frozen=True, kw_only=True)
class SamplingFlags(
    InputPath,
    OutputPath,
    BatchSize,
    ContinuingOtherwise,
    Compatible,
    Seeded,
    LogTo,
    Quiet,
    ModelFanOut,
):
    """Tasks."""

    best_of_n: int = flag(16, "candidates for each turn.", at_least=1)
    data_fraction: float = flag(
        1.0, "use the first so large a part of the trajectories; at least one.", above=0
    )
    random_tasks: bool = flag(
        False,
        "use the trajectories of randomly chosen tasks (by --seed) instead of the first ones.",
        aliases=("shuffle",),
    )


def _facets(flags: Mapping[str, Any]) -> Facets:
    """What samples, and where."""
    engine = engine_of(built(AgentFlags, flags), None)
    asked = {"server"} if engine in {"openai", "vllm"} else {"nobody"}
    return {"agent": {engine}, "engine": {engine}, "asked": asked, "fan_out": {flags["fan_out"]}}


@recorded("sample_best_of_n", reads=("input_path", "agent_model", "tokenizer"), prices=True)
@stage(
    "input_path",
    "output_path",
    "agent_model",
    defaults={
        "agent_model": "meta-llama/Llama-3.1-8B-Instruct",
        "batch_size": 256,
        "request_timeout_s": 600.0,
    },
    helps={
        "input_path": "trajectories with rewards: sweet-rl evaluate_code writes them into the file.",
        "output_path": "the .jsonl file that sampled turns are appended to.",
        "agent_model": "the model that samples: a folder, a hub name, smollm2, embedded, or the name under which a server offers it.",
        "batch_size": "turns in flight at once.",
        "overwrite": "throw away what output_path holds.",
        "agent": "what runs agent_model: auto, transformers (in process), vllm (starts its own server), or openai (any server).",
        "agent_api": "completions (candidates continue the recorded prompt) or chat (for trajectories that were made with it).",
        "tokenizer": "folder or name of the tokenizer; default agent_model, and for --agent openai none.",
        "max_tokens": "tokens of one candidate at most.",
        "seed": "every turn's seed is derived from it and from the turn's identity.",
        "fan_out": "local (this process), or ray: copies of the model on the machines of a Ray cluster.",
        "ray_workers": "copies; default as many as the GPUs allow, without GPUs one on each machine.",
        "compat": "fixed, or published: a fraction of less than one trajectory is an error.",
    },
    facets=_facets,
)
def sample_best_of_n(flags: SamplingFlags, agent: AgentFlags, /) -> None:
    """Sample alternatives for every agent turn of graded trajectories, without the hidden solution.

    One row for each turn: what the model was given, the candidates, their token ids and the sampler's
    log-probabilities. A finished row is on disk before the next one takes its place, so a run can be stopped
    at any moment and finished with --to_continue. Once complete, rows stand in the order of the trajectories.

    The smallest run: sweet-rl sample_best_of_n trajectories.jsonl sampled.jsonl path/to/model
    """
    from sweet_rl.commands import sampling

    tracking.logs_to(flags.destination())
    sampling.run(flags, Player(flags=agent, seed=flags.seed))
