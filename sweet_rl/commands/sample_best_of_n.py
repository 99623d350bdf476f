"""Stage 4 of the pipeline: alternatives for every agent turn of the offline data.

Published behaviour: docs/published/sweet_rl.md#sampling.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sweet_rl import tracking
from sweet_rl.cli.parse import Facets
from sweet_rl.cli.progress import judge_failed, progress, run_until_stopped, words_of
from sweet_rl.cli.servers import key_in
from sweet_rl.cli.stage import built, recorded, stage
from sweet_rl.contracts import Policy
from sweet_rl.errors import UsageError
from sweet_rl.flags import flag
from sweet_rl.flags.shared import BatchSize, Compatible, Continuing, Files, ModelFanOut, Resumable, Seeded
from sweet_rl.players import OWN, AgentFlags, PlayerFlags, engine_of, tokenizer_facts
from sweet_rl.players.cast import Cast, Nowhere
from sweet_rl.preferences.candidates import OfflineTurn, offline_turns, sample_turns, sampled_row
from sweet_rl.preferences.trajectory_pairs import TurnKey, key_of
from sweet_rl.records import Journal, read_rows, replace_rows, stamp_of
from sweet_rl.runs import HOW_TO_MIX, check_settings, open_journal
from sweet_rl.types import Completion, Failure, Json


@dataclass(frozen=True, kw_only=True)
class SamplingFlags(Files, BatchSize, Resumable, Compatible, Seeded, ModelFanOut):
    """Tasks."""

    best_of_n: int = flag(16, "candidates for each turn.", at_least=1)
    data_fraction: float = flag(
        1.0, "use the first so large a part of the trajectories; at least one.", above=0
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
        "input_path": "trajectories with rewards: sweet-rl evaluate_code writes them into the file.",
        "output_path": "the .jsonl file that sampled turns are appended to.",
        "agent_model": "the model that samples: a folder, a hub name, smollm2, embedded, or the name under which a server offers it.",
        "agent": "what runs agent_model: auto, transformers (in process), vllm (starts its own server), or openai (any server).",
        "agent_api": "completions (candidates continue the recorded prompt) or chat (for trajectories that were made with it).",
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
    tracking.logs_to(flags.destination())
    cast = Cast(agent=PlayerFlags(**vars(agent)), seed=flags.seed)
    key_in(agent.agent_api_key_var)
    if cast.engine in {OWN, "scripted"}:
        raise UsageError(
            f"--agent_model {agent.agent_model!r} has one reply only, so there are no alternatives to sample. Name a model."
        )
    turns = offline_turns(
        list(read_rows(flags.input_path)),
        flags.data_fraction,
        path=flags.input_path,
        published=flags.published,
    )
    if agent.agent_api == "chat" and not turns[0].prompt.startswith("[{"):
        raise UsageError(
            f"The prompts in {flags.input_path!r} are text, not messages: leave --agent_api chat out."
        )
    settings: dict[str, Json] = {  # what decides about the content of a row
        "agent_model": agent.agent_model,
        "best_of_n": flags.best_of_n,
        "temperature": agent.temperature,
        "max_tokens": agent.max_tokens,
        "seed": flags.seed,
    }
    wanted = {turn.key: turn.prompt for turn in turns}
    with turn_file(flags.output_path, flags, wanted, settings, field="sampling") as (journal, done):
        todo = [turn for turn in turns if turn.key not in done]
        failures: Counter[str] = Counter()

        async def sample(workers: Any) -> None:
            bar = progress(len(turns), len(done), unit="turn", quiet=flags.quiet)
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
                bar.close()
                if policy is not None:
                    await policy.close()

        if todo:
            cluster = flags.cluster
            with (
                cluster.sampling_workers(flags, cast, flags.batch_size)
                if cluster
                else nullcontext() as workers
            ):
                run_until_stopped(sample(workers), flags.output_path, len(turns), noun="rows", verb="does")
        failed = finish(flags.output_path, [turn.key for turn in turns])
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


@contextmanager
def turn_file(
    path: str | Path,
    flags: Continuing,
    wanted: Mapping[TurnKey, str],
    settings: Mapping[str, Json],
    *,
    field: str,
    content: str = "input",
) -> Iterator[tuple[Journal, set[TurnKey]]]:
    """The file of a stage that writes a row for every turn, and the wanted turns that it holds.

    A turn that could not be sampled for is wanted again. `wanted` are prompts, or what else `content` holds
    by which a row shows that it is of the same turn; `field` of a row holds the settings that it was made with.
    """
    with open_journal(path, to_continue=flags.to_continue, overwrite=flags.overwrite) as journal:
        done: set[TurnKey] = set()
        for line, row in journal.rows:
            key, where = key_of(row), f"{str(path)!r}, line {line}"
            if wanted.get(key) != row.get(content):
                raise UsageError(f"{where}: this row is of a turn that is not among yours. {HOW_TO_MIX}")
            check_settings(row.get(field) or {}, settings, where)
            if field == "sampling" and has_failed(row):
                done.discard(key)
            else:
                done.add(key)
        journal.rows.clear()
        tracking.sets(settings)
        tracking.writes(path, continues=flags.to_continue)
        yield journal, done & set(wanted)


def finish(path: str | Path, order: Sequence[TurnKey]) -> list[dict[str, Json]]:
    """Bring a complete file into the order of its source, at once or not at all.

    Of a turn that was tried several times the last row stays. Returns the rows of turns that failed.
    """
    places = {key: i for i, key in enumerate(order)}
    stamp = stamp_of(path)
    rows = [row for _, row in read_rows(path)]
    last = {key_of(row): i for i, row in enumerate(rows)}
    stay = [row for i, row in enumerate(rows) if last[key_of(row)] == i or not has_failed(row)]
    in_order = sorted(stay, key=lambda row: places.get(key_of(row), len(places)))
    if len(stay) < len(rows) or any(a is not b for a, b in zip(rows, in_order, strict=True)):
        replace_rows(path, in_order, stamp)
    return [row for row in in_order if has_failed(row)]


def has_failed(row: Mapping[str, Json]) -> bool:
    """Whether the model could not be asked about a turn; a prompt too long for it is no such failure."""
    error = row.get("error")
    if not isinstance(error, dict) or row.get("additional_outputs"):
        return False
    return error.get("kind") != "context_full"
