"""An agent behind any OpenAI-compatible server; vLLM also returns tokens and their log-probabilities.

Published behaviour: docs/published/sweet_rl.md#agent, #in-episodes.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from sweet_rl.chat import ChatFormat, PlainChat, TokenizerChat, as_json, with_system
from sweet_rl.errors import EpisodeError, UsageError
from sweet_rl.openai_client import OpenAIClient, RequestFailed
from sweet_rl.types import Completion, Failure, Generation, Json, Observation, StopReason, derive_seed

_SAMPLES_IN_FLIGHT = 64
_PENALTIES = {"vllm": "repetition_penalty", "llamacpp": "repeat_penalty", "me": "repeat_penalty"}
"""What servers call theirs, by whom they say owns their models: vLLM, llama.cpp, llama-cpp-python."""


class _Server(NamedTuple):
    owner: str
    context: int | None  # in tokens


class OpenAIPolicy:
    """An agent whose model is behind an OpenAI-compatible server.

    Sampling is by temperature alone: `top_p` is sent as 1, vLLM is also asked to ignore what the model's
    generation_config.json says, and llama.cpp's servers their defaults (`top_k` 40, a repetition penalty).

    A server adds a begin-of-text token to a prompt *string*, and most chat templates have written one already.
    With the tokenizer's chat format, vLLM is asked to add nothing, and another server gets such a prompt as
    token ids where the tokenizer would add a second one (llama-cpp-python, which takes no ids, without the
    first). With the plain format the server adds its own.

    Args:
        client: connects to the server; closed with the policy.
        model: its name on the server.
        system_prompt: the agent's rules; "" for none, None for those of the world that it plays.
        chat_format: how dialogues become prompts, for "completions"; default is the plain format.
        api: with "completions" the recorded prompt is the string that the model reads; with "chat" the server
            renders it, and the messages sent are recorded.
        temperature: 0 is greedy.
        max_tokens: tokens of one turn at most (published: 1024).
        seed: for the whole run; each turn gets its own, which servers honour as far as they can.
        server: "auto" looks at the list of models to see whether it is vLLM; "vllm" and "other" skip that.
    """

    def __init__(
        self,
        client: OpenAIClient,
        model: str,
        *,
        system_prompt: str | None = None,
        chat_format: ChatFormat | None = None,
        api: Literal["completions", "chat"] = "completions",
        temperature: float = 1.0,
        max_tokens: int = 1024,
        seed: int = 0,
        server: Literal["auto", "vllm", "other"] = "auto",
    ) -> None:
        if isinstance(client, str):
            raise UsageError(f"client must be an OpenAIClient: OpenAIClient({client!r}).")
        if api not in {"completions", "chat"}:
            raise UsageError(f"api must be completions or chat, got {api!r}.")
        self.name, self._client, self.system_prompt = model, client, system_prompt
        self._format, self._api = chat_format or PlainChat(), api
        self._temperature, self._max_tokens, self._seed = temperature, max_tokens, seed
        self._server = None if server == "auto" else _Server(server, None)
        self._discovering = asyncio.Lock()
        self._sampling = asyncio.Semaphore(_SAMPLES_IN_FLIGHT)

    async def act(self, observation: Observation) -> Generation:
        """One turn.

        Raises:
            EpisodeError: the dialogue no longer fits the model, or the request failed for good.
            ServiceError: no server answers, or it refuses every request.
            UsageError: vLLM does not serve this model.
        """
        messages = with_system(self.system_prompt or "", observation.messages)
        prompt = self._format.render(messages) if self._api == "completions" else as_json(messages)
        seed = derive_seed(self._seed, observation.seed, observation.turn)
        ((completion, sent),) = await self._complete(prompt, 1, seed)
        return Generation(sent, completion)

    async def sample(
        self, prompts: Sequence[str], n: int, *, seeds: Sequence[int] | None = None
    ) -> list[list[Completion]]:
        """`n` completions for each prompt, which is what `act` records as `input`; by default its seed is its own."""
        if seeds is None:
            seeds = [derive_seed(self._seed, prompt) for prompt in prompts]

        async def several(prompt: str, seed: int) -> list[Completion]:
            async with self._sampling:
                return [completion for completion, _ in await self._complete(prompt, n, seed)]

        both = zip(prompts, seeds, strict=True)
        tasks = [asyncio.create_task(several(prompt, seed)) for prompt, seed in both]
        try:
            return await asyncio.gather(*tasks)
        finally:
            for task in tasks:  # when one has failed, the others are not awaited
                task.cancel()

    async def close(self) -> None:
        """Close the client and its connections."""
        await self._client.close()

    async def _complete(self, prompt: str, n: int, seed: int) -> list[tuple[Completion, str]]:
        """Completions, each with the prompt as the server took it."""
        server = await self._discover()
        ask = self._ask_completions if self._api == "completions" else self._ask_chat
        completions: list[tuple[Completion, str]] = []
        try:
            while len(completions) < n:  # not every server gives as many as it is asked for
                part = derive_seed(seed, len(completions)) if completions else seed
                completions += await ask(server, prompt, n - len(completions), part)
        except RequestFailed as error:
            full = error.failure.kind == "context_full"
            why = StopReason.CONTEXT_FULL if full else StopReason.POLICY_FAILED
            raise EpisodeError(why, error.failure) from error
        return completions[:n]

    async def _ask_completions(
        self, server: _Server, prompt: str, n: int, seed: int
    ) -> list[tuple[Completion, str]]:
        body = self._sampling_fields(server, seed) | {"prompt": prompt, "n": n}
        ids: list[int] | None = None
        if isinstance(self._format, TokenizerChat):
            ids = self._format.encode(prompt)
            if server.owner == "vllm":
                body["add_special_tokens"] = False
            elif (
                self._format.writes_begin_token(prompt) and self._format.tokenizer(prompt)["input_ids"] != ids
            ):
                # the server would add a second begin token to the text; llama-cpp-python takes no token ids
                text = prompt.removeprefix(self._format.tokenizer.bos_token)
                body["prompt"] = text if server.owner == "me" else ids
        if server.owner == "vllm":
            body |= {"logprobs": 0, "return_token_ids": True}
        if server.context is not None:  # a larger number would be refused instead of cut
            body["max_tokens"] = max(1, min(self._max_tokens, server.context - len(ids or [])))
        return [(_completion(choice), prompt) for choice in await self._client.complete(body)]

    async def _ask_chat(
        self, server: _Server, prompt: str, _: int, seed: int
    ) -> list[tuple[Completion, str]]:
        """One completion, whatever `n` is: the next request has another seed."""
        body = self._sampling_fields(server, seed) | {"messages": json.loads(prompt)}
        reply = await self._client.chat(body, any_reply=True)
        said = Completion(reply.content, finish_reason=reply.finish_reason, thoughts=reply.thoughts)
        return [(said, prompt if reply.sent is None else as_json(reply.sent))]

    def _sampling_fields(self, server: _Server, seed: int) -> dict[str, Json]:
        penalty = _PENALTIES.get(server.owner)
        off = {"top_k": 0, "min_p": 0.0, penalty: 1.0} if penalty else {}
        fields = {"model": self.name, "temperature": self._temperature, "top_p": 1.0}
        return fields | {"max_tokens": self._max_tokens, "seed": seed} | off

    async def _discover(self) -> _Server:
        """Look at the server once, before the first request."""
        async with self._discovering:
            if self._server is None:
                models = await self._client.models(needed=False)
                ours = next((model for model in models if model.get("id") == self.name), None)
                owners = [str(model.get("owned_by")) for model in ([ours] if ours else models)]
                if "vllm" in owners and ours is None:
                    offered = ", ".join(repr(model.get("id")) for model in models)
                    raise UsageError(f"The vLLM server does not serve {self.name!r}, but {offered}.")
                context = (ours or {}).get("max_model_len")
                owner = next((owner for owner in owners if owner in _PENALTIES), "")
                self._server = _Server(owner, context if isinstance(context, int) else None)
            return self._server


def _completion(choice: Mapping[str, Json]) -> Completion:
    """One choice of a text completion; tokens and log-probabilities where vLLM returns them."""
    text, ids, finish = choice["text"], choice.get("token_ids"), choice["finish_reason"]
    if not isinstance(text, str):
        raise RequestFailed(Failure("malformed_reply", f"the text of a choice is {type(text).__name__}"))
    logprobs = (choice.get("logprobs") or {}).get("token_logprobs")
    if not ids or not logprobs or len(ids) != len(logprobs):
        return Completion(text, finish_reason=finish)
    if not all(isinstance(value, float | int) and math.isfinite(value) for value in logprobs):
        return Completion(text, tuple(ids), None, finish)  # some servers give NaN, null or minus infinity
    return Completion(text, tuple(ids), tuple(logprobs), finish)
