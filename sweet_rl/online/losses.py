"""The losses of ArCHer and their metrics: tensors in, tensors and numbers out.

Everything is kept by row, so that means and their sums are the same however rows are divided over micro-batches and processes.

Axes: B rows (utterances), T tokens of an utterance.

Published behaviour: docs/published/archer.md#critic-targets, #behaviour-cloning, #policy-loss, #one-update.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn

from sweet_rl.online.replay import Transition
from sweet_rl.training.checkpoints import Guard
from sweet_rl.training.processes import all_reduce_gradients, all_reduce_sum, clip_gradients, own_rows, rank


class CriticValues(NamedTuple):
    """What both members of both critics say about some rows, or their squared errors there; each as [B]."""

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


def td_targets(rewards_B: Tensor, bootstrap_mask_B: Tensor, next_values_B: Tensor, gamma: float) -> Tensor:
    """Targets of Q: the reward, plus the discounted value of what comes next where the mask is 1.

    Repaired: not where the world itself came to its end; published: not where the episode ended, time limits included.
    """
    return rewards_B + bootstrap_mask_B * gamma * next_values_B


def critic_losses(values: CriticValues, targets: CriticTargets) -> CriticValues:
    """The squared errors of Q1, Q2, V1 and V2 against their targets; the mean of their sum is the critic loss."""
    return CriticValues(*((value_B - y_B) ** 2 for value_B, y_B in zip(values, targets, strict=True)))


def advantages(values: CriticValues) -> Tensor:
    """A = min(Q1, Q2) - min(V1, V2) as [B]; as published they are used as they are."""
    return torch.minimum(values.q1_B, values.q2_B) - torch.minimum(values.v1_B, values.v2_B)


def baseline_losses(
    logps_BT: Tensor, values_BT: Tensor, mask_BT: Tensor, advantages_B: Tensor, *, over_padding: bool = False
) -> tuple[Tensor, Tensor, Tensor]:
    """REINFORCE token by token with a learnt baseline: losses of policy and values [B], and what is left of advantages [B, T].

    `over_padding` is the published mean of squared errors over all T places; repaired: over the row's own tokens.
    """
    residuals_BT = advantages_B[:, None] - values_BT
    policy_B = -(residuals_BT.detach() * logps_BT * mask_BT).sum(dim=1)
    squares_B = ((residuals_BT * mask_BT) ** 2).sum(dim=1)
    counts_B = mask_BT.sum(dim=1).clamp(min=1)
    value_B = squares_B / (mask_BT.shape[1] if over_padding else counts_B)
    return policy_B, value_B, residuals_BT


def clipped_losses(
    logps_BT: Tensor, old_logps_BT: Tensor, advantages_BT: Tensor, mask_BT: Tensor, clip_range: float
) -> Tensor:
    """PPO's loss by row, as [B]: sums over the tokens of the clipped surrogate (Schulman et al. 2017, eq. 7)."""
    ratio_BT = (logps_BT - old_logps_BT).exp()
    kept_BT = ratio_BT.clamp(1 - clip_range, 1 + clip_range)
    return -(torch.minimum(ratio_BT * advantages_BT, kept_BT * advantages_BT) * mask_BT).sum(dim=1)


def statistics(name: str, values: Tensor | None) -> dict[str, float]:
    """`name.mean .min .max .std` of a tensor, 0 where there is none; the unbiased deviation, 0 of one value."""
    flat = torch.zeros(1) if values is None else values.detach().flatten()
    spread = flat.std().item() if len(flat) > 1 else 0.0
    found = {"mean": flat.mean().item(), "min": flat.min().item(), "max": flat.max().item(), "std": spread}
    return {f"{name}.{key}": value for key, value in found.items()}


def critic_metrics(values: CriticValues, targets: CriticTargets, losses: CriticValues) -> dict[str, float]:
    """The 28 published numbers of one batch."""
    names = ("q1", "q2", "v1", "v2")
    info = {f"{name}.loss": loss_B.detach().mean().item() for name, loss_B in zip(names, losses, strict=True)}
    for name, values_B in zip(names, values, strict=True):
        info |= statistics(name, values_B)
    return info | statistics("target_q1", targets.tq1_B) | statistics("target_q2", targets.tq2_B)


def actor_metrics(
    losses_B: Tensor, advantages: Tensor, *, value_losses_B: Tensor | None = None, values: Tensor | None = None,
    residuals: Tensor | None = None,
) -> dict[str, float]:  # fmt: skip
    """The 14 published numbers of one batch."""
    return {
        "pg.loss": losses_B.detach().mean().item(),
        "values.loss": 0.0 if value_losses_B is None else value_losses_B.detach().mean().item(),
        **statistics("values", values),
        **statistics("advantages", advantages),
        **statistics("residual_advantages", residuals),
    }


def actor_metrics_of(table_5R: Tensor, batch_size: int) -> dict[str, float]:
    """Their means over the batches of a step: by row losses of policy and values, advantages, values, what is left."""
    return means(
        actor_metrics(policy_B, gains_B, value_losses_B=value_B, values=values_B, residuals=left_B)
        for policy_B, value_B, gains_B, values_B, left_B in torch.split(table_5R, batch_size, dim=1)
    )


def means(infos: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Key-wise means over micro-batches, as published."""
    gathered: dict[str, list[float]] = {}
    for info in infos:
        for key, value in info.items():
            gathered.setdefault(key, []).append(value)
    return {key: sum(found) / len(found) for key, found in gathered.items()}


@dataclass(frozen=True, slots=True)
class StepSettings:
    """Settings of one step."""

    batch_size: int
    gamma: float = 0.95
    tau: float = 0.1
    max_grad_norm: float = 1.0
    max_tokens_per_batch: int = 4096
    normalize_advantages: bool = False
    nonfinite_path: Path | None = None
    guards: dict[str, Guard] = field(default_factory=dict, init=False)


def step(
    optimizer: torch.optim.Optimizer, parameters: Sequence[nn.Parameter], losses: Tensor, numbers: Tensor,
    rows: Sequence[Transition], what: str, settings: StepSettings,
) -> None:  # fmt: skip
    """Add up gradients over processes, clip, step; but unless everything is finite keep the rows and raise."""
    all_reduce_gradients(parameters)
    norm = float(clip_gradients(parameters, settings.max_grad_norm))
    loss = float(losses.mean()) if numbers.isfinite().all() else math.nan
    kept, path = f"{len(rows)}, not kept", settings.nonfinite_path
    if path is not None and not (math.isfinite(loss) and math.isfinite(norm)):
        kept = f"the {len(rows)} in {str(path)!r}"
        if rank() == 0:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("".join(json.dumps(row.to_row()) + "\n" for row in rows), encoding="utf-8")
    tries = (
        "The newest checkpoint is from before it. Begin anew with a lower learning rate (lm_lr, critic_lr) or "
        "max_grad_norm, or with dtype=float32."
    )
    settings.guards.setdefault(what, Guard(f"the {what}", tries, unit="step")).check(loss, norm, kept)
    optimizer.step()


def of_all_rows(columns: Sequence[Tensor], count: int, model: nn.Module) -> Tensor:
    """Numbers of all rows of a step, as [len(columns), R], from what each process knows of its own."""
    device = next(model.parameters()).device
    table = torch.zeros(len(columns), count, device=device, dtype=columns[0].dtype)
    table[:, own_rows(count)] = torch.stack([column.to(device) for column in columns])
    return all_reduce_sum(table)
