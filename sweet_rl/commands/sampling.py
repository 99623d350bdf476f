"""The work of `sample_best_of_n` after its flags are checked: turns, sampler, file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, cast

from sweet_rl import tracking
from sweet_rl.cli.progress import judge_failed, progress, run_until_stopped, words_of
from sweet_rl.cli.servers import key_in
from sweet_rl.commands.agent_flags import OWN, Player
from sweet_rl.commands.parts import cluster_of, make_policy, tokenizer_facts
from sweet_rl.commands.turn_rows import done_keys, finish
from sweet_rl.contracts import Policy, Sampler
from sweet_rl.errors import UsageError
from sweet_rl.preferences.candidates import OfflineTurn, offline_turns, sample_turns, sampled_row
from sweet_rl.records import Journal, read_rows
from sweet_rl.runs import open_journal
from sweet_rl.types import Completion, Failure, Json

if TYPE_CHECKING:
    from sweet_rl.commands.sample_best_of_n import SamplingFlags


def run(flags: SamplingFlags, agent: Player) -> None:
    """Sample the missing rows of the output file, then sort it like the trajectories."""
    key_in(agent.flags.agent_api_key_var)
    if agent.engine() in {OWN, "scripted"}:
        raise UsageError(
            f"--agent_model {agent.model!r} has one reply only, so there are no alternatives to sample. Name a model."
        )
    turns = offline_turns(
        list(read_rows(flags.input_path)),
        flags.data_fraction,
        path=flags.input_path,
        shuffle_seed=agent.seed if flags.random_tasks else None,
        published=flags.published,
    )
    if agent.flags.agent_api == "chat" and not turns[0].prompt.startswith("[{"):
        raise UsageError(
            f"The prompts in {flags.input_path!r} are text, not messages: leave --agent_api chat out."
        )
    settings = _settings(flags, agent)
    with open_journal(flags.output_path, to_continue=flags.to_continue, overwrite=flags.overwrite) as journal:
        done = done_keys(
            journal.rows,
            {turn.key: turn.prompt for turn in turns},
            settings=settings,
            field="sampling",
            path=flags.output_path,
            force=flags.force_continue,
        )
        journal.rows.clear()
        tracking.sets(settings)
        tracking.writes(flags.output_path, continues=flags.to_continue)
        todo = [turn for turn in turns if turn.key not in done]
        failures: Counter[str] = Counter()
        if todo:
            cluster = cluster_of(flags)
            with (
                cluster.sampling_workers(flags, agent, flags.batch_size)
                if cluster
                else nullcontext() as workers
            ):
                work = _sample(flags, agent, todo, journal, settings, failures, len(done), workers)
                run_until_stopped(work, flags.output_path, len(turns), noun="rows", verb="does")
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


async def _sample(
    flags: SamplingFlags,
    agent: Player,
    todo: Sequence[OfflineTurn],
    journal: Journal,
    settings: dict[str, Json],
    failures: Counter[str],
    done: int,
    workers: Any,
) -> None:
    bar = progress(len(todo) + done, done, unit="turn", quiet=flags.quiet)
    policy: Policy | None = None
    try:
        facts = tokenizer_facts(agent)
        if workers is None:
            with tracking.role("agent"):
                policy = await make_policy(agent, [], concurrency=flags.batch_size)
            sampler = cast(Sampler, policy)
        else:
            sampler = cluster_of(flags).RaySampler(workers, tracking.meter(agent.model, "agent"))

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
            seed=agent.seed,
            greedy=agent.flags.temperature == 0,
            concurrency=flags.batch_size,
        )
    finally:
        await journal.flush()
        bar.close()
        if policy is not None:
            await policy.close()


def _settings(flags: SamplingFlags, agent: Player) -> dict[str, Json]:
    """What decides about the content of a row: a file may be continued only with the same."""
    return {
        "agent_model": agent.model,
        "best_of_n": flags.best_of_n,
        "temperature": agent.flags.temperature,
        "max_tokens": agent.flags.max_tokens,
        "seed": agent.seed,
    }
