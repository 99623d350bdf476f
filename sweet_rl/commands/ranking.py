"""The work of `rank_best_of_n` after its flags are checked: models, rows, file."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sweet_rl import tracking
from sweet_rl.batching import for_each
from sweet_rl.cli.progress import progress, run_until_stopped
from sweet_rl.cli.servers import key_in
from sweet_rl.commands.parts import cluster_of
from sweet_rl.commands.scorers import scorers_of
from sweet_rl.commands.turn_rows import done_keys, finish
from sweet_rl.errors import DataError, UsageError
from sweet_rl.preferences.candidates import Candidates, candidates_from_rows
from sweet_rl.preferences.ranking import (
    SWAPPED,
    Encoding,
    Model,
    advantage,
    encoding_of,
    moved_scores,
    reduced,
    said_of_scores,
    stored_reference,
    with_others_solutions,
)
from sweet_rl.preferences.trajectory_pairs import TurnKey, key_fields
from sweet_rl.records import Journal, read_rows
from sweet_rl.runs import open_journal
from sweet_rl.types import Json

if TYPE_CHECKING:
    from sweet_rl.commands.rank_best_of_n import RankingFlags, ScorerFlags


def run(flags: RankingFlags, scorer_flags: ScorerFlags) -> None:
    """Score the missing rows of the output file, then sort it like the input."""
    key_in(scorer_flags.api_key_var)
    numbered = list(read_rows(flags.input_path))
    rows = candidates_from_rows(numbered, path=flags.input_path)
    if not rows:
        raise UsageError(f"{flags.input_path!r} holds no rows. Sample with sweet-rl sample_best_of_n first.")
    with open_journal(flags.output_path, to_continue=flags.to_continue, overwrite=flags.overwrite) as journal:
        done = done_keys(
            journal.rows,
            {row.key: row.prompt for row in rows},
            settings=flags.settings(),
            field="ranking",
            path=flags.output_path,
            force=flags.force_continue,
        )
        journal.rows.clear()
        tracking.sets(flags.settings())
        tracking.writes(flags.output_path, continues=flags.to_continue)
        others = {row.key: row for row in with_others_solutions(rows)} if flags.swap_test else {}
        todo = [row for row in rows if row.key not in done]
        unscored = Unscored()
        if todo:
            cluster, models = cluster_of(flags), (flags.model_id, flags.reference_model, scorer_flags)
            with cluster.scoring_workers(flags, *models) if cluster else nullcontext() as workers:
                work = _rank(flags, scorer_flags, todo, others, journal, unscored, len(done), workers)
                run_until_stopped(work, flags.output_path, len(rows), noun="rows", verb="does")
        finish(flags.output_path, [row.key for row in rows])
    print(f"{len(rows)} turns with scored candidates are in {flags.output_path}.")
    unscored.say()
    if flags.swap_test and (found := moved_scores(row for _, row in read_rows(flags.output_path))):
        print(said_of_scores(found))


@dataclass(slots=True)
class Unscored:
    """How many candidates have null instead of a score, and why."""

    empty: int = 0
    too_long: int = 0

    def say(self) -> None:
        """Print it, if it is not empty."""
        if self.empty:
            print(f"{self.empty} candidates have no score: they have no tokens at all.")
        if self.too_long:
            print(f"{self.too_long} candidates have no score: with their context they are too long.")


async def _rank(
    flags: RankingFlags,
    scorer_flags: ScorerFlags,
    todo: Sequence[Candidates],
    others: Mapping[TurnKey, Candidates],
    journal: Journal,
    unscored: Unscored,
    done: int,
    workers: Any,
) -> None:
    async with AsyncExitStack() as stack:
        if workers is None:
            models = scorers_of(flags.model_id, flags.reference_model, scorer_flags)
            scorers = await stack.enter_async_context(models)
        else:
            scorers = await cluster_of(flags).ray_scorers(workers)
        encoding = encoding_of(flags.tokenizer or flags.model_id, needs_header=flags.published)
        critic, reference = Model(scorers[0], encoding), None
        if flags.reference_model is not None and len(scorers) > 1:
            reference = Model(scorers[1], encoding_of(flags.reference_model, needs_header=False))
        _say_what_is_tokenised_again(todo, critic.encoding, published=flags.published)
        bar = stack.enter_context(progress(len(todo) + done, done, unit="turn", quiet=flags.quiet))

        async def rank(rows: Sequence[Candidates]) -> None:
            scores = await score_rows(rows, critic, reference, flags, unscored)
            ranked = [_ranked(row, own, flags) for row, own in zip(rows, scores, strict=True)]
            if others:
                swapped = [others[row.key] for row in rows]
                again = await score_rows(swapped, critic, reference, flags, Unscored())
                ranked = [row | {SWAPPED: scores} for row, scores in zip(ranked, again, strict=True)]
            journal.append(ranked)
            bar.update(len(rows))

        count = 1 if workers is None else workers.count
        size = min(flags.save_steps, -(-len(todo) // count))
        windows = (todo[start : start + size] for start in range(0, len(todo), size))
        await for_each(windows, rank, at_once=count if count == 1 else 2 * count)


async def score_rows(
    rows: Sequence[Candidates],
    critic: Model,
    reference: Model | None,
    flags: RankingFlags,
    unscored: Unscored,
) -> list[list[float | None]]:
    """The scores of each row's candidates, in their order; None where there is none (counted)."""
    critics = await _reduced(rows, critic, flags, with_ground_truth=not flags.no_use_ground_truth)
    for row, values in zip(rows, critics, strict=True):
        for place, value in enumerate(values):
            if value is None:
                empty = row.candidates[place].token_ids == ()
                unscored.empty += empty
                unscored.too_long += not empty
    if critic.scorer.has_value_head:
        return critics
    if reference is not None:
        references = await _reduced(rows, reference, flags, with_ground_truth=flags.advantage == "paper")
    else:
        references = [
            [_stored(row, place, flags) if value is not None else None for place, value in enumerate(values)]
            for row, values in zip(rows, critics, strict=True)
        ]
    return [
        [advantage(ours, theirs) for ours, theirs in zip(a, b, strict=True)]
        for a, b in zip(critics, references, strict=True)
    ]


async def _reduced(
    rows: Sequence[Candidates], model: Model, flags: RankingFlags, *, with_ground_truth: bool
) -> list[list[float | None]]:
    result = await reduced(
        rows,
        model,
        with_ground_truth=with_ground_truth,
        use_sum=flags.use_sum,
        published=flags.published,
    )
    for row, values in zip(rows, result, strict=True):
        for place, value in enumerate(values):
            if value is not None and not math.isfinite(value):
                raise DataError(
                    "gets no number from the model",
                    path=flags.input_path,
                    line=row.line,
                    field=f"additional_outputs[{place}]",
                    value=value,
                    repair="A checkpoint whose weights are not finite (a diverged training) does this, and "
                    "float16: try --dtype float32.",
                )
    return result


def _stored(row: Candidates, place: int, flags: RankingFlags) -> float:
    value = stored_reference(row.candidates[place], use_sum=flags.use_sum)
    if value is None:
        name = "additional_reference_logprobs"
        raise DataError(
            "has no log-probability of the sampler",
            path=flags.input_path,
            line=row.line,
            field=f"{name}{'_sum' if flags.use_sum else ''}[{place}]",
            repair="A chat API returns none. Pass --reference_model with the model that sampled: they "
            "are computed again.",
        )
    return value


def _ranked(row: Candidates, scores: list[float | None], flags: RankingFlags) -> dict[str, Json]:
    return dict(row.row) | {"judge_result": scores} | key_fields(row.key) | {"ranking": flags.settings()}


def _say_what_is_tokenised_again(rows: Sequence[Candidates], encoding: Encoding, *, published: bool) -> None:
    if published:
        return
    other = sum(row.tokenizer is not None and row.tokenizer != encoding.digest for row in rows)
    unknown = sum(row.tokenizer is None for row in rows)
    for count, reason in (
        (other, "are of another tokenizer than the critic's"),
        (unknown, "have no token ids"),
    ):
        if count:
            print(f"{count} rows {reason}: their texts are tokenised again.", file=sys.stderr)
