"""The preference losses (spec §9.3, §9.5): tensors in, losses and rewards out, nothing else.

Axis: B pairs.
"""

# ruff: noqa: N803, N806, N815 - the names of tensors end in their axes

from __future__ import annotations

from typing import NamedTuple, assert_never

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from sweet_rl.training.settings import LossSettings, RankingLoss


class PairLogps(NamedTuple):
    """Log-probabilities of both responses, reduced to one number each, and the chosen one's NLL per token."""

    chosen_B: Tensor
    rejected_B: Tensor
    nll_B: Tensor


class PairLosses(NamedTuple):
    """What each pair contributes; nothing is averaged yet, so that any batching gives the same means."""

    total_B: Tensor
    preference_B: Tensor
    nll_B: Tensor
    chosen_reward_B: Tensor
    rejected_reward_B: Tensor
    accuracy_B: Tensor


def pair_losses(
    policy: PairLogps, reference_chosen_B: Tensor, reference_rejected_B: Tensor, settings: LossSettings
) -> PairLosses:
    """DPO's sigmoid loss, with label smoothing, or IPO's square; plus the chosen response's NLL.

    With h the policy's log-ratio minus the reference's: -log sigma(beta h) (1 - s) - log sigma(-beta h) s, or
    (h - 1/(2 beta))^2. Rewards are beta (policy - reference); accuracy is 1 where the chosen one's is larger.
    """
    beta, smoothing = settings.beta, settings.label_smoothing
    h_B = (policy.chosen_B - policy.rejected_B) - (reference_chosen_B - reference_rejected_B)
    if settings.ipo:
        preference_B = (h_B - 1 / (2 * beta)) ** 2
    else:
        preference_B = -logsigmoid(beta * h_B) * (1 - smoothing) - logsigmoid(-beta * h_B) * smoothing
    chosen_reward_B = beta * (policy.chosen_B - reference_chosen_B).detach()
    rejected_reward_B = beta * (policy.rejected_B - reference_rejected_B).detach()
    total_B = preference_B
    if settings.nll_loss_coef:
        total_B = total_B + settings.nll_loss_coef * policy.nll_B
    accuracy_B = (chosen_reward_B > rejected_reward_B).to(torch.float32)
    return PairLosses(total_B, preference_B, policy.nll_B, chosen_reward_B, rejected_reward_B, accuracy_B)


def ranking_losses(chosen_B: Tensor, rejected_B: Tensor, loss: RankingLoss) -> Tensor:
    """How far a critic's values are from preferring the chosen side (spec §9.5).

    sigmoid is -log sigma(c - r), logexp log(1 + exp(r - c)) as it stands there: the same number, which in the
    second form overflows when r - c is large.
    """
    if loss == "logexp":
        return torch.log(1 + torch.exp(rejected_B - chosen_B))
    if loss == "sigmoid":
        return -logsigmoid(chosen_B - rejected_B)
    assert_never(loss)
