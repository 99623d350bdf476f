"""Prompts with a common prefix, which is read once: observations of one episode are prefixes of each other.

A batch of prompts is laid out as trees (`sweet_rl.training.trees`), read in one forward pass, and what the
model remembers of each token is handed to every prompt that goes through it. Importing this module imports
torch.

Axes: P prompts, R rows of the layout, T places in a row, W places of the longest prompt, V vocabulary, H
heads, D of a head.
"""

# ruff: noqa: N803, N806 - the names of tensors end in their axes

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sweet_rl.policies.decoding import Prefill
from sweet_rl.training.attention import attention_span, inputs_of
from sweet_rl.training.batches import question_of, to_device
from sweet_rl.training.head import asked_at
from sweet_rl.training.trees import lay_out

WIDE = 256
"""Hidden size from which on planning a tree costs less than it saves."""


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
        self.serves = self._span > 0 and not slides and config.hidden_size >= WIDE
        """Whether this model's prompts can share tokens, and whether that is worth the while."""

    def __call__(self, prompts: Sequence[Sequence[int]]) -> Prefill | None:
        """Logits behind each prompt, its mask and the cache, padded on the left; None: nothing is shared."""
        if not self.serves or len(prompts) < 2:
            return None
        layout = lay_out([np.asarray(ids, dtype=np.uint32) for ids in prompts], attention_span=self._span)
        if not layout.shares:
            return None
        device = self._model.device
        where = [at[-1] for at in layout.places]
        question = to_device(question_of(layout, np.asarray(where)), device)
        width = max(map(len, layout.places))
        padded = [[*[0] * (width - len(at)), *at.tolist()] for at in layout.places]
        mask = [[*[0] * (width - len(at)), *[1] * len(at)] for at in layout.places]
        where_PW = torch.tensor(padded, device=device)
        inputs = inputs_of(self._model, question) | {"use_cache": True}
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
