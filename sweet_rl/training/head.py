"""The output head of a causal model, for the log-probabilities of given tokens only.

A model's own head makes one logit for each token of the vocabulary at every place; with 32,000 tokens and
more that is the memory peak of training. Here only the places that predict a response reach the head, in
chunks, whose logits are made again in the backward pass. So memory depends neither on the length of the
history nor on vocabulary times responses.

Axes: R rows, T places, H hidden, K log-probabilities asked for, V vocabulary.
"""

# ruff: noqa: N803 - the names of tensors end in their axes

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from sweet_rl.training.logprobs import next_logprobs

CHUNK_LOGITS = 2**22
"""Logits made at once: 16 MiB in float32."""
CHUNK_LOGITS_ON_GPU = 2**26
"""The same on a GPU, 256 MiB: each chunk reads the whole head, and adds to the gradients of all of it."""


Outputs = Callable[[Tensor], Tensor]
"""What a head makes of hidden states."""


@contextmanager
def asked_at(
    head: Any, places_K: Tensor, of: Callable[[Outputs, Tensor], Tensor] = lambda head, hidden: head(hidden)
) -> Iterator[None]:
    """A model's head is asked at some flat places only, while the block lasts.

    Args:
        head: the model's output embeddings.
        places_K: row x T + place of what is asked.
        of: makes the output from the head's own function and the hidden states [K, H].
    """
    outputs = head.forward
    head.forward = lambda hidden_RTH, *_, **__: of(outputs, hidden_RTH.flatten(0, 1)[places_K])
    try:
        yield
    finally:
        head.forward = outputs


class ResponseHead:
    """Takes the place of a model's head during one call: hidden states in, log-probabilities out.

    Within the call, so that whatever wraps the model (DeepSpeed, FSDP, DDP, adapters) sees an ordinary
    forward pass of all its modules.

    Args:
        model: the bare model.
        logprobs_of: logits [K, V] and tokens [K] to what is asked for, [K]; another one asks for
            log-probabilities under another temperature, for example.
    """

    def __init__(self, model: Any, logprobs_of: Callable[[Tensor, Tensor], Tensor] = next_logprobs) -> None:
        self._module = model.get_output_embeddings()
        self._logprobs_of = logprobs_of
        self._vocabulary = model.config.get_text_config().vocab_size
        self._plain: bool | None = None
        """Whether the model gives its head's output as it is; not known before the first call."""

    def logprobs(
        self, model: Any, predictors_K: Tensor, targets_K: Tensor, inputs: dict[str, Any]
    ) -> tuple[Tensor, Any]:
        """Log-probabilities [K] in float32, and the model's output.

        Args:
            model: the bare model, or what wraps it.
            predictors_K: flat places (row x T + place) whose outputs predict.
            targets_K: the tokens whose log-probabilities are asked for.
            inputs: of the model.
        """
        if self._plain is False:
            return self._from_logits(model, predictors_K, targets_K, inputs)
        made: list[Tensor] = []

        def logprobs_of(logits_of: Outputs, hidden_KH: Tensor) -> Tensor:
            made.append(self._chunked(logits_of, hidden_KH, targets_K))
            return made[0]

        with asked_at(self._module, predictors_K, logprobs_of):
            output = model(**inputs)
        if self._plain is None:  # a model may scale or cap its logits, which are log-probabilities here
            self._plain = len(made) == 1 and torch.equal(output.logits.detach(), made[0].detach())
            if not self._plain:
                return self._from_logits(model, predictors_K, targets_K, inputs)
        return output.logits, output

    def _from_logits(
        self, model: Any, predictors_K: Tensor, targets_K: Tensor, inputs: Any
    ) -> tuple[Tensor, Any]:
        output = model(**inputs)
        return self._logprobs_of(output.logits.flatten(0, 1)[predictors_K], targets_K), output

    def _chunked(self, logits_of: Any, hidden_KH: Tensor, targets_K: Tensor) -> Tensor:
        def logprobs(hidden_KH: Tensor, targets_K: Tensor) -> Tensor:
            return self._logprobs_of(logits_of(hidden_KH), targets_K)

        logits = CHUNK_LOGITS if hidden_KH.device.type == "cpu" else CHUNK_LOGITS_ON_GPU
        size = max(1, logits // self._vocabulary)
        if len(targets_K) <= size:
            return logprobs(hidden_KH, targets_K)
        chunks = [
            (hidden_KH[start : start + size], targets_K[start : start + size])
            for start in range(0, len(targets_K), size)
        ]
        if torch.is_grad_enabled():
            return torch.cat([checkpoint(logprobs, *chunk, use_reentrant=False) for chunk in chunks])
        return torch.cat([logprobs(*chunk) for chunk in chunks])
