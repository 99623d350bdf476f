"""Scores candidates by a vLLM server, which returns the log-probabilities of a prompt's tokens.

Published behaviour: docs/published/sweet_rl.md#ranking, #in-sampling-ranking-and-pairs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from sweet_rl.errors import ServiceError, UsageError
from sweet_rl.openai_client import OpenAIClient, RequestFailed
from sweet_rl.types import Json

_IN_FLIGHT = 128


class ServerScorer:
    """Sends context and candidate as token ids, one request for each distinct pair.

    Only vLLM has `prompt_logprobs`; its temperature does not touch them, and is sent as 1 all the same.

    Args:
        client: of the server; closed with the scorer.
        model: the name under which it is served.
    """

    has_value_head = False

    def __init__(self, client: OpenAIClient, model: str) -> None:
        self._client = client
        self._model = model
        self._in_flight = asyncio.Semaphore(_IN_FLIGHT)
        self.context_length: int | None = None

    async def start(self) -> None:
        """Look at the server's models.

        Raises:
            ServiceError: it does not answer.
            UsageError: it is not vLLM, or does not serve this model.
        """
        models = await self._client.models()
        ours = next((model for model in models if model.get("id") == self._model), None)
        if ours is None:
            offered = ", ".join(repr(model.get("id")) for model in models) or "nothing"
            raise UsageError(f"The server does not serve {self._model!r}, but {offered}.")
        if ours.get("owned_by") != "vllm":
            raise UsageError(
                "Ranking needs the log-probabilities of given tokens, which only vLLM's server returns. Use "
                "--engine vllm or --engine transformers."
            )
        length = ours.get("max_model_len")
        if isinstance(length, int):
            self.context_length = length - 1  # vLLM must be asked for one new token

    async def score(
        self, contexts: Sequence[Sequence[int]], candidates: Sequence[Sequence[Sequence[int]]]
    ) -> list[list[list[float]]]:
        """See `sweet_rl.preferences.ranking.Scorer`.

        Raises:
            ServiceError: the server fails for good, or answers without log-probabilities.
        """
        pairs = {
            (tuple(context), tuple(candidate))
            for context, row in zip(contexts, candidates, strict=True)
            for candidate in row
        }
        tasks = {pair: asyncio.create_task(self._ask(*pair)) for pair in sorted(pairs)}
        try:
            await asyncio.gather(*tasks.values())
        finally:
            for task in tasks.values():  # when one has failed, the others are not awaited
                task.cancel()
        return [
            [tasks[tuple(context), tuple(candidate)].result() for candidate in row]
            for context, row in zip(contexts, candidates, strict=True)
        ]

    async def close(self) -> None:
        """Close the client and its connections."""
        await self._client.close()

    async def _ask(self, context: tuple[int, ...], candidate: tuple[int, ...]) -> list[float]:
        ids = [*context, *candidate]
        body = {
            "model": self._model,
            "prompt": ids,
            "max_tokens": 1,
            "temperature": 1.0,
            "prompt_logprobs": 0,
        }
        async with self._in_flight:
            try:
                (choice, *_) = await self._client.complete(body)
            except RequestFailed as error:
                failure = error.failure
                raise ServiceError(
                    f"The server did not score a candidate ({failure.kind}: {failure.detail}). What had "
                    "finished is on disk: --to_continue resumes from there."
                ) from error
        return _logprobs(choice, ids)[len(context) :]


def _logprobs(choice: Mapping[str, Json], ids: Sequence[int]) -> list[float]:
    """Log-probability of each prompt token; 0 for the first, which has none."""
    positions: Json = choice.get("prompt_logprobs")
    try:
        found = [
            float(entry[str(token)]["logprob"]) for entry, token in zip(positions[1:], ids[1:], strict=True)
        ]
    except (TypeError, ValueError, LookupError) as error:
        raise ServiceError(
            "The server's reply lacks the log-probabilities of the prompt's tokens (prompt_logprobs). Use a "
            "current vLLM, or --engine transformers."
        ) from error
    return [0.0, *found]
