"""The critic's scores of sampled candidates: stage 5 of the pipeline.

Published behaviour: docs/published/sweet_rl.md#ranking.
"""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from functools import partial
from typing import Any, Literal

from sweet_rl import tracking
from sweet_rl.cli.parse import Facets
from sweet_rl.cli.progress import Bar
from sweet_rl.cli.servers import client_of, key_in, retry_of, vllm_server
from sweet_rl.cli.stage import recorded, stage
from sweet_rl.concurrency import for_each
from sweet_rl.errors import DataError, UsageError, missing_package
from sweet_rl.flags import REQUIRED, flag, group
from sweet_rl.flags.models import IN_PROCESS, SERVED, VLLM, Advantage, BaseUrl, Placement, Requests, Tokenizer
from sweet_rl.flags.shared import Compatible, Files, ModelFanOut, Resumable, SaveSteps
from sweet_rl.preferences.candidates import Candidates, candidates_from_rows, write_turns
from sweet_rl.preferences.pairs import key_fields
from sweet_rl.preferences.ranking import (
    SWAPPED,
    Model,
    Scorer,
    ServerScorer,
    encoding_of,
    moved_scores,
    reduced,
    said_of_scores,
    with_others_solutions,
)
from sweet_rl.records import Journal, read_rows
from sweet_rl.types import Json


@group("Scores")
class RankingFlags(Files, Advantage, Tokenizer, SaveSteps, Resumable, Compatible, ModelFanOut):
    model_id: str = flag(
        REQUIRED, "critic: a checkpoint folder, a hub name, smollm2, embedded, or its name on the server."
    )
    no_use_ground_truth: bool = flag(False, "score without showing the critic the hidden solution.")
    use_sum: bool = flag(False, "use sums of log-probabilities instead of means.")
    swap_test: bool = flag(
        False,
        "also score every turn with the hidden solution of another task, and report how far the scores move: "
        "if they do not, the critic ignores the solution. Doubles the work.",
    )

    def check_together(self) -> None:
        """What excludes each other, and what needs another."""
        if self.advantage == "paper" and self.no_use_ground_truth:
            raise UsageError("--advantage paper and --no_use_ground_truth exclude each other.")
        if self.swap_test and self.no_use_ground_truth:
            raise UsageError(
                "--swap_test and --no_use_ground_truth exclude each other: without a solution there is none to swap."
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


@group("The models that score")
class ScorerFlags(BaseUrl, Requests, Placement, VLLM):
    engine: Literal["transformers", "vllm", "openai"] = flag(
        "transformers",
        "how the models run: transformers (in process), vllm (starts its own server), or openai (a running vLLM server).",
    )
    max_batch_tokens: int = flag(
        32768, "most tokens in one forward pass.", at_least=1, shown="all", only=IN_PROCESS
    )

    def check_together(self) -> None:
        """Whether a server that is needed is named."""
        if self.engine == "openai" and self.base_url is None:
            raise UsageError("--engine openai needs --base_url, for example http://127.0.0.1:8001/v1.")


def facets(flags: Mapping[str, Any]) -> Facets:
    """What scores, and where."""
    asked = {"nobody"} if flags["engine"] == "transformers" else {"server"}
    return {"engine": {flags["engine"]}, "asked": asked, "fan_out": {flags.get("fan_out", "local")}}


@recorded("rank_best_of_n", reads=("input_path", "model_id", "reference_model", "tokenizer"), prices=True)
@stage(
    "input_path",
    "output_path",
    "model_id",
    defaults={"save_steps": 100, "request_timeout_s": 600.0},
    helps={
        "input_path": "sampled turns of sweet-rl sample_best_of_n, or a published file.",
        "output_path": "the .jsonl file that ranked turns are appended to.",
        "save_steps": "rows that are scored and saved together; a killed run loses at most this many.",
        "compat": "fixed, or published: the header of a turn is scored and its end token is not.",
    },
    narrow={"save_steps": {"at_least": 1}},
    only={"base_url": SERVED, "api_key_var": SERVED},
    facets=facets,
)
def rank_best_of_n(flags: RankingFlags, scorers: ScorerFlags, /) -> None:
    """Score sampled candidates with a critic that knows the hidden solution; candidates keep their order.

    A score is the critic's mean log-probability of the candidate's own tokens (the end token included where
    one was generated) minus the reference's. A critic with a regression head gives its value instead.

    The smallest run: sweet-rl rank_best_of_n sampled.jsonl ranked.jsonl path/to/critic
    """
    tracking.logs_to(flags.destination())
    key_in(scorers.api_key_var)
    numbered = list(read_rows(flags.input_path))
    rows = candidates_from_rows(numbered, path=flags.input_path)
    if not rows:
        raise UsageError(f"{flags.input_path!r} has no rows. Run sweet-rl sample_best_of_n first.")
    others = {row.key: row for row in with_others_solutions(rows)} if flags.swap_test else {}
    unscored = Counter[str]()

    async def rank(todo: list[Candidates], journal: Journal, bar: Bar, workers: Any) -> None:
        async with AsyncExitStack() as stack:
            if workers is None:
                models = scorers_of(flags.model_id, flags.reference_model, scorers)
                opened = await stack.enter_async_context(models)
            else:
                opened = await flags.cluster.ray_scorers(workers)
            critic, reference = models_of(
                opened, flags.model_id, flags.reference_model, flags.tokenizer, needs_header=flags.published
            )
            unknown = sum(row.tokenizer is None for row in todo)
            other = sum(row.tokenizer not in {None, critic.encoding.digest} for row in todo)
            texts = {"are of another tokenizer than the critic's": other, "have no token ids": unknown}
            for why, count in texts.items():
                if count and not flags.published:
                    print(f"{count} rows {why}: their texts are tokenised again.", file=sys.stderr)

            async def rank_window(rows: Sequence[Candidates]) -> None:
                scores = await score_rows(rows, critic, reference, flags, unscored)
                ranked = [
                    dict(row.row)
                    | {"judge_result": own}
                    | key_fields(row.key)
                    | {"ranking": flags.settings()}
                    for row, own in zip(rows, scores, strict=True)
                ]
                if others:
                    swapped = [others[row.key] for row in rows]
                    again = await score_rows(swapped, critic, reference, flags, Counter())
                    ranked = [row | {SWAPPED: scores} for row, scores in zip(ranked, again, strict=True)]
                journal.append(ranked)
                bar.update(len(rows))

            count = 1 if workers is None else workers.count
            size = min(flags.save_steps, -(-len(todo) // count))
            windows = (todo[start : start + size] for start in range(0, len(todo), size))
            await for_each(windows, rank_window, at_once=count if count == 1 else 2 * count)

    cluster, models = flags.cluster, (flags.model_id, flags.reference_model, scorers)
    opened = partial(cluster.scoring_workers, flags, *models) if cluster else nullcontext
    output, settings = flags.output_path, flags.settings()
    write_turns(output, flags, rows, settings, rank, field="ranking", quiet=flags.quiet, opened=opened)
    print(f"{len(rows)} turns with scored candidates are in {flags.output_path}.")
    for kind, why in _UNSCORED.items():
        if unscored[kind]:
            print(f"{unscored[kind]} candidates have no score: {why}.")
    if flags.swap_test and (found := moved_scores(row for _, row in read_rows(flags.output_path))):
        print(said_of_scores(found))


@asynccontextmanager
async def scorer_of(model: str, flags: ScorerFlags) -> AsyncIterator[Scorer]:
    """A model that scores, freed or stopped at the end."""
    if flags.engine == "transformers":
        try:
            from sweet_rl.training.scoring import CandidateScorer, ScorerInThread
        except ImportError as error:
            raise missing_package("torch", "transformers", needed_for="a model in process") from error
        scorer = CandidateScorer(
            model, device=flags.device, dtype=flags.dtype, max_batch_tokens=flags.max_batch_tokens
        )
        yield ScorerInThread(scorer, model)
        return
    from sweet_rl.openai_client import OpenAIClient, base_url_from

    async with AsyncExitStack() as stack:
        if flags.engine == "openai":
            urls = base_url_from("", 0, flags.base_url)
            named_by = "--base_url names the critic's server; its model is the critic's name."
            client = client_of(urls, flags, key_var=flags.api_key_var, named_by=named_by)
        else:
            server = await stack.enter_async_context(vllm_server(model, flags))
            client = OpenAIClient([server.base_url], retry=retry_of(flags), direct=True)
        stack.push_async_callback(client.close)
        served = ServerScorer(client, model)
        await served.start()
        yield served


@asynccontextmanager
async def scorers_of(critic: str, reference: str | None, flags: ScorerFlags) -> AsyncIterator[list[Scorer]]:
    """The critic and, where one is asked for and the critic has no head of its own, the reference."""
    async with AsyncExitStack() as stack:
        with tracking.role("critic"):
            scorers = [await stack.enter_async_context(scorer_of(critic, flags))]
        if reference is not None and not scorers[0].has_value_head:
            with tracking.role("reference"):
                scorers.append(await stack.enter_async_context(scorer_of(reference, flags)))
        yield scorers


def models_of(
    scorers: Sequence[Scorer],
    critic: str,
    reference: str | None,
    tokenizer: str | None,
    *,
    needs_header: bool = False,
) -> tuple[Model, Model | None]:
    """The critic and what it is compared with, if that is a model, with their tokenizers."""
    own = Model(scorers[0], encoding_of(tokenizer or critic, needs_header=needs_header))
    if reference is None or len(scorers) < 2:
        return own, None
    return own, Model(scorers[1], encoding_of(reference, needs_header=False))


_UNSCORED = {"empty": "they have no tokens at all", "long": "with their context they are too long"}


async def score_rows(
    rows: Sequence[Candidates],
    critic: Model,
    reference: Model | None,
    flags: RankingFlags,
    unscored: Counter[str],
) -> list[list[float | None]]:
    """The scores of each row's candidates, in their order; None where there is none (counted)."""

    async def scored(model: Model, *, with_ground_truth: bool) -> list[list[float | None]]:
        how = {"use_sum": flags.use_sum, "published": flags.published}
        result = await reduced(rows, model, with_ground_truth=with_ground_truth, **how)
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

    def stored(row: Candidates, place: int) -> float:
        value = row.candidates[place].total if flags.use_sum else row.candidates[place].mean
        if value is None:
            raise DataError(
                "has no log-probability of the sampler",
                path=flags.input_path,
                line=row.line,
                field=f"additional_reference_logprobs{'_sum' if flags.use_sum else ''}[{place}]",
                repair="A chat API returns none. Pass --reference_model with the model that sampled: they "
                "are computed again.",
            )
        return value

    critics = await scored(critic, with_ground_truth=not flags.no_use_ground_truth)
    for row, values in zip(rows, critics, strict=True):
        for place, value in enumerate(values):
            if value is None:
                unscored["empty" if row.candidates[place].token_ids == () else "long"] += 1
    if critic.scorer.has_value_head:
        return critics
    if reference is not None:
        references = await scored(reference, with_ground_truth=flags.advantage == "paper")
    else:
        references = [
            [None if value is None else stored(row, place) for place, value in enumerate(values)]
            for row, values in zip(rows, critics, strict=True)
        ]
    return [
        [None if a is None or b is None else a - b for a, b in zip(ours, theirs, strict=True)]
        for ours, theirs in zip(critics, references, strict=True)
    ]
