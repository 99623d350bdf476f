"""The sampling loop for a causal model in process: token ids in, token ids and log-probabilities out.

It exists because `generate` of transformers obeys sampling settings that a model's folder brings along, and
gives rows of a batch one common source of randomness. Here temperature is the only setting, with
top-k for those who ask for it, and each row draws from its own seed. Importing this module imports torch.

Axes: B rows, P distinct prompts, T positions, V vocabulary, N new tokens.

Published behaviour: docs/published/sweet_rl.md#agent.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Generator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor

from sweet_rl.chat.turns import turn_end


@dataclass(frozen=True, slots=True)
class Request:
    """One row to write; `temperature` 0 is greedy, and `seed` decides the draws and nothing else does.

    Draws are among the `top_k` likeliest tokens (0: all) and those that tie with the last, and of these among the fewest
    that have the probability `top_p` together.
    """

    prompt_ids: tuple[int, ...]
    max_new_tokens: int
    temperature: float
    seed: int
    top_k: int = 0
    top_p: float = 1.0


@dataclass(frozen=True, slots=True)
class Written:
    """A sampled text: ids and natural log-probabilities of the untempered model, end token included."""

    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    ended: bool


Prefill: TypeAlias = tuple[Tensor, Tensor, Any]
"""Prompts that were read: logits behind each [P, V], the mask of their tokens [P, T], padded on the left, and
the cache."""


class Decoder:
    """Writes batches with one model, padded on the left; a prompt that several rows share is read once.

    The tokens of a row depend on its prompt and seed only, up to rounding: the order of floating-point sums changes with
    the shape of the batch, and where that moves a draw across the border between two tokens, the row goes another way
    from there. In float32 that is rare; in bfloat16 expect it in long texts.
    """

    def __init__(
        self,
        model: Any,
        end_ids: Collection[int],
        ends: Callable[[Sequence[int]], bool] = lambda _: False,
        prefill: Callable[[Sequence[tuple[int, ...]]], Prefill | None] = lambda _: None,
    ) -> None:
        self._model = model
        self._end_ids = frozenset(end_ids)
        self._ends = ends
        self._prefill = prefill
        parameters = inspect.signature(model.forward).parameters
        self._takes_positions = "position_ids" in parameters
        self._last_only = {"logits_to_keep": 1} if "logits_to_keep" in parameters else {}

    @torch.inference_mode()
    def __call__(self, requests: Sequence[Request]) -> Generator[list[tuple[int, Written]], None, None]:
        """Yield after every token the rows that ended with it, as (place in `requests`, what was written)."""
        texts = {ids: place for place, ids in enumerate(dict.fromkeys(r.prompt_ids for r in requests))}
        prefilled = self._prefill(list(texts))
        if prefilled is None:  # read them side by side
            width, device = max(map(len, texts)), self._model.device
            ids_PT = torch.tensor([[0] * (width - len(ids)) + list(ids) for ids in texts], device=device)
            seen = [[0] * (width - len(ids)) + [1] * len(ids) for ids in texts]
            mask_PT = torch.tensor(seen, device=device)
            logits_PV, cache = self._forward(ids_PT, mask_PT, None)
            prefilled = logits_PV, mask_PT, cache
        logits_BV, mask_BT, cache = prefilled
        device, length = logits_BV.device, max(request.max_new_tokens for request in requests)
        if len(texts) < len(requests):
            rows_B = torch.tensor([texts[request.prompt_ids] for request in requests], device=device)
            logits_BV, mask_BT = logits_BV[rows_B], mask_BT[rows_B]
            cache.batch_select_indices(rows_B)
        draws_BN = torch.stack([draws_of(request, length) for request in requests]).to(device)
        ids, logprobs = [list[int]() for _ in requests], [list[float]() for _ in requests]
        living = list(range(len(requests)))
        for written in range(length):
            logps_BV, asked = logits_BV.float().log_softmax(dim=-1), [requests[place] for place in living]
            tokens_B, logprobs_B = write_tokens(logps_BV, asked, draws_BN[living, written])
            finished, keep = [], []
            for row, (token, logprob) in enumerate(zip(tokens_B.tolist(), logprobs_B.tolist(), strict=True)):
                place = living[row]
                ids[place].append(token)
                logprobs[place].append(logprob)
                ended = token in self._end_ids or self._ends(ids[place])
                if ended or written + 1 == requests[place].max_new_tokens:
                    finished.append((place, Written(tuple(ids[place]), tuple(logprobs[place]), ended)))
                else:
                    keep.append(row)
            yield finished
            if not keep:
                return
            if finished:
                keep_B = torch.tensor(keep, device=device)
                tokens_B, mask_BT, living = tokens_B[keep_B], mask_BT[keep_B], [living[row] for row in keep]
                cache.batch_select_indices(keep_B)
            mask_BT = torch.cat([mask_BT, torch.ones_like(mask_BT[:, :1])], dim=1)
            logits_BV, cache = self._forward(tokens_B[:, None], mask_BT, cache)

    def _forward(self, ids_BT: Tensor, mask_BT: Tensor, cache: Any) -> tuple[Tensor, Any]:
        """Logits after the last position, and the cache."""
        positions_BT = (mask_BT.cumsum(dim=1) - 1).clamp(min=0)[:, -ids_BT.shape[1] :]
        output = self._model(
            input_ids=ids_BT,
            attention_mask=mask_BT,
            past_key_values=cache,
            use_cache=True,
            **({"position_ids": positions_BT} if self._takes_positions else {}),
            **self._last_only,
        )
        return output.logits[:, -1], output.past_key_values


def sent(numbers: Any, device: torch.device) -> Tensor:
    """Numbers of the host as a tensor on a device, without waiting for the copy."""
    tensor = torch.as_tensor(numbers)
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor.to(device)


def write_tokens(logps_BV: Tensor, requests: Sequence[Request], draws_B: Tensor) -> tuple[Tensor, Tensor]:
    """The next token of each row [B], and its log-probability [B], from those of the untempered model."""
    device, among_BV = logps_BV.device, logps_BV
    temperatures = [request.temperature for request in requests]
    temperatures_B = sent(temperatures, device)
    if any(request.top_k for request in requests):
        among_BV = keep_likeliest(among_BV, sent([request.top_k for request in requests], device))
    if any(request.top_p < 1 for request in requests):
        top_ps_B = sent([request.top_p for request in requests], device)
        among_BV = keep_nucleus(among_BV, top_ps_B, temperatures_B)
    drawn = any(temperatures)
    tokens_B = choose(among_BV, temperatures_B, draws_B.to(device)) if drawn else among_BV.argmax(dim=-1)
    return tokens_B, logps_BV.gather(1, tokens_B[:, None])[:, 0]


def end_tokens(model: Any, tokenizer: Any) -> frozenset[int]:
    """Every token that ends a text: the tokenizer's, the chat template's, and the generation config's."""
    configured = getattr(getattr(model, "generation_config", None), "eos_token_id", None)
    listed = configured if isinstance(configured, list) else [configured]
    added = getattr(tokenizer, "added_tokens_decoder", {})
    closing = closing_ids(tokenizer)[-1:]  # of a mark of several tokens the last one may end a word
    own = [end for end in closing if end in added]
    return frozenset(end for end in [*listed, tokenizer.eos_token_id, *own] if end is not None)


def closing_ids(tokenizer: Any) -> tuple[int, ...]:
    """What ends a turn: in the chat template, else the end token; nothing where there is neither."""
    if getattr(tokenizer, "chat_template", None):
        return tuple(tokenizer(turn_end(tokenizer), add_special_tokens=False)["input_ids"])
    return () if tokenizer.eos_token_id is None else (tokenizer.eos_token_id,)


def keep_likeliest(logps_BV: Tensor, top_ks_B: Tensor) -> Tensor:
    """The same for the row's `top_ks_B` likeliest tokens (0, or V: all) and what equals the last; else -inf."""
    vocabulary = logps_BV.shape[-1]
    limits_B = torch.where(top_ks_B > 0, top_ks_B, vocabulary).clamp(max=vocabulary)
    most = int(torch.where(limits_B < vocabulary, limits_B, 0).max())
    if most == 0:
        return logps_BV
    likeliest_BK = logps_BV.topk(most, dim=-1).values
    least_B1 = likeliest_BK.gather(-1, limits_B.clamp(max=most)[:, None] - 1)
    least_B1 = torch.where(limits_B[:, None] < vocabulary, least_B1, -torch.inf)
    return logps_BV.masked_fill(logps_BV < least_B1, -torch.inf)


def keep_nucleus(logps_BV: Tensor, top_ps_B: Tensor, temperatures_B: Tensor) -> Tensor:
    """The same for the fewest likeliest tokens that, at its temperature, have the row's `top_ps_B`; else -inf."""
    if bool((top_ps_B >= 1).all()):
        return logps_BV
    divisors_B = torch.where(temperatures_B > 0, temperatures_B, 1.0)
    sorted_BV, order_BV = (logps_BV / divisors_B[:, None]).sort(dim=-1, descending=True, stable=True)
    chances_BV = sorted_BV.softmax(dim=-1)
    dropped_BV = chances_BV.cumsum(dim=-1) - chances_BV >= top_ps_B[:, None]
    dropped_BV[:, 0] = False
    dropped_BV &= ((top_ps_B < 1) & (temperatures_B > 0))[:, None]
    return logps_BV.masked_fill(dropped_BV.gather(-1, order_BV.argsort(dim=-1)), -torch.inf)


def choose(logps_BV: Tensor, temperatures_B: Tensor, draws_B: Tensor) -> Tensor:
    """One token for each row: the likeliest at temperature 0, else the one on which its draw falls.

    The draw, in [0, 1), is a place on the cumulative distribution: one random number a token, on any device the same.
    """
    divisors_B = torch.where(temperatures_B > 0, temperatures_B, 1.0)
    probabilities_BV = (logps_BV / divisors_B[:, None]).softmax(dim=-1)
    cumulative_BV = probabilities_BV.cumsum(dim=-1, dtype=torch.float64)
    marks_B1 = (draws_B * cumulative_BV[:, -1])[:, None]
    drawn_B = torch.searchsorted(cumulative_BV, marks_B1, right=True)[:, 0].clamp(max=logps_BV.shape[1] - 1)
    return torch.where(temperatures_B > 0, drawn_B, logps_BV.argmax(dim=-1))


def draws_of(request: Request, length: int | None = None) -> Tensor:
    """The random numbers of a row for its tokens, from its own seed [N]; more of them begin with the same."""
    generator = torch.Generator().manual_seed(request.seed)
    return torch.rand(length or request.max_new_tokens, generator=generator, dtype=torch.float64)
