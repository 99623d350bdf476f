"""An oracle played by a model behind any OpenAI-compatible server."""

from __future__ import annotations

from sweet_rl.openai_client import OpenAIClient
from sweet_rl.prompts import check_placeholders, fill, load_prompt
from sweet_rl.types import UserContext, UserReply
from sweet_rl.users.model import ask
from sweet_rl.worlds.question_games.asking import Asking, question_of

PLACEHOLDERS = ("hidden", "question")
"""What a prompt of one's own must hold: the hidden thing, and what is asked about it."""


class OpenAIOracle:
    """Asks a model each question by itself, without the dialogue before it, as the published oracles are.

    Args:
        max_tokens: of an answer; models that think before they speak need more.
    """

    def __init__(
        self,
        asking: Asking,
        client: OpenAIClient,
        model: str,
        *,
        prompt: str | None = None,
        max_tokens: int = 64,
    ) -> None:
        self.name = model
        self._client = client
        self._template = load_prompt(asking.template) if prompt is None else prompt
        check_placeholders(self._template, PLACEHOLDERS, "of the oracle")
        self._max_tokens = max_tokens

    async def reply(self, context: UserContext) -> UserReply:
        """One chat completion at temperature 0; `UserReply.failure` says why there is none."""
        prompt = fill(self._template, hidden=context.hidden_information, question=question_of(context))
        return await ask(
            self._client,
            {
                "model": self.name,
                "messages": [{"role": "user", "content": prompt}],
                "max_tokens": self._max_tokens,
                "temperature": 0,
            },
        )

    async def close(self) -> None:
        """Close the client and its connections."""
        await self._client.close()
