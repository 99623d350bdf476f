"""Stage 4 of the pipeline: alternatives for every agent turn of the offline data.

Published behaviour: docs/published/sweet_rl.md#sampling.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any

from sweet_rl import tracking
from sweet_rl.cli.parse import Facets
from sweet_rl.cli.progress import Bar, judge_failed, words_of
from sweet_rl.cli.servers import key_in
from sweet_rl.cli.stage import built, recorded, stage
from sweet_rl.contracts import Policy
from sweet_rl.errors import UsageError
from sweet_rl.flags import flag, group
from sweet_rl.flags.shared import BatchSize, Compatible, Files, ModelFanOut, Resumable, Seeded
from sweet_rl.players import OWN, AgentFlags, PlayerFlags, engine_of, tokenizer_facts
from sweet_rl.players.cast import Cast, Nowhere
from sweet_rl.preferences.candidates import OfflineTurn, offline_turns, sample_turns, sampled_row, write_turns
from sweet_rl.records import Journal, read_rows
from sweet_rl.types import Completion, Failure, Json


@group("Tasks")
class SamplingFlags(Files, BatchSize, Resumable, Compatible, Seeded, ModelFanOut):
    best_of_n: int = flag(16, "candidates for each turn.", at_least=1)
    data_fraction: float = flag(
        1.0, "share of the trajectories to use, from the first on; at least one is used.", above=0
    )


def _facets(flags: Mapping[str, Any]) -> Facets:
    """What samples, and where."""
    engine = engine_of(built(AgentFlags, flags), Nowhere())
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
        "input_path": "trajectory file with rewards, which sweet-rl evaluate_code adds to it.",
        "output_path": "the .jsonl file that sampled turns are appended to.",
        "agent_model": "model that samples: a folder, a hub name, smollm2, embedded, or its name on the server.",
        "agent": "how --agent_model runs: auto, transformers (in process), vllm (starts its own server), or openai (any server).",
        "agent_api": "API of the server: completions (candidates continue the recorded prompt) or chat (for "
        "trajectories made with --agent_api chat).",
        "compat": "fixed, or published: a --data_fraction of less than one trajectory is an error.",
    },
    facets=_facets,
)
def sample_best_of_n(flags: SamplingFlags, agent: AgentFlags, /) -> None:
    """Sample alternatives for every agent turn of graded trajectories, without the hidden solution.

    One row for each turn: the model's input, the candidates, their token ids and the sampler's
    log-probabilities. Each finished row is written to disk at once, so a run can be stopped at any moment and
    resumed with --to_continue. A complete file has its rows in the order of the trajectories.

    The smallest run: sweet-rl sample_best_of_n trajectories.jsonl sampled.jsonl path/to/model
    """
    tracking.logs_to(flags.destination())
    cast = Cast(agent=PlayerFlags(**vars(agent)), seed=flags.seed)
    key_in(agent.agent_api_key_var)
    if cast.engine in {OWN, "scripted"}:
        raise UsageError(
            f"--agent_model {agent.agent_model!r} always gives the same reply, so there are no candidates to sample. Name a model."
        )
    turns = offline_turns(
        list(read_rows(flags.input_path)),
        flags.data_fraction,
        path=flags.input_path,
        published=flags.published,
    )
    if agent.agent_api == "chat" and not turns[0].prompt.startswith("[{"):
        raise UsageError(
            f"The prompts in {flags.input_path!r} are text, not messages: leave out --agent_api chat."
        )
    settings: dict[str, Json] = {  # what decides about the content of a row
        "agent_model": agent.agent_model,
        "best_of_n": flags.best_of_n,
        "temperature": agent.temperature,
        "max_tokens": agent.max_tokens,
        "seed": flags.seed,
    }
    failures: Counter[str] = Counter()

    async def sample(todo: list[OfflineTurn], journal: Journal, bar: Bar, workers: Any) -> None:
        policy: Policy | None = None
        try:
            facts = tokenizer_facts(cast.agent, cast.engine)
            if workers is None:
                with tracking.role("agent"):
                    policy = await cast.make_policy([], flags.batch_size)
                sampler: Any = policy
            else:
                sampler = flags.cluster.RaySampler(workers, tracking.meter(agent.agent_model, "agent"))

            async def on_sampled(
                turn: OfflineTurn, completions: Sequence[Completion], failure: Failure | None
            ) -> None:
                row = sampled_row(
                    turn,
                    completions,
                    tokenizer=facts.digest if any(c.token_ids is not None for c in completions) else None,
                    end_token=facts.end_token,
                    settings=settings,
                    failure=failure,
                )
                await journal.append_soon(row)
                failures.update([failure.kind] if failure else [])
                bar.update()

            await sample_turns(
                todo,
                sampler,
                on_sampled,
                n=flags.best_of_n,
                seed=flags.seed,
                greedy=agent.temperature == 0,
                concurrency=flags.batch_size,
            )
        finally:
            await journal.flush()
            if policy is not None:
                await policy.close()

    cluster = flags.cluster
    opened = partial(cluster.sampling_workers, flags, cast, flags.batch_size) if cluster else nullcontext
    output, quiet = flags.output_path, flags.quiet
    failed = write_turns(output, flags, turns, settings, sample, field="sampling", quiet=quiet, opened=opened)
    print(f"{len(turns)} turns with {flags.best_of_n} candidates each are in {flags.output_path}.")
    if failures:
        kinds = ", ".join(f"{count} {kind}" for kind, count in failures.most_common())
        print(f"Turns without candidates, each with its `error`: {kinds}.")
    judge_failed(
        len(failed),
        len(turns),
        words_of(failed[0]["error"]) if failed else "",
        noun="turns",
        flag="",
        kept=f"{flags.output_path} stays as it is; the same command with --to_continue tries them again.",
    )
