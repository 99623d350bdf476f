"""Simulated humans played by a model on any OpenAI-compatible server: one reads, one sees pages.

Published behaviour: docs/published/sweet_rl.md#backend-programming, #frontend-design, #in-episodes.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Final

from sweet_rl.browsers import PageContext
from sweet_rl.errors import UsageError
from sweet_rl.openai_client import OpenAIClient, RequestFailed
from sweet_rl.prompts import PLACEHOLDERS, check_placeholders, dialogue_string, fill, simulator_prompt
from sweet_rl.types import NO_RESPONSE, Json, UserContext, UserReply

SYSTEM_PROMPT: Final = "You are a helpful assistant."
MAX_TOKENS: Final = 4096

_BEGINS: Final = {"png": "image/png", "jpeg": "image/jpeg", "vllm": "image"}
DATA_URLS: Final = {name: f"data:{kind};base64," for name, kind in _BEGINS.items()}
"""How a picture is written into a request. The bytes are PNG in all of them: `png` is right, `jpeg` and
`vllm` are what the published system sends to OpenAI and to vLLM."""

DRAFT_CAPTION: Final = "This is the page that the assistant has made:"
NO_DRAFT: Final = "The assistant has no page to show yet: there is no visualisation."
TARGET_CAPTION: Final = "This is the page that you want:"


@dataclass(eq=False)
class OpenAIUser:
    """Asks a model what the human says next, with the published request by default.

    Args:
        client: connections to the servers; closed with the user.
        model: the servers' name for the model.
        prompt_template: with the placeholders of `sweet_rl.prompts.PLACEHOLDERS`.
        temperature: 0 as published.
        max_tokens: of the reply; what the agent sees of it is cut by the world.
        system_prompt: the system message; "" for none.
    """

    client: OpenAIClient
    model: str
    _: KW_ONLY
    prompt_template: str
    temperature: float = 0
    max_tokens: int = MAX_TOKENS
    system_prompt: str = SYSTEM_PROMPT

    @property
    def name(self) -> str:
        return self.model

    @staticmethod
    def check_prompt(template: str, path: str) -> None:
        """Make sure that a prompt has the placeholders of problem, hidden information and dialogue.

        Raises:
            UsageError: one is missing.
        """
        check_placeholders(template, PLACEHOLDERS, path)

    async def reply(self, context: UserContext) -> UserReply:
        """One chat completion; a request that cannot be answered gives the published "No response."."""
        system = [{"role": "system", "content": self.system_prompt}] if self.system_prompt else []
        messages = [*system, {"role": "user", "content": self._content(context)}]
        how = {"max_tokens": self.max_tokens, "temperature": self.temperature}
        return await ask(self.client, {"model": self.model, "messages": messages, **how})

    async def close(self) -> None:
        """Close the client and its connections."""
        await self.client.close()

    def _content(self, context: UserContext) -> Json:
        return simulator_prompt(self.prompt_template, context)


@dataclass(eq=False)
class VisionUser(OpenAIUser):
    """Shows a model the draft and the page that is wanted, and asks what the human says.

    As `OpenAIUser`; the prompt is sent as it is, but for `{problem_description}` and `{dialogue_history}` where it
    has them (the published one has neither), and there is no system message by default. `image_url` is one of `DATA_URLS`.
    """

    _: KW_ONLY
    image_url: str = "png"
    system_prompt: str = ""

    @staticmethod
    def check_prompt(template: str, path: str) -> None:
        """Make sure that a prompt has only placeholders that a vision user fills.

        Raises:
            UsageError: it has the placeholder of the hidden source.
        """
        if "{hidden_information}" in template:
            raise UsageError(
                f"The prompt {path!r} has {{hidden_information}}, but a human who looks at pages sees "
                "pictures, not the source. Remove it; {problem_description} and {dialogue_history} may stay."
            )

    def _content(self, context: UserContext) -> Json:
        if not isinstance(context, PageContext):
            raise TypeError("a human with eyes needs a PageContext")
        said = {"problem_description": context.problem_description}
        said["dialogue_history"] = dialogue_string(context.messages)
        target, draft = (
            None if page is None else DATA_URLS[self.image_url] + base64.b64encode(page.image).decode("ascii")
            for page in (context.target, context.draft)
        )
        return vision_content(fill(self.prompt_template, **said), target=str(target), draft=draft)


async def ask(client: OpenAIClient, body: Mapping[str, Json]) -> UserReply:
    """The human's words that a chat completion gives, or the published "No response." and why."""
    try:
        reply = await client.chat(body)
    except RequestFailed as error:
        return UserReply(NO_RESPONSE, error.failure)
    return UserReply(reply.content)


def vision_content(prompt: str, *, target: str, draft: str | None) -> list[dict[str, Json]]:
    """The content of the one message that a human with eyes is sent; a `draft` of None: there is no page yet."""
    shown = [NO_DRAFT] if draft is None else [DRAFT_CAPTION, draft]
    parts = (prompt, *shown, TARGET_CAPTION, target)
    pictures = (target, draft)
    return [
        {"type": "image_url", "image_url": {"url": one}} if one in pictures else {"type": "text", "text": one}
        for one in parts
    ]
