"""`sweet_rl.models.vllm_agent`: an agent in a vLLM server that it starts (docs/export_and_credit.md).

Published behaviour: docs/published/sweet_rl.md#agent. vLLM is not imported: it runs beside this process.
"""

from __future__ import annotations

import atexit
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sweet_rl.chat import ChatFormat, TokenizerChat
from sweet_rl.interface.parts import wait_for
from sweet_rl.policies.vllm import VLLMPolicy, VLLMServer
from sweet_rl.types import Message, derive_seed

Dialogue = str | Sequence[Mapping[str, str]]
"""What an environment returns, or the agent's only message as a text."""


class VLLMAgent:
    """Answers many dialogues at once. The server starts with the agent and ends with it, or this process.

    `agent_prompt` is given verbatim before each dialogue. `python` is the interpreter of the environment that has vLLM,
    by default this one; dialogues become prompts by `chat_format`, by default the model's own chat template.
    """

    def __init__(
        self,
        model_id: str,
        agent_prompt: str = "",
        temperature: float = 1.0,
        max_tokens: int = 1024,
        tensor_parallel_size: int = 1,
        *,
        seed: int = 0,
        python: str | None = None,
        chat_format: ChatFormat | None = None,
    ) -> None:
        self._chat = chat_format or TokenizerChat.from_pretrained(model_id)
        self._rules = [Message("system", agent_prompt)] if agent_prompt else []
        server = VLLMServer(model_id, python=python, tensor_parallel_size=tensor_parallel_size)
        start = VLLMPolicy.start(
            server, chat_format=self._chat, temperature=temperature, max_tokens=max_tokens
        )
        self._policy = wait_for(start, instead="VLLMPolicy.start")
        self._seed, self._calls = seed, 0
        atexit.register(self.close)

    def get_action(
        self, str_dialogue_histories: Iterable[Dialogue | None], use_tqdm: bool = True
    ) -> list[str | None]:
        """The agent's next turn in each dialogue, as environments return them, or text; None where None was given.

        `use_tqdm` is accepted, without effect: nothing is printed.
        """
        prompts = self.prompts(str_dialogue_histories)
        asked = [prompt for prompt in prompts if prompt is not None]
        if not asked:
            return list(prompts)
        self._calls += 1
        seeds = [derive_seed(self._seed, self._calls, place) for place in range(len(asked))]
        said = wait_for(self._policy.sample(asked, 1, seeds=seeds), instead="VLLMPolicy.sample")
        texts = iter([completions[0].text for completions in said])
        return [None if prompt is None else next(texts) for prompt in prompts]

    def prompts(self, dialogues: Iterable[Dialogue | None]) -> list[str | None]:
        """What the model reads of each dialogue, for `HumanInteractionEnv.step`."""
        return [None if dialogue is None else self._prompt(dialogue) for dialogue in dialogues]

    def close(self) -> None:
        """End the server."""
        atexit.unregister(self.close)
        wait_for(self._policy.close(), instead="VLLMPolicy.close")

    def _prompt(self, dialogue: Dialogue) -> str:
        entries: Any = [{"role": "user", "content": dialogue}] if isinstance(dialogue, str) else dialogue
        said = [Message(entry["role"], entry["content"]) for entry in entries]
        return self._chat.render([*self._rules, *said])
