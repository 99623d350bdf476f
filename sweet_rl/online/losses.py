"""The losses of ArCHer and their metrics: tensors in, tensors and numbers out.

Everything is kept by row, so that a mean over B rows and a sum over G such means come out the same however
the rows are divided over micro-batches and processes. Importing this module imports torch.

Axes: B rows (utterances), T tokens of an utterance.

Published behaviour: docs/published/archer.md#critic-targets, #behaviour-cloning, #policy-loss, #one-update.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import torch
from torch import Tensor

STATISTICS = ("mean", "min", "max", "std")


class CriticValues(NamedTuple):
    """What both members of both critics say about some rows, each as [B]."""

    q1_B: Tensor
    q2_B: Tensor
    v1_B: Tensor
    v2_B: Tensor


class CriticTargets(NamedTuple):
    """What the critics are regressed on, each as [B]: y_i for Q_i, the target critic's Q_i for V_i."""

    y1_B: Tensor
    y2_B: Tensor
    tq1_B: Tensor
    tq2_B: Tensor


class CriticLosses(NamedTuple):
    """Squared errors by row, each as [B]."""

    q1_B: Tensor
    q2_B: Tensor
    v1_B: Tensor
    v2_B: Tensor

    @property
    def total_B(self) -> Tensor:
        """Their unweighted sum; its mean is the critic loss."""
        return self.q1_B + self.q2_B + self.v1_B + self.v2_B


def td_targets(rewards_B: Tensor, bootstrap_mask_B: Tensor, next_values_B: Tensor, gamma: float) -> Tensor:
    """Targets of Q: the reward, plus the discounted value of what comes next where something does.

    Args:
        bootstrap_mask_B: 1 where the target bootstraps, 0 where it does not. Repaired: unless the world
            itself came to its end; published: unless the episode ended, time limits included.
        next_values_B: the target critic's V_i of the next observation; member i bootstraps from member i.
    """
    return rewards_B + bootstrap_mask_B * gamma * next_values_B


def critic_losses(values: CriticValues, targets: CriticTargets) -> CriticLosses:
    """The squared errors of Q1, Q2, V1 and V2 against their targets, each [B]."""
    return CriticLosses(
        (values.q1_B - targets.y1_B) ** 2,
        (values.q2_B - targets.y2_B) ** 2,
        (values.v1_B - targets.tq1_B) ** 2,
        (values.v2_B - targets.tq2_B) ** 2,
    )


def advantages(values: CriticValues) -> Tensor:
    """A = min(Q1, Q2) - min(V1, V2) as [B]; as published they are used as they are."""
    return torch.minimum(values.q1_B, values.q2_B) - torch.minimum(values.v1_B, values.v2_B)


def normalized(advantages_R: Tensor) -> Tensor:
    """Advantages of all rows of a step with mean 0 and deviation 1, as [R]; one row alone keeps its own."""
    if len(advantages_R) < 2:
        return advantages_R
    return (advantages_R - advantages_R.mean()) / (advantages_R.std() + 1e-8)


def policy_gradient_losses(logps_B: Tensor, advantages_B: Tensor) -> Tensor:
    """REINFORCE by row, as [B]: minus the utterance's log-probability, weighted by its advantage."""
    return -logps_B * advantages_B


class BaselineLosses(NamedTuple):
    """With a value for each token: losses by row, each as [B], and the rest of the advantage [B, T]."""

    policy_B: Tensor
    value_B: Tensor
    residuals_BT: Tensor


def baseline_losses(
    logps_BT: Tensor,
    values_BT: Tensor,
    mask_BT: Tensor,
    advantages_B: Tensor,
    *,
    over_padding: bool = False,
) -> BaselineLosses:
    """REINFORCE token by token with a learnt baseline.

    Args:
        over_padding: the published mean of squared errors, over all T places, which depends on the longest
            utterance of the batch. Repaired: over the row's own tokens.
    """
    residuals_BT = advantages_B[:, None] - values_BT
    policy_B = -(residuals_BT.detach() * logps_BT * mask_BT).sum(dim=1)
    squares_B = ((residuals_BT * mask_BT) ** 2).sum(dim=1)
    counts_B = mask_BT.sum(dim=1).clamp(min=1)
    value_B = squares_B / (mask_BT.shape[1] if over_padding else counts_B)
    return BaselineLosses(policy_B, value_B, residuals_BT)


def clipped_losses(
    logps_BT: Tensor, old_logps_BT: Tensor, advantages_BT: Tensor, mask_BT: Tensor, clip_range: float
) -> Tensor:
    """PPO's loss by row, as [B]: sums over the tokens of the clipped surrogate (Schulman et al. 2017, eq. 7)."""
    ratio_BT = (logps_BT - old_logps_BT).exp()
    kept_BT = ratio_BT.clamp(1 - clip_range, 1 + clip_range)
    return -(torch.minimum(ratio_BT * advantages_BT, kept_BT * advantages_BT) * mask_BT).sum(dim=1)


def imitation_losses(logps_B: Tensor) -> Tensor:
    """Behaviour cloning by row, as [B]: minus the log-probability of the action."""
    return -logps_B


def statistics(name: str, values: Tensor) -> dict[str, float]:
    """`name.mean .min .max .std` of a tensor; the unbiased deviation, 0 where there is one value only."""
    flat = values.detach().flatten()
    spread = flat.std().item() if len(flat) > 1 else 0.0
    found = (flat.mean().item(), flat.min().item(), flat.max().item(), spread)
    return {f"{name}.{key}": value for key, value in zip(STATISTICS, found, strict=True)}


def critic_metrics(values: CriticValues, targets: CriticTargets, losses: CriticLosses) -> dict[str, float]:
    """The 28 published numbers of one batch."""
    info = {
        f"{name}.loss": loss_B.detach().mean().item()
        for name, loss_B in zip(("q1", "q2", "v1", "v2"), losses, strict=True)
    }
    for name, values_B in zip(("q1", "q2", "v1", "v2"), values, strict=True):
        info |= statistics(name, values_B)
    return info | statistics("target_q1", targets.tq1_B) | statistics("target_q2", targets.tq2_B)


def actor_metrics(
    losses_B: Tensor,
    advantages: Tensor,
    *,
    value_losses_B: Tensor | None = None,
    values: Tensor | None = None,
    residuals: Tensor | None = None,
) -> dict[str, float]:
    """The 14 published numbers of one batch.

    Args:
        advantages: of the critics, in any shape (with a baseline the published ones are over tokens).
        value_losses_B: of the baseline; None, as the other two, without one: their numbers are 0 then.
        residuals: advantages less the baseline's values, in any shape.
    """
    nothing = torch.zeros(1)
    return {
        "pg.loss": losses_B.detach().mean().item(),
        "values.loss": 0.0 if value_losses_B is None else value_losses_B.detach().mean().item(),
        **statistics("values", nothing if values is None else values),
        **statistics("advantages", advantages),
        **statistics("residual_advantages", nothing if residuals is None else residuals),
    }


def means(infos: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Key-wise means over micro-batches, as published."""
    gathered: dict[str, list[float]] = {}
    for info in infos:
        for key, value in info.items():
            gathered.setdefault(key, []).append(value)
    return {key: sum(found) / len(found) for key, found in gathered.items()}
