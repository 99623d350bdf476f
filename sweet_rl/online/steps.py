"""The optimizer step: gradients of all processes, clipped; a step with non-finite gradients is skipped.

Importing this module imports torch.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor, nn

from sweet_rl.online.distributed.collectives import all_reduce_gradients, all_reduce_sum, own_rows, rank
from sweet_rl.online.distributed.fsdp import clip_gradients
from sweet_rl.training.metrics import Guard
from sweet_rl.types import Json


class Row(Protocol):
    """What can be kept on disk when its loss is not finite."""

    def to_row(self) -> dict[str, Json]:
        """The row as a JSON object, as it is written when a loss is not finite."""
        ...


@dataclass(frozen=True, slots=True)
class StepSettings:
    """Settings of one step.

    Attributes:
        batch_size: rows of a mean (B).
        gamma: discount.
        tau: of Polyak averaging.
        max_grad_norm: gradients are clipped to it.
        max_tokens_per_batch: tokens of a micro-batch with gradients; four times as many without.
        normalize_advantages: give the advantages of a step mean 0 and deviation 1.
        nonfinite_path: where the rows of a step that fails are kept; None keeps none.
        guards: what steps are watched by, for each thing that is trained.
    """

    batch_size: int
    gamma: float = 0.95
    tau: float = 0.1
    max_grad_norm: float = 1.0
    max_tokens_per_batch: int = 4096
    normalize_advantages: bool = False
    nonfinite_path: Path | None = None
    guards: dict[str, Guard] = field(default_factory=dict)


def step(
    optimizer: torch.optim.Optimizer,
    parameters: Sequence[nn.Parameter],
    losses: Tensor,
    numbers: Tensor,
    rows: Sequence[Row],
    what: str,
    settings: StepSettings,
) -> None:
    """Add up gradients over processes, clip, step; but nothing unless everything is finite."""
    all_reduce_gradients(parameters)
    norm = float(clip_gradients(parameters, settings.max_grad_norm))
    guard = settings.guards.setdefault(what, Guard(f"the {what}", _TRIES, unit="step"))
    finite = bool(numbers.isfinite().all())
    loss = float(losses.mean()) if finite else math.nan
    kept = "" if finite and math.isfinite(norm) else _keep(rows, settings.nonfinite_path)
    guard.check(loss, norm, kept)
    optimizer.step()


_TRIES = (
    "The newest checkpoint is from before it. Begin anew with a lower learning rate (lm_lr, critic_lr) or "
    "max_grad_norm, or with dtype=float32."
)


def of_all_rows(columns: Sequence[Tensor], count: int, model: nn.Module) -> Tensor:
    """Numbers of all rows of a step, as [len(columns), R], from what each process knows of its own."""
    device = next(model.parameters()).device
    table = torch.zeros(len(columns), count, device=device, dtype=columns[0].dtype)
    table[:, own_rows(count)] = torch.stack([column.to(device) for column in columns])
    return all_reduce_sum(table)


def _keep(rows: Sequence[Row], path: Path | None) -> str:
    """Write the rows as JSON Lines; returns where they are."""
    if path is None:
        return f"{len(rows)}, not kept"
    if rank() == 0:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps(row.to_row()) + "\n" for row in rows), encoding="utf-8")
    return f"the {len(rows)} in {str(path)!r}"
