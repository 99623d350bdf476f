"""Candidates for offline turns from any sampler: many turns at once, each yielded when it is finished."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from sweet_rl.concurrency import for_each
from sweet_rl.contracts import Sampler
from sweet_rl.errors import EpisodeError
from sweet_rl.preferences.offline_turns import OfflineTurn
from sweet_rl.types import Completion, Failure, derive_seed

OnSampled = Callable[[OfflineTurn, Sequence[Completion], Failure | None], Awaitable[None]]


async def sample_turns(
    turns: Sequence[OfflineTurn],
    sampler: Sampler,
    on_sampled: OnSampled,
    *,
    n: int,
    seed: int,
    greedy: bool = False,
    concurrency: int = 256,
) -> None:
    """Sample `n` candidates for every turn and hand each turn over when it has them.

    Long prompts come first, so that batches are of like length and the largest one comes early. A turn's
    candidates depend on the seed and the turn's identity only: repeats of a task, whose first prompts are the
    same string, get different ones. Greedy candidates are all alike, so each prompt is asked for one.

    Args:
        turns: what to sample for.
        sampler: see `sweet_rl.contracts.Sampler`.
        on_sampled: is given the turn, its candidates, and why there are none when the model could not
            continue this prompt; the next turn of its place starts when it returns.
        n: candidates for each turn.
        seed: of the whole run.
        greedy: the sampler's temperature is 0.
        concurrency: prompts in flight at once.

    Raises:
        ServiceError, UsageError: the run cannot continue; what was handed over stays.
    """
    jobs: dict[tuple[str, int], list[OfflineTurn]] = {}
    for turn in sorted(turns, key=lambda turn: len(turn.prompt), reverse=True):
        job_seed = seed if greedy else derive_seed(seed, *turn.key)
        jobs.setdefault((turn.prompt, job_seed), []).append(turn)

    async def sample(job: tuple[tuple[str, int], list[OfflineTurn]]) -> None:
        (prompt, job_seed), members = job
        failure: Failure | None = None
        completions: list[Completion] = []
        try:
            (completions,) = await sampler.sample([prompt], 1 if greedy else n, seeds=[job_seed])
        except EpisodeError as error:
            failure = error.failure
        for turn in members:
            await on_sampled(turn, completions * (n if greedy else 1), failure)

    await for_each(jobs.items(), sample, at_once=min(concurrency, len(jobs) or 1))
