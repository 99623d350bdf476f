"""An agent in a vLLM server that it starts; for a running server use `sweet_rl.policies.openai`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from sweet_rl.chat import ChatFormat, TokenizerChat
from sweet_rl.errors import EpisodeError, ServiceError
from sweet_rl.openai_client import OpenAIClient, RetryPolicy
from sweet_rl.policies.openai import OpenAIPolicy
from sweet_rl.policies.vllm_server import VLLMServer
from sweet_rl.types import Completion, Generation, Observation

T = TypeVar("T")


class VLLMPolicy:
    """Plays through a server that it keeps alive: what fails because the server died is asked once more.

    Made by `start`.
    """

    def __init__(self, server: VLLMServer, policy: OpenAIPolicy) -> None:
        self.name = policy.name
        self._server = server
        self.policy = policy

    @classmethod
    async def start(
        cls,
        server: VLLMServer,
        *,
        system_prompt: str | None = None,
        chat_format: ChatFormat | None = None,
        temperature: float = 1.0,
        max_tokens: int = 1024,
        seed: int = 0,
        retry: RetryPolicy | None = None,
        max_connections: int = 1000,
    ) -> VLLMPolicy:
        """Start the server and wait until it is ready.

        Args:
            server: not started yet; stopped with the policy.
            system_prompt: as of `OpenAIPolicy`.
            chat_format: how dialogues become prompts; default is the chat template of the model's tokenizer.
            temperature: 0 is greedy.
            max_tokens: tokens of one turn at most (published: 1024).
            seed: of the whole run.
            retry: patience with single requests.
            max_connections: requests in flight at most.

        Raises:
            UsageError: no tokenizer or chat template; no interpreter to run vLLM with.
            ServiceError: the server does not come up.
        """
        chat_format = chat_format or TokenizerChat.from_pretrained(server.model)
        await server.start()
        client = OpenAIClient([server.base_url], retry=retry, direct=True, max_connections=max_connections)
        policy = OpenAIPolicy(
            client,
            server.model,
            system_prompt=system_prompt,
            chat_format=chat_format,
            temperature=temperature,
            max_tokens=max_tokens,
            seed=seed,
        )
        return cls(server, policy)

    async def act(self, observation: Observation) -> Generation:
        """One turn.

        Raises:
            EpisodeError: the dialogue no longer fits the model, or the request failed for good.
            ServiceError: the server has died more often than it may.
        """
        return await self._supervised(lambda: self.policy.act(observation))

    async def sample(
        self, prompts: Sequence[str], n: int, *, seeds: Sequence[int] | None = None
    ) -> list[list[Completion]]:
        """`n` completions for each prompt, in order; see `OpenAIPolicy.sample`.

        Raises:
            EpisodeError, ServiceError: as `act`.
        """
        return await self._supervised(lambda: self.policy.sample(prompts, n, seeds=seeds))

    async def close(self) -> None:
        """Close the connections and stop the server."""
        try:
            await self.policy.close()
        finally:
            await self._server.stop()

    async def _supervised(self, call: Callable[[], Awaitable[T]]) -> T:
        """Make the call; if it failed because the server is gone, bring that back and call again."""
        while True:
            starts = self._server.starts
            try:
                return await call()
            except (EpisodeError, ServiceError):
                if not await self._server.has_died() and self._server.starts == starts:
                    raise
            await self._server.recover(starts)
