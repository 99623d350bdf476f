"""Log-probabilities of tokens under a causal model. Importing this module imports torch.

Axes: B sequences, T positions, V vocabulary.
"""

# ruff: noqa: N803, N806 - the names of tensors end in their axes

from __future__ import annotations

import torch
from torch import Tensor


def token_logprobs(logits_BTV: Tensor, ids_BT: Tensor) -> Tensor:
    """Log-probability of each token given those before it, as [B, T]; position 0 has none and is 0.

    Computed as the token's logit minus log-sum-exp in float32: the full table of log-probabilities, which is
    the published code's memory peak, is never made (spec §11.5, item 77).
    """
    return torch.nn.functional.pad(next_logprobs(logits_BTV[:, :-1], ids_BT[:, 1:]), (1, 0))


def next_logprobs(logits_BTV: Tensor, next_ids_BT: Tensor) -> Tensor:
    """Log-probability under each position's logits of the token that follows it, as [B, T], in float32."""
    logits_BTV = logits_BTV.float()
    return logits_BTV.gather(-1, next_ids_BT[..., None])[..., 0] - logits_BTV.logsumexp(dim=-1)


def reduce_logprobs(logprobs_BT: Tensor, mask_BT: Tensor, *, mean: bool) -> Tensor:
    """Sum or mean over the masked positions of each sequence, as [B]; 0 for a row without any."""
    mask_BT = mask_BT.to(logprobs_BT.dtype)
    sums_B = (logprobs_BT * mask_BT).sum(dim=-1)
    return sums_B / mask_BT.sum(dim=-1).clamp(min=1) if mean else sums_B
