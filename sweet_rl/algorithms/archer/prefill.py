"""Prompts with a common prefix, which is read once: observations of one episode are prefixes of each other.

Of prompts that begin each other only the longest is read. Those that are left are laid out as trees where a
model is wide enough (`sweet_rl.training.trees`), and read in one forward pass; what the model remembers of
each token is handed to every prompt that goes through it. Importing this module imports torch.

Axes: P prompts, R rows of the layout, T places in a row, W places of the longest prompt, V vocabulary, H
heads, D of a head.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sweet_rl.policies.decoding import Prefill
from sweet_rl.training.attention import attention_span, inputs_of
from sweet_rl.training.batches import question_of, to_device
from sweet_rl.training.forward import asked_at
from sweet_rl.training.trees import chains, lay_out

WIDE = 256
"""Hidden size from which on planning a tree costs less than it saves; a chain is planned at once."""


class TreePrefill:
    """Reads prompts for the sampling loop (`sweet_rl.policies.decoding.Decoder`).

    Args:
        model: a transformers causal language model in evaluation mode.
    """

    def __init__(self, model: Any) -> None:
        self._model = model
        config = model.config.get_text_config()
        self._span = attention_span(model)
        slides = getattr(config, "sliding_window", None) is not None
        self.serves = self._span > 0 and not slides
        """Whether this model's prompts can share tokens."""
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
        where = [at[-1] for at in places]
        question = to_device(question_of(layout, np.asarray(where)), device)
        width = max(map(len, places))
        padded = [[*[0] * (width - len(at)), *at.tolist()] for at in places]
        mask = [[*[0] * (width - len(at)), *[1] * len(at)] for at in places]
        where_PW = torch.tensor(padded, device=device)
        inputs = inputs_of(self._model, question) | {"use_cache": True}
        if not layout.shares:
            inputs["attention_mask"] = torch.from_numpy(layout.ends_RT > 0).long().to(device)
        with asked_at(self._model.get_output_embeddings(), question["predictors_K"]):
            output = self._model(**inputs)
        cache = output.past_key_values
        for layer in cache.layers:
            layer.keys, layer.values = _picked(layer.keys, where_PW), _picked(layer.values, where_PW)
        return output.logits, torch.tensor(mask, device=device), cache


def _picked(states_RHTD: Tensor, where_PW: Tensor) -> Tensor:
    """Keys or values of each prompt's own tokens, as [P, H, W, D]."""
    rows, heads, places, size = states_RHTD.shape
    flat = states_RHTD.transpose(1, 2).reshape(rows * places, heads, size)
    return flat[where_PW].transpose(1, 2)
