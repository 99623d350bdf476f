"""Preference losses by name: tensors in, one number for each pair out.

A loss is a function `loss(pairs: ScoredPairs, settings: LossSettings) -> Tensor` of shape [B]. `LOSSES` knows
ours, those of installed packages (entry points of the group "sweet_rl.losses") and `module:FUNCTION`.

Axis: B pairs. In the formulas c and r are the log-probabilities of the chosen and of the rejected response
under the policy, c' and r' those under the reference, h = (c - r) - (c' - r'), s = `label_smoothing`, and
sigma is the logistic function.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, TypeVar

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid, relu

from sweet_rl import tracking
from sweet_rl.errors import SweetRLError, UsageError
from sweet_rl.plugins import Registry
from sweet_rl.training.settings import LossSettings, Reduction


@dataclass(frozen=True, slots=True)
class ScoredPairs:
    """What a loss is given: log-probabilities in float32, [B] each, reduced as `settings.reduction` says.

    Only the policy's have gradients. A critic with a regression head has its values there, and a reference
    of zeros.
    """

    chosen_B: Tensor
    rejected_B: Tensor
    reference_chosen_B: Tensor
    reference_rejected_B: Tensor

    @property
    def h_B(self) -> Tensor:
        """How much more than the reference the policy prefers the chosen response: (c - r) - (c' - r')."""
        return (self.chosen_B - self.rejected_B) - (self.reference_chosen_B - self.reference_rejected_B)


# One number for each pair, [B], that depends on this pair only.
Loss = Callable[[ScoredPairs, LossSettings], Tensor]

_OURS = ("sigmoid", "sigmoid_norm", "ipo", "hinge", "robust", "logexp")
LOSSES = Registry(
    group="sweet_rl.losses",
    kind="preference loss",
    ours={"dpo": f"{__name__}:sigmoid"} | {name: f"{__name__}:{name}" for name in _OURS},
)
AnyLoss = TypeVar("AnyLoss", bound=LossSettings)
_REDUCTIONS: Final[dict[str, Reduction]] = {
    "none": "sum", "false": "sum", "trajectory": "trajectory", "true": "trajectory", "turn": "turn",
}  # fmt: skip


def of_means(loss: Loss) -> Loss:
    """A decorator: the loss is given means over the response's tokens in place of sums."""
    loss.reduction = "trajectory"  # type: ignore[attr-defined]
    return loss


def sigmoid(pairs: ScoredPairs, settings: LossSettings) -> Tensor:
    """DPO: -(1 - s) log sigma(beta h) - s log sigma(-beta h).

    Rafailov et al. 2023, arXiv 2305.18290, equation 7; with s, the share of labels assumed to be wrong:
    Mitchell 2023, "A note on DPO with noisy preferences". A pair pulls with beta sigma(-beta h): a larger beta
    keeps the policy nearer to the reference. Also the loss of `sigmoid_norm`, `train_reward_model` and
    `--compat published`: what train_dpo does by default is named in `LossSettings`; a term of every loss is added in `pair_losses`.
    """
    logits_B = settings.beta * pairs.h_B
    smoothing = settings.label_smoothing
    return -logsigmoid(logits_B) * (1 - smoothing) - logsigmoid(-logits_B) * smoothing


@of_means
def sigmoid_norm(pairs: ScoredPairs, settings: LossSettings) -> Tensor:
    """DPO on means: as `sigmoid`, with c, r, c' and r' divided by the number of their response's tokens.

    What SWEET-RL's critic learns by (Zhou et al. 2025, arXiv 2503.15478: the advantage of a turn is a mean of
    log-ratios), and the same as `sigmoid` with `--mean_log_prob`. A mean is as much smaller than a sum as
    responses are long, so the same beta holds the policy less.
    """
    return sigmoid(pairs, settings)


def ipo(pairs: ScoredPairs, settings: LossSettings) -> Tensor:
    """IPO: (h - 1 / (2 beta))^2.

    Azar et al. 2023, arXiv 2310.12036, equation 17, where beta is called tau. 1 / (2 beta) is the h at which
    a pair is content; beyond it the pair pulls back, so h does not grow without end where all labels agree.
    """
    return (pairs.h_B - 1 / (2 * settings.beta)) ** 2


def hinge(pairs: ScoredPairs, settings: LossSettings) -> Tensor:
    """Hinge: max(0, 1 - beta h).

    Zhao et al. 2023 (SLiC-HF), arXiv 2305.10425; with a reference in h: Liu et al. 2023 (RSO), arXiv
    2309.06657. All pairs below h = 1 / beta pull equally, with beta; those beyond do not pull at all.
    """
    return relu(1 - settings.beta * pairs.h_B)


def robust(pairs: ScoredPairs, settings: LossSettings) -> Tensor:
    """Robust DPO: (-(1 - s) log sigma(beta h) + s log sigma(-beta h)) / (1 - 2 s).

    Chowdhury et al. 2024, arXiv 2403.00409: where a share s of the labels is wrong, its mean is that of DPO
    on the right ones. It can be negative. With s = 0 it is `sigmoid`; beta does what it does there.
    """
    smoothing = settings.label_smoothing
    if smoothing >= 0.5:
        raise UsageError(f"--label_smoothing must be below 0.5 with the loss robust, got {smoothing}.")
    logits_B = settings.beta * pairs.h_B
    weighted_B = -logsigmoid(logits_B) * (1 - smoothing) + logsigmoid(-logits_B) * smoothing
    return weighted_B / (1 - 2 * smoothing)


def logexp(pairs: ScoredPairs, settings: LossSettings) -> Tensor:
    """log(1 + exp(-beta h)) without a stable form: equals `sigmoid`, but overflows for large -beta h.

    The other loss of the published critic with a regression head (Ouyang et al. 2022, arXiv 2203.02155,
    equation 1, in another form), where beta is 1.
    """
    return torch.log(1 + torch.exp(-settings.beta * pairs.h_B))


def check_loss(settings: AnyLoss) -> AnyLoss:
    """The settings with their loss and its reduction, after a trial on three pairs of numbers.

    The run's record names the file of a loss that is not ours.
    """
    if settings.ipo and settings.loss not in {None, "ipo"}:
        raise UsageError(f"--ipo and --loss {settings.loss} name two losses; leave one of them out.")
    reduction = _REDUCTIONS.get(settings.mean_log_prob.lower())
    if reduction is None:
        given = settings.mean_log_prob
        raise UsageError(f"--mean_log_prob must be none, trajectory or turn, got {given!r}.")
    loss: Loss = LOSSES.find(settings.loss_name)
    wanted = getattr(loss, "reduction", reduction)
    if wanted != reduction and reduction != "sum":
        given = settings.mean_log_prob
        raise UsageError(f"--loss {settings.loss_name} is of another mean than --mean_log_prob {given}.")
    if settings.label_smoothing and settings.loss_name in {"ipo", "hinge", "logexp"}:
        name, share = settings.loss_name, settings.label_smoothing
        raise UsageError(f"--label_smoothing has no effect on the loss {name}, got {share}.")
    found = replace(settings, loss=settings.loss_name, reduction=wanted)
    if settings.loss_name not in LOSSES.ours:
        with suppress(TypeError):  # something callable that is no function
            tracking.reads("loss", inspect.getsourcefile(loss))
    policy = [torch.tensor(values, requires_grad=True) for values in ([-4.0, -9.0, -2.0], [-7.0, -3.0, -2.5])]
    sides = [*policy, *(torch.tensor(values) for values in ([-5.0, -6.0, -2.0], [-6.0, -5.0, -3.0]))]
    try:
        loss_B = loss(ScoredPairs(*sides), found)
        alone = [loss(ScoredPairs(*(side[i : i + 1] for side in sides)), found) for i in range(3)]
    except SweetRLError:
        raise
    except Exception as error:
        raise _no_loss(settings, f"fails on three pairs: {type(error).__name__}: {error}") from error
    if not isinstance(loss_B, Tensor) or loss_B.shape != (3,):
        got = f"shape {list(loss_B.shape)}" if isinstance(loss_B, Tensor) else type(loss_B).__name__
        raise _no_loss(settings, f"gives {got} for three pairs")
    if not loss_B.requires_grad:
        raise _no_loss(settings, "has no gradient: nothing would be learned")
    if not torch.allclose(loss_B, torch.cat(alone), rtol=1e-4, equal_nan=True):
        raise _no_loss(settings, "gives a pair another number when other pairs are in the batch")
    return found


def _no_loss(settings: LossSettings, problem: str) -> UsageError:
    return UsageError(
        f"The preference loss {settings.loss_name!r} {problem}. It must be a function of (pairs, settings) that "
        "gives one number for each pair (docs/train_offline.md#your-own-loss)."
    )


class PairLogps(NamedTuple):
    """Log-probabilities of both responses, reduced to one number each, and the chosen one's NLL per token."""

    chosen_B: Tensor
    rejected_B: Tensor
    nll_B: Tensor


class PairLosses(NamedTuple):
    """What each pair contributes; nothing is averaged yet."""

    total_B: Tensor
    preference_B: Tensor
    nll_B: Tensor
    chosen_reward_B: Tensor
    rejected_reward_B: Tensor
    accuracy_B: Tensor

    @property
    def margin_B(self) -> Tensor:
        """How much larger the chosen response's reward is."""
        return self.chosen_reward_B - self.rejected_reward_B


def pair_losses(
    policy: PairLogps, reference_chosen_B: Tensor, reference_rejected_B: Tensor, settings: LossSettings
) -> PairLosses:
    """The loss that the settings name, plus the chosen response's NLL.

    Rewards are beta (policy - reference), whatever the loss (equation 5 of DPO, up to what both share);
    accuracy is 1 where the chosen one's is larger.
    """
    loss: Loss = LOSSES.find(settings.loss_name)
    pairs = ScoredPairs(policy.chosen_B, policy.rejected_B, reference_chosen_B, reference_rejected_B)
    preference_B = loss(pairs, settings)
    chosen_reward_B = settings.beta * (policy.chosen_B - reference_chosen_B).detach()
    rejected_reward_B = settings.beta * (policy.rejected_B - reference_rejected_B).detach()
    total_B = preference_B
    if settings.nll_loss_coef:
        total_B = total_B + settings.nll_loss_coef * policy.nll_B
    accuracy_B = (chosen_reward_B > rejected_reward_B).to(torch.float32)
    return PairLosses(total_B, preference_B, policy.nll_B, chosen_reward_B, rejected_reward_B, accuracy_B)


def value_losses(chosen_B: Tensor, rejected_B: Tensor, settings: LossSettings) -> Tensor:
    """How far a critic's values are from preferring the chosen side: the loss, with a reference of zeros."""
    loss: Loss = LOSSES.find(settings.loss_name)
    nothing_B = torch.zeros_like(chosen_B)
    return loss(ScoredPairs(chosen_B, rejected_B, nothing_B, nothing_B), settings)
