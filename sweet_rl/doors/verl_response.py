"""A sample of verl's as it grows: behind the prompt, what the agent said and what it was told."""

from __future__ import annotations

from typing import Any

from verl.experimental.agent_loop.agent_loop import AgentLoopBase


class Response:
    """The tokens of a sample; verl's own builder for the model's family makes those of what is told.

    Attributes:
        ids: prompt and response.
        mask: of the response, 1 where the agent sampled.
        logprobs: of the response, 0 elsewhere; None where they are not asked for.

    Args:
        loop: whose sample it is.
        prompt: its tokens.
        length: tokens of a response at most.
        with_logprobs: whether the sampler gives them.
    """

    def __init__(self, loop: AgentLoopBase, prompt: list[int], length: int, *, with_logprobs: bool) -> None:
        self._loop, self._prompt, self._length = loop, len(prompt), length
        self._end = loop.tokenizer.eos_token_id
        self.ids = prompt
        self.mask: list[int] = []
        self.logprobs: list[float] | None = [] if with_logprobs else None

    @property
    def left(self) -> int:
        """Tokens that it has room for."""
        return self._length - len(self.mask)

    async def say(self, said: Any) -> None:
        """Add the agent's turn, as it was sampled."""
        known = None if self.logprobs is None else said.log_probs
        merged, self.mask, self.logprobs = await self._loop.ct_merge_assistant_token(
            self.ids, said.token_ids, self.mask, self.logprobs, known
        )
        self.ids = merged.token_ids

    async def tell(self, messages: list[dict[str, str]]) -> bool:
        """Add the last message, and what opens a turn; False, and nothing is added, where none has room."""
        cut = [] if self.ids[-1] == self._end else [self._end]  # what ends a turn that did not end itself
        merged, mask, logprobs = await self._loop.ct_merge_context_msg(
            messages[:-1],
            messages,
            self.ids + cut,
            self.mask + [0] * len(cut),
            None if self.logprobs is None else self.logprobs + [0.0] * len(cut),
        )
        if len(mask) >= self._length:
            return False
        self.ids, self.mask, self.logprobs = merged.token_ids, mask, logprobs
        return True

    def as_output(self) -> dict[str, Any]:
        """The fields of verl's output that it is."""
        return {
            "prompt_ids": self.ids[: self._prompt],
            "response_ids": self.ids[self._prompt :],
            "response_mask": self.mask,
            "response_logprobs": self.logprobs,
        }
