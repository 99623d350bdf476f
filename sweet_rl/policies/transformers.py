"""A model in this process, on a CPU or one GPU. Importing this module is cheap, making a policy loads torch.

For models that fill several GPUs, and for speed on one, use vLLM (`sweet_rl.policies.vllm`).

Published behaviour: docs/published/sweet_rl.md#agent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from sweet_rl import tracking
from sweet_rl.batching import ContinuousBatcher, MicroBatcher
from sweet_rl.chat import ChatFormat, TokenizerChat, load_tokenizer, with_system
from sweet_rl.errors import EpisodeError, ServiceError, UsageError, missing_package
from sweet_rl.types import Completion, Failure, FinishReason, Generation, Observation, StopReason, derive_seed

if TYPE_CHECKING:
    from sweet_rl.policies.decoding import Request, Written


class TransformersPolicy:
    """An agent whose model runs here, in continuous batches; a dialogue's turn reads what is new in it.

    Sampling is by temperature alone, whatever the model's generation_config.json says. Each turn
    draws from a seed made of the policy's, the episode's and the turn's number, so a turn comes out the same
    whichever turns share its batch and whatever was kept, up to rounding (see
    `sweet_rl.policies.decoding.Decoder`).

    Args:
        model: folder, or name on the hub.
        system_prompt: the agent's rules; "" for none, None for those of the world that it plays.
        chat_format: how dialogues become prompts; default is the tokenizer's chat template.
        temperature: 0 is greedy.
        max_new_tokens: tokens of one turn at most (published: 1024).
        max_batch: turns computed together at most; memory grows with it.
        max_dialogues: dialogues kept in memory between their turns at most.
        cache_gib: memory for them at most, unless the turns being computed need more; 0 keeps none.
        continuous: start a turn as soon as another one ends. False: one batch after the other, nothing kept;
            always so for models whose texts cannot be read in slots (`sweet_rl.policies.engine.serves`).
        device: "auto" (a GPU if there is one), "cpu", "cuda", "cuda:1", ...
        dtype: "auto" (that of the checkpoint), "float32", "bfloat16", "float16".
        seed: of the whole run.
        flag: what named the model, for messages.

    Raises:
        UsageError: a package, the model, its tokenizer or its chat template is missing; an unknown setting.
    """

    def __init__(
        self,
        model: str | Path,
        *,
        system_prompt: str | None = None,
        chat_format: ChatFormat | None = None,
        temperature: float = 1.0,
        max_new_tokens: int = 1024,
        max_batch: int = 32,
        max_dialogues: int = 128,
        cache_gib: float = 2.0,
        continuous: bool = True,
        device: str = "auto",
        dtype: str = "auto",
        seed: int = 0,
        flag: str = "",
    ) -> None:
        if temperature < 0 or max_new_tokens < 1:
            raise UsageError(
                f"temperature must be at least 0 and max_new_tokens at least 1, got {temperature} and {max_new_tokens}."
            )
        try:
            from sweet_rl.policies.decoding import Decoder, end_tokens
            from sweet_rl.policies.engine import Engine, serves
            from sweet_rl.policies.weights import context_length, loaded_on
        except ImportError as error:
            raise missing_package("torch", "transformers", needed_for="a model in process") from error
        self.name = str(model)
        self.system_prompt = system_prompt
        self._temperature = temperature
        self._max_new_tokens, self._max_batch = max_new_tokens, max_batch
        self._seed = seed
        self._tokenizer = load_tokenizer(model, flag)
        self._format = chat_format or TokenizerChat(self._tokenizer)
        self._model = loaded_on(str(model), device=device, dtype=dtype, flag=flag)
        self._context = context_length(self._model)
        self._usage = tracking.meter(self.name, "agent")
        end_ids = end_tokens(self._model, self._tokenizer)
        self._batcher: ContinuousBatcher[Request, Written] | MicroBatcher[Request, Written]
        if continuous and serves(self._model):
            texts, most = max(max_dialogues, max_batch), cache_gib * 2**30
            engine = Engine(self._model, end_ids, max_rows=max_batch, max_texts=texts, max_bytes=most)
            self._batcher = ContinuousBatcher(engine)
        else:
            self._batcher = MicroBatcher(Decoder(self._model, end_ids), max_batch=max_batch)

    async def act(self, observation: Observation) -> Generation:
        """One turn.

        Raises:
            EpisodeError: the prompt leaves no room for a single token.
            ServiceError: out of GPU memory.
        """
        prompt = self._format.render(with_system(self.system_prompt or "", observation.messages))
        seed = derive_seed(self._seed, observation.seed, observation.turn)
        request = self._request(prompt, seed)
        self._usage.requests += 1
        (written,) = await self._write([request])
        completion = self._complete(written)
        self._usage.add(len(request.prompt_ids), len(completion.token_ids or ()))
        return Generation(prompt, completion)

    async def sample(
        self, prompts: Sequence[str], n: int, *, seeds: Sequence[int] | None = None
    ) -> list[list[Completion]]:
        """`n` completions for each prompt, verbatim, by seeds made of the policy's and the prompt; raises as `act`."""
        if seeds is None:
            seeds = [derive_seed(self._seed, prompt) for prompt in prompts]
        requests = [
            replace(request, seed=derive_seed(seed, i))
            for request, seed in zip([self._request(prompt, 0) for prompt in prompts], seeds, strict=True)
            for i in range(n)
        ]
        self._usage.requests += len(prompts)
        written = await self._write(requests)
        completions = [self._complete(one) for one in written]
        for first in range(0, len(requests), n):  # a prompt counts once, as servers count it
            tokens = sum(len(one.token_ids) for one in written[first : first + n])
            self._usage.add(len(requests[first].prompt_ids), tokens)
        return [completions[i * n : (i + 1) * n] for i in range(len(prompts))]

    async def close(self) -> None:
        """Stop after the batch at hand; requests that still wait fail."""
        await self._batcher.close()

    async def _write(self, requests: Sequence[Request]) -> list[Written]:
        import torch  # loaded by now

        try:
            return await asyncio.gather(*map(self._batcher.submit, requests))
        except torch.OutOfMemoryError as error:
            raise ServiceError(
                f"Out of GPU memory with up to {self._max_batch} turns in one batch. Lower the largest batch "
                "(--max_batch), the tokens of a turn or --cache_gib, and continue the run."
            ) from error

    def _request(self, prompt: str, seed: int) -> Request:
        from sweet_rl.policies.decoding import Request  # imports torch

        readable = prompt.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        ids: list[int] = self._tokenizer(readable, add_special_tokens=False)["input_ids"]
        if not ids:
            raise ValueError("an empty prompt cannot be continued")
        room = self._max_new_tokens
        if self._context is not None:
            room = min(room, self._context - len(ids))
        if room < 1:
            detail = f"the prompt has {len(ids)} tokens, the model reads {self._context}"
            raise EpisodeError(StopReason.CONTEXT_FULL, Failure("context_full", detail, attempts=0))
        return Request(tuple(ids), room, self._temperature, seed)

    def _complete(self, written: Written) -> Completion:
        ids = written.token_ids[:-1] if written.ended else written.token_ids
        text = self._tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        reason = FinishReason.STOP if written.ended else FinishReason.LENGTH
        return Completion(text, written.token_ids, written.logprobs, reason)
