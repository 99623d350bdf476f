"""Losses: tensors in, tensors out. Q values are costs.

Axes: S steps, T tokens that were written in a step.

Published behaviour: docs/published/reflect_rl.md#losses, #episodes.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from sweet_rl.policies.decoding import keep_likeliest, keep_nucleus

VALUE_SCALE = 100.0
"""The critic's squared error is that of costs divided by this."""


def q_values(costs: Sequence[float], entropies: Sequence[float], entropy_coef: float = 0.0) -> list[float]:
    """The remaining cost from each step of an episode on, undiscounted.

    Q_t = sum over u >= t of (cost_u - entropy_coef x entropy_u). Entropy is a constant here: no gradient.
    """
    found: list[float] = []
    to_come = 0.0
    for cost, entropy in zip(reversed(costs), reversed(entropies), strict=True):
        to_come += cost - entropy_coef * entropy
        found.append(to_come)
    return found[::-1]


def advantages(q_S: Tensor, values_S: Tensor | None = None) -> Tensor:
    """How much worse than expected each step turned out; without a critic nothing is expected."""
    return q_S if values_S is None else q_S - values_S


def policy_gradient_loss(logps_S: Tensor, advantages_S: Tensor) -> Tensor:
    """Sum over steps of log pi(action) x advantage; a mean is this over the number of steps.

    Args:
        logps_S: log-probabilities of what was written, summed over its tokens; with gradients.
        advantages_S: constants.
    """
    return (logps_S * advantages_S).sum()


def ppo_loss(logps_S: Tensor, old_logps_S: Tensor, advantages_S: Tensor, clip: float) -> Tensor:
    """Sum over steps of PPO's clipped loss, whose advantages are gains: minus ours."""
    ratio_S = torch.exp(logps_S - old_logps_S)
    gains_S = -advantages_S
    clipped_S = ratio_S.clamp(1 - clip, 1 + clip)
    return -torch.minimum(ratio_S * gains_S, clipped_S * gains_S).sum()


def value_loss(q_S: Tensor, values_S: Tensor) -> Tensor:
    """Sum over steps of the squared error, in hundreds; a mean is this over the number of steps."""
    return (((q_S - values_S) / VALUE_SCALE) ** 2).sum()


def entropy_of(logps_SV: Tensor) -> Tensor:
    """Entropy of distributions given as log-probabilities, in nats; impossible tokens add nothing."""
    return -(logps_SV.exp() * logps_SV.masked_fill(logps_SV == -torch.inf, 0.0)).sum(dim=-1)


def sampling_logps(logits_SV: Tensor, *, temperature: float, top_k: int, top_p: float) -> Tensor:
    """The distribution that is sampled from, as log-probabilities; excluded tokens have -inf.

    First the temperature, then the `top_k` likeliest, then the fewest of these that have `top_p` together.
    """
    logps_SV = logits_SV.float() / temperature
    every_S = logps_SV.new_ones(len(logps_SV))
    logps_SV = keep_likeliest(logps_SV, top_k * every_S.long())
    return keep_nucleus(logps_SV, top_p * every_S, every_S).log_softmax(dim=-1)
