"""The policy over tokens: one causal language model that writes utterances and scores them.

What it samples from is what it scores: the token that ends an utterance is part of it, and temperature and top-k count both
times. Of prompts that begin each other (observations of one episode do) only the longest is read; those that are left are laid
out as trees where a model is wide enough (`sweet_rl.training.batches`).

Axes: B utterances, T tokens of an utterance, K tokens of all utterances, V vocabulary; of trees P prompts, R rows, T
places in a row, W places of the longest prompt, H heads, D of a head.

Published behaviour: docs/published/archer.md#policy, #online-chai, #deviations.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from sweet_rl import tracking
from sweet_rl.batching import MicroBatcher
from sweet_rl.chat import ChatFormat
from sweet_rl.errors import ServiceError, UsageError
from sweet_rl.online.critic import REMEMBERED
from sweet_rl.online.settings import ArcherSettings
from sweet_rl.policies.decoding import Decoder, Prefill, Request, closing_ids, end_tokens, keep_likeliest
from sweet_rl.training.batches import Reader, chains, lay_out, neighbours, question_of, to_device
from sweet_rl.training.forward import ResponseHead, asked_at, attention_span, inputs_of
from sweet_rl.training.steps import padded_batches, shared_batches
from sweet_rl.types import Completion, FinishReason, Generation, Observation, derive_seed

WIDE = 256  # hidden size from which on planning a tree costs less than it saves; a chain is planned at once
OBSERVATION = "{obs}"  # where the observation stands in a template


class TreePrefill:
    """Reads prompts for the sampling loop (`sweet_rl.policies.decoding.Decoder`)."""

    def __init__(self, model: Any) -> None:
        self._model = model
        config = model.config.get_text_config()
        self._span = attention_span(model)
        slides = getattr(config, "sliding_window", None) is not None
        self.serves = self._span > 0 and not slides  # whether this model's prompts can share tokens
        if config.hidden_size < WIDE:
            self._span = 0

    def __call__(self, prompts: Sequence[Sequence[int]]) -> Prefill | None:
        """Logits behind each prompt, its mask and the cache, padded on the left; None: nothing is shared."""
        if not self.serves or len(prompts) < 2:
            return None
        found = chains([tuple(ids) for ids in prompts])
        longest = [np.asarray(prompts[chain[-1]], dtype=np.uint32) for chain in found]
        layout = lay_out(longest, attention_span=self._span)
        if not layout.shares and len(found) == len(prompts):
            return None
        of = {number: at for chain, at in zip(found, layout.places, strict=True) for number in chain}
        places = [of[number][: len(ids)] for number, ids in enumerate(prompts)]
        device = self._model.device
        question = to_device(question_of(layout, np.asarray([at[-1] for at in places])), device)
        width = max(map(len, places))
        padded = [[*[0] * (width - len(at)), *at.tolist()] for at in places]
        mask = [[*[0] * (width - len(at)), *[1] * len(at)] for at in places]
        where_PW = torch.tensor(padded, device=device)
        inputs = inputs_of(self._model, question) | {"use_cache": True}
        if not layout.shares:
            inputs["attention_mask"] = torch.from_numpy(layout.ends_RT > 0).long().to(device)
        with asked_at(self._model.get_output_embeddings(), question["predictors_K"]):
            output = self._model(**inputs)

        def picked(states_RHTD: Tensor) -> Tensor:
            """Keys or values of each prompt's own tokens, as [P, H, W, D]."""
            return states_RHTD.transpose(1, 2).flatten(0, 1)[where_PW].transpose(1, 2)

        cache = output.past_key_values
        for layer in cache.layers:
            layer.keys, layer.values = picked(layer.keys), picked(layer.values)
        return output.logits, torch.tensor(mask, device=device), cache


@dataclass(frozen=True, slots=True)
class Utterance:
    """A turn of the policy: the text without its end token, and the tokens with it; `finished`: no limit cut it off.

    `logprobs` are those of the tokens when they were sampled, of the untempered model; empty where they are not known.
    """

    text: str
    token_ids: tuple[int, ...]
    finished: bool
    logprobs: tuple[float, ...] = ()


class Prompt(NamedTuple):
    """What the model is given: the text, and its tokens."""

    text: str
    ids: tuple[int, ...]


class TokenScores(NamedTuple):
    """Log-probabilities of utterances' tokens, padded with 0; the baseline's values, 0 where there is none."""

    logps_BT: Tensor
    mask_BT: Tensor
    values_BT: Tensor

    @property
    def logps_B(self) -> Tensor:
        return self.logps_BT.sum(dim=1)


class TokenPolicy:
    """A causal language model as a policy over utterances.

    No dropout is ever active. An utterance ends with the first token whose text contains
    `eos_str`, or with an end token of the model; text before `eos_str` inside that token belongs to it.
    """

    def __init__(self, model: nn.Module, tokenizer: Any, settings: ArcherSettings) -> None:
        self.model, self.tokenizer, self.settings = model.eval(), tokenizer, settings
        self.max_tokens_per_batch, self.eos_str = settings.max_tokens_per_batch, settings.eos_str
        config = model.config.get_text_config()  # type: ignore[union-attr,operator]
        self._positions: int | None = getattr(config, "max_position_embeddings", None)
        self.max_context = settings.max_context
        if self._positions is not None:
            self.max_context = min(self.max_context, self._positions - settings.max_new_tokens)
        self.end_ids, self._closing = end_tokens(model, tokenizer), closing_ids(tokenizer)
        self._stop_ids = self.end_ids
        if self.eos_str is not None:  # every token whose own text contains it
            every = [[number] for number in range(len(tokenizer))]
            spelled = tokenizer.batch_decode(every, clean_up_tokenization_spaces=False)
            self._stop_ids |= {number for number, piece in enumerate(spelled) if self.eos_str in piece}
        self._prefill = TreePrefill(model)
        self._decoder = Decoder(model, self._stop_ids, self._spells_end, self._prefill)
        self._head = ResponseHead(model, self._logprobs_of)
        self._reader = Reader(pad_id=0, attention_span=attention_span(model))
        self.prompt = lru_cache(REMEMBERED)(self._make_prompt)
        self._ids = lru_cache(REMEMBERED)(self._encode)
        self._text_of = lru_cache(REMEMBERED)(self._make_text)
        self.value_head: nn.Linear | None = None
        if settings.has_value_head:
            self.value_head = nn.Linear(config.hidden_size, 1, device=self.device, dtype=self.dtype)
            nn.init.zeros_(self.value_head.weight)
            nn.init.zeros_(self.value_head.bias)
        if self.max_context < 1 or len(self.prompt("a").ids) > self.max_context:
            repair = "Shorten them, or raise max_context."
            if self.max_context < settings.max_context:
                repair = f"The model reads {self._positions} tokens in all: shorten them, or take another policy_lm."
            raise UsageError(
                f"max_new_tokens={settings.max_new_tokens} and the template leave no room for an observation: prompts "
                f"have {self.max_context} tokens at most. {repair}"
            )

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    @property
    def dtype(self) -> torch.dtype:
        """What scores come in: float32, or float64 if the model computes in that."""
        return torch.promote_types(next(self.model.parameters()).dtype, torch.float32)

    def parameters(self) -> list[nn.Parameter]:
        """The trained weights: the model, or its adapter, and the value head if there is one."""
        extra = list(self.value_head.parameters()) if self.value_head is not None else []
        return [parameter for parameter in self.model.parameters() if parameter.requires_grad] + extra

    def _make_prompt(self, observation: str) -> Prompt:
        """The oldest of an observation is dropped where it is too long; the template is never cut."""
        if (template := self.settings.template) is None:
            ids = self._encode(observation)
            if len(ids) <= self.max_context:
                return Prompt(observation, ids)
            begin = ids[:1] if ids[0] == self.tokenizer.bos_token_id else ()
            ids = (*begin, *ids[len(ids) - self.max_context + len(begin) :])
            return Prompt(self.decode(ids), ids)
        kept = self.tokenizer(observation, add_special_tokens=False)["input_ids"]
        while True:
            text = template.replace(OBSERVATION, observation)
            ids = self._encode(text)
            if len(ids) <= self.max_context or not kept:
                return Prompt(text, ids)
            kept = kept[len(ids) - self.max_context :]
            observation = self.decode(kept)

    def _encode(self, text: str) -> tuple[int, ...]:
        """Tokens of a prompt, with the begin token where the tokenizer adds one and the text has none."""
        begin, begin_id = self.tokenizer.bos_token, self.tokenizer.bos_token_id
        written = bool(begin) and text.startswith(begin)
        ids: list[int] = self.tokenizer(text, add_special_tokens=not written)["input_ids"]
        while len(ids) > 1 and ids[-1] == self.tokenizer.eos_token_id:  # a tokenizer that ends every text
            ids = ids[:-1]
        fallback = self.tokenizer.eos_token_id if begin_id is None else begin_id
        return tuple(ids) or (0 if fallback is None else int(fallback),)

    def decode(self, ids: Sequence[int]) -> str:
        """The text of an utterance's token ids, special tokens left out."""
        options = {"skip_special_tokens": True, "clean_up_tokenization_spaces": False}
        return str(self.tokenizer.decode(list(ids), **options))

    def utterance(self, observation: str, text: str) -> Utterance:
        """Words from elsewhere as the policy would have written them: their tokens, then what ends them.

        Cut where the model has no more positions.
        """
        prompt = self.prompt(observation)
        spoken = text + (self.eos_str or "")
        both = self._ids(prompt.text + spoken)  # imitation comes to the same turns again and again
        if both[: len(prompt.ids)] == prompt.ids:
            ids = both[len(prompt.ids) :]
        else:
            ids = tuple(self.tokenizer(spoken, add_special_tokens=False)["input_ids"])
        if self.eos_str is None:
            ids = (*ids, *self._closing)
        room = len(ids) if self._positions is None else self._positions - len(prompt.ids)
        return Utterance(text, ids[:room], finished=len(ids) <= room)

    def known_utterance(self, observation: str, text: str, ids: tuple[int, ...] | None) -> Utterance:
        """The utterance with these tokens if they spell the text; else as `utterance` makes it."""
        if ids and self._text_of(ids) == text:
            return Utterance(text, ids, finished=True)
        return self.utterance(observation, text)

    def _make_text(self, ids: tuple[int, ...]) -> str:
        text = self.decode(ids)
        return text if self.eos_str is None else text.split(self.eos_str)[0]

    def _spells_end(self, ids: Sequence[int]) -> bool:
        """Whether several tokens together spell a longer `eos_str`."""
        if self.eos_str is None or len(self.eos_str) == 1:
            return False
        return self.eos_str in self.decode(ids[-4 * len(self.eos_str) :])

    def request(self, observation: str, seed: int, *, greedy: bool = False) -> Request:
        """The request to the decoder: prompt ids, seed, temperature and limits."""
        how, ids = self.settings, self.prompt(observation).ids
        return Request(ids, how.max_new_tokens, 0.0 if greedy else how.temperature, seed, how.top_k)

    def write(self, requests: Sequence[Request]) -> Generator[list[tuple[int, Utterance]], None, None]:
        """Utterances as they end, by their places among the requests.

        Prompts with a common prefix are neighbours where it can be read once; else those of similar lengths.
        """
        lengths = [len(request.prompt_ids) + self.settings.max_new_tokens for request in requests]
        order = sorted(range(len(requests)), key=lambda number: requests[number].prompt_ids)
        shared = order if self._prefill.serves else None
        for batch in padded_batches(lengths, 4 * self.max_tokens_per_batch, order=shared):
            for finished in self._decoder([requests[number] for number in batch]):
                said = [
                    (self._text_of(one.token_ids), one.token_ids, one.ended, one.logprobs)
                    for _, one in finished
                ]
                yield [(batch[at], Utterance(*one)) for (at, _), one in zip(finished, said, strict=True)]

    def sample(
        self, observations: Sequence[str], seeds: Sequence[int], *, greedy: bool = False
    ) -> list[Utterance]:
        """One utterance for each observation; it depends on its observation and its seed only."""
        asked = zip(observations, seeds, strict=True)
        requests = [self.request(observation, seed, greedy=greedy) for observation, seed in asked]
        places = {request: place for place, request in reversed(list(enumerate(requests)))}
        # The same observation with the same seed is written once; neighbours with the same prompt share it.
        distinct = sorted(places.values(), key=lambda place: requests[place].prompt_ids)
        found: dict[Request, Utterance] = {}
        for finished in self.write([requests[place] for place in distinct]):
            found |= {requests[distinct[number]]: utterance for number, utterance in finished}
        return [found[request] for request in requests]

    def batches(self, observations: Sequence[str], utterances: Sequence[Utterance]) -> Iterator[list[int]]:
        """Numbers of utterances to score together; neighbours' prompts have a common prefix."""
        rows = [
            np.asarray((*self.prompt(observation).ids, *utterance.token_ids), dtype=np.uint32)
            for observation, utterance in zip(observations, utterances, strict=True)
        ]
        lengths = [len(row) for row in rows]
        if self._reader.attention_span > 0:
            order, shared = neighbours(rows)
            yield from shared_batches(order, lengths, shared, self.max_tokens_per_batch)
        else:
            yield from padded_batches(lengths, self.max_tokens_per_batch)

    def scores(self, observations: Sequence[str], utterances: Sequence[Utterance]) -> TokenScores:
        """Log-probabilities of the utterances' tokens under what they are sampled from, ends included.

        All in one batch; with gradients where they are on. float32 at least, whatever the model computes in.
        """
        sequences, asked = [], []
        for number, (observation, utterance) in enumerate(zip(observations, utterances, strict=True)):
            prompt = self.prompt(observation).ids
            sequences.append(np.asarray((*prompt, *utterance.token_ids), dtype=np.uint32))
            asked.append((number, np.arange(len(prompt), len(sequences[-1]))))
        question, places = self._reader.ask(sequences, asked)
        question = to_device(question, self.device)
        with self._watched() as seen:
            logps_K, _ = self._head.logprobs(self.model, question)
        width = max(map(len, places))
        where_BT = torch.tensor([[*at, *[0] * (width - len(at))] for at in places], device=self.device)
        lengths_B = torch.tensor([len(at) for at in places], device=self.device)
        mask_BT = (torch.arange(width, device=self.device) < lengths_B[:, None]).float()
        logps_BT = logps_K[where_BT].where(mask_BT > 0, 0.0)
        if self.value_head is None:
            return TokenScores(logps_BT, mask_BT, torch.zeros_like(logps_BT))
        hidden_KH = seen[-1].flatten(0, 1)[question["predictors_K"]].detach().to(self.dtype)
        return TokenScores(logps_BT, mask_BT, self.value_head(hidden_KH)[:, 0][where_BT])

    def _logprobs_of(self, logits_KV: Tensor, tokens_K: Tensor) -> Tensor:
        """Under temperature and top-k; a token that was sampled is among the k whatever rounding says."""
        if self.settings.top_k > 0:
            limits_K = torch.full_like(tokens_K, self.settings.top_k)
            kept_KV = keep_likeliest(logits_KV, limits_K)
            logits_KV = kept_KV.scatter(1, tokens_K[:, None], logits_KV.gather(1, tokens_K[:, None]))
        wide_KV = logits_KV.to(self.dtype) / self.settings.temperature
        return wide_KV.gather(1, tokens_K[:, None])[:, 0] - wide_KV.logsumexp(dim=1)

    @contextmanager
    def _watched(self) -> Iterator[list[Tensor]]:
        """A pass: what goes into the model's head, for the baseline; layers that recompute activations do so in training mode only."""
        modules = self.model.modules() if torch.is_grad_enabled() else ()
        layers = [module for module in modules if getattr(module, "gradient_checkpointing", False)]
        seen: list[Tensor] = []
        head: Any = self.model.get_output_embeddings()  # type: ignore[operator]
        hook = head.register_forward_pre_hook(lambda _module, inputs: seen.append(inputs[0]))
        for layer in layers:
            layer.training = True  # what is in it stays in the other mode
        try:
            yield seen
        finally:
            hook.remove()
            for layer in layers:
                layer.training = False


MAX_TURNS = 256  # Turns that wait together and become one batch at most; the policy cuts it by tokens


class Ask(NamedTuple):
    """One turn to take: the rendered dialogue, and its seed."""

    observation: str
    seed: int


# Turns as they end, by place among those asked for.
Turns = Generator[Sequence[tuple[int, Utterance]], None, None]
Engine = Callable[[Sequence[Ask]], Turns]


class Player:
    """A policy as the rollout loop wants it."""

    def __init__(
        self,
        name: str,
        engine: Engine,
        chat_format: ChatFormat,
        prompt: Callable[[str], Prompt],
        seed: int = 0,
    ) -> None:
        self.name, self._engine, self._usage = name, engine, tracking.meter(name, "agent")
        self._format, self._prompt, self._seed = chat_format, prompt, seed
        self._batcher: MicroBatcher[Ask, Utterance] = MicroBatcher(self._turns, max_batch=MAX_TURNS)

    async def act(self, observation: Observation) -> Generation:
        """One turn."""
        text = self._format.render(observation.messages)
        seed = derive_seed(self._seed, observation.seed, observation.turn)
        self._usage.requests += 1
        utterance = await self._batcher.submit(Ask(text, seed))
        prompt = self._prompt(text)
        self._usage.add(len(prompt.ids) or None, len(utterance.token_ids) or None)
        reason = FinishReason.STOP if utterance.finished else FinishReason.LENGTH
        ids, logprobs = (utterance.token_ids, utterance.logprobs) if utterance.logprobs else (None, None)
        completion = Completion(utterance.text, ids, logprobs, reason)
        return Generation(prompt.text, completion)

    async def close(self) -> None:
        """Stop taking turns. The model stays with its learner."""
        await self._batcher.close()

    def _turns(self, asks: Sequence[Ask]) -> Turns:
        try:
            yield from self._engine(asks)
        except torch.OutOfMemoryError as error:
            raise ServiceError(
                f"Out of GPU memory with {len(asks)} turns waiting. Lower max_tokens_per_batch, and continue."
            ) from error
