"""Log-probabilities of tokens under a causal model. Importing this module imports torch.

Axes: B sequences, T positions, V vocabulary.

Published behaviour: docs/published/sweet_rl.md#in-training.
"""

# ruff: noqa: N803, N806 - the names of tensors end in their axes

from __future__ import annotations

from torch import Tensor


def next_logprobs(logits_BTV: Tensor, next_ids_BT: Tensor) -> Tensor:
    """Log-probability under each position's logits of the token that follows it, as [B, T], in float32.

    Computed as the token's logit minus log-sum-exp: the full table of log-probabilities, which is the
    published code's memory peak, is never made.
    """
    logits_BTV = logits_BTV.float()
    return logits_BTV.gather(-1, next_ids_BT[..., None])[..., 0] - logits_BTV.logsumexp(dim=-1)
