"""A simulated human played by a model behind any OpenAI-compatible server.

Published behaviour: docs/published/sweet_rl.md#backend-programming.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sweet_rl.openai_client import OpenAIClient, RequestFailed
from sweet_rl.prompts import simulator_prompt
from sweet_rl.types import NO_RESPONSE, Json, UserContext, UserReply

SYSTEM_PROMPT: Final = "You are a helpful assistant."


class OpenAIUser:
    """Asks a model what the human says next, with the published request by default.

    Args:
        client: connections to the servers; closed with the user.
        model: the servers' name for the model.
        prompt_template: with the placeholders of `sweet_rl.prompts.PLACEHOLDERS`.
        temperature: 0 as published.
        max_tokens: of the reply; what the agent sees of it is cut by the world.
        system_prompt: the system message.
    """

    def __init__(
        self,
        client: OpenAIClient,
        model: str,
        *,
        prompt_template: str,
        temperature: float = 0,
        max_tokens: int = 4096,
        system_prompt: str = SYSTEM_PROMPT,
    ) -> None:
        self.name = model
        self._client = client
        self._template = prompt_template
        self._temperature, self._max_tokens = temperature, max_tokens
        self._system_prompt = system_prompt

    async def reply(self, context: UserContext) -> UserReply:
        """One chat completion; a request that cannot be answered gives the published "No response."."""
        body = {
            "model": self.name,
            "messages": [
                {"role": "system", "content": self._system_prompt},
                {"role": "user", "content": simulator_prompt(self._template, context)},
            ],
            "max_tokens": self._max_tokens,
            "temperature": self._temperature,
        }
        return await ask(self._client, body)

    async def close(self) -> None:
        """Close the client and its connections."""
        await self._client.close()


async def ask(client: OpenAIClient, body: Mapping[str, Json]) -> UserReply:
    """The human's words that a chat completion gives, or the published "No response." and why."""
    try:
        reply = await client.chat(body)
    except RequestFailed as error:
        return UserReply(NO_RESPONSE, error.failure)
    return UserReply(reply.content)
