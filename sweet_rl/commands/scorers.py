"""The scoring models, as the flags of `rank_best_of_n` ask for them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

from sweet_rl import tracking
from sweet_rl.cli.servers import client_of, retry_of, vllm_server
from sweet_rl.errors import missing_package
from sweet_rl.preferences.ranking import LoadedScorer

if TYPE_CHECKING:
    from sweet_rl.commands.rank_best_of_n import ScorerFlags


@asynccontextmanager
async def scorer_of(model: str, flags: ScorerFlags) -> AsyncIterator[LoadedScorer]:
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
    from sweet_rl.preferences.ranking import ServerScorer

    if flags.engine == "openai":
        urls = base_url_from("", 0, flags.base_url)
        named_by = "--base_url names the critic's server; its model is the critic's name."
        served = ServerScorer(client_of(urls, flags, key_var=flags.api_key_var, named_by=named_by), model)
        try:
            await served.start()
            yield served
        finally:
            await served.close()
        return
    async with vllm_server(model, flags) as server:
        served = ServerScorer(OpenAIClient([server.base_url], retry=retry_of(flags), direct=True), model)
        try:
            await served.start()
            yield served
        finally:
            await served.close()


@asynccontextmanager
async def scorers_of(
    critic: str, reference: str | None, flags: ScorerFlags
) -> AsyncIterator[list[LoadedScorer]]:
    """The critic and, where one is asked for and the critic has no head of its own, the reference."""
    async with AsyncExitStack() as stack:
        with tracking.role("critic"):
            scorers = [await stack.enter_async_context(scorer_of(critic, flags))]
        if reference is not None and not scorers[0].has_value_head:
            with tracking.role("reference"):
                scorers.append(await stack.enter_async_context(scorer_of(reference, flags)))
        yield scorers
