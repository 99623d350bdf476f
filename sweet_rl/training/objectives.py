"""A batch's part of the loss and of the log: one objective for each kind of training.

Axis: B rows of a batch.

Published behaviour: docs/published/sweet_rl.md#reward-models.
"""

# ruff: noqa: N806, N815 - the names of tensors end in their axes

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from sweet_rl.training.batches import Batch, TextBatch, ValueBatch
from sweet_rl.training.forward import PairForward, ReadingForward, ValueForward
from sweet_rl.training.losses import pair_losses, value_losses
from sweet_rl.training.settings import LossSettings


class RowLosses(NamedTuple):
    """Sums over each row's units, so that any batching gives the same means.

    A unit is what counts alike in a step's mean: a pair, or a token of a text (`Encoded.weight`).
    """

    total_B: Tensor
    """What is minimised."""
    weight_B: Tensor
    """Units of each row."""
    numbers: Mapping[str, Tensor]
    """What is logged, as [B] each; `loss` among them."""
    aux: Tensor | None = None
    """A further loss of the whole batch, for each of its units."""


class Objective(Protocol):
    """A model and a micro-batch to its rows' losses."""

    def __call__(self, model: Any, batch: Any) -> RowLosses:
        """`model` may be wrapped for several processes."""
        ...


class PreferenceObjective:
    """A preference loss, named by the settings; the batch knows the reference's log-probabilities."""

    def __init__(self, model: Any, settings: LossSettings) -> None:
        self._settings = settings
        self._forward = PairForward(model, aux_loss=settings.aux_loss_coef > 0)

    def __call__(self, model: Any, batch: Batch) -> RowLosses:
        """One unit for each pair."""
        settings = self._settings
        logps, aux = self._forward(model, batch)
        reference_chosen_B, reference_rejected_B = batch["reference_SB"]
        losses = pair_losses(logps, reference_chosen_B, reference_rejected_B, settings)
        numbers = {"total_loss": losses.total_B, "loss": losses.preference_B, "acc": losses.accuracy_B}
        numbers |= {"chosen_reward": losses.chosen_reward_B, "reject_reward": losses.rejected_reward_B}
        numbers["reward_margin"] = losses.margin_B
        if settings.nll_loss_coef:
            numbers["nll_loss"] = losses.nll_B
        aux = None if aux is None else settings.aux_loss_coef * aux
        return RowLosses(losses.total_B, torch.ones_like(losses.total_B), numbers, aux)


class ImitationObjective:
    """Negative log-likelihood of the agent's tokens; each token is a unit."""

    def __init__(self, model: Any, *, aux_loss_coef: float = 0.0) -> None:
        self._coefficient = aux_loss_coef
        self._forward = ReadingForward(model, aux_loss=aux_loss_coef > 0)

    def __call__(self, model: Any, batch: TextBatch) -> RowLosses:
        """One unit for each token to imitate."""
        logps_B, aux = self._forward(model, batch, len(batch["units_B"]))
        nll_B = -logps_B
        aux = None if aux is None else self._coefficient * aux
        return RowLosses(nll_B, batch["units_B"], {"loss": nll_B}, aux)


class CriticObjective:
    """A regression head that is to give the chosen side the larger value."""

    def __init__(self, model: Any, settings: LossSettings, *, mean: bool) -> None:
        self._settings = settings
        self._forward = ValueForward(model, mean=mean)

    def __call__(self, model: Any, batch: ValueBatch) -> RowLosses:
        """One unit for each pair."""
        values_S = self._forward(model, batch["ids_ST"], batch["attention_ST"], batch)
        chosen_B, rejected_B = values_S.chunk(2)
        loss_B = value_losses(chosen_B, rejected_B, self._settings)
        numbers = {"loss": loss_B, "acc": (chosen_B > rejected_B).float()}
        numbers |= {"chosen_reward": chosen_B, "reject_reward": rejected_B}
        numbers["reward_margin"] = chosen_B - rejected_B
        return RowLosses(loss_B, torch.ones_like(loss_B), numbers)
