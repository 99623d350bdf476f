"""Losses and learning rates against numbers written out by hand."""

import math

import pytest
import torch

from sweet_rl.errors import UsageError
from sweet_rl.training.losses import PairLogps, pair_losses
from sweet_rl.training.schedule import rate_factor
from sweet_rl.training.settings import LossSettings


def losses(settings, chosen=-4.0, rejected=-7.0, reference=(-5.0, -6.0), nll=2.0):
    policy = PairLogps(*(torch.tensor([value]) for value in (chosen, rejected, nll)))
    return pair_losses(policy, *(torch.tensor([value]) for value in reference), settings)


def test_sigmoid_loss():
    result = losses(LossSettings(beta=0.5))  # h = 3 - 1 = 2, so -log sigma(1)
    assert result.preference_B.item() == pytest.approx(0.3132617, abs=1e-6)
    assert result.chosen_reward_B.item() == 0.5
    assert result.rejected_reward_B.item() == -0.5
    assert result.accuracy_B.item() == 1
    assert result.total_B.item() == result.preference_B.item()


def test_label_smoothing_and_nll():
    result = losses(LossSettings(beta=0.5, label_smoothing=0.1, nll_loss_coef=0.25))
    # 0.9 * 0.3132617 + 0.1 * 1.3132617, and 0.25 * 2
    assert result.total_B.item() == pytest.approx(0.4132617 + 0.5, abs=1e-6)


def test_ipo():
    assert losses(LossSettings(name="ipo", beta=0.5)).preference_B.item() == pytest.approx(1.0)  # (2 - 1)^2


def test_a_tie_is_not_accurate():
    assert losses(LossSettings(), chosen=-5.0, rejected=-6.0).accuracy_B.item() == 0


def test_an_nll_that_is_not_a_number_hurts_only_where_it_counts():
    assert losses(LossSettings(), nll=math.nan).total_B.isfinite().all()
    assert losses(LossSettings(nll_loss_coef=0.1), nll=math.nan).total_B.isnan().all()


def test_rates():
    published = rate_factor("cosine_with_floor", steps=6, warmup_ratio=0.03, published=True)
    assert [published(update) for update in (0, 1, 6)] == [0.0, 1.0, pytest.approx(0.1)]
    fixed = rate_factor("cosine_with_floor", steps=10, warmup_ratio=0.25, published=False)
    assert [fixed(update) for update in range(4)] == [0.25, 0.5, 0.75, 1.0]
    linear = rate_factor("linear", steps=4, warmup_ratio=0, published=False)
    assert [linear(update) for update in range(4)] == [1.0, 0.75, 0.5, 0.25]
    with pytest.raises(UsageError, match="must be one of cosine_with_floor, linear, constant"):
        rate_factor("cubic", steps=4, warmup_ratio=0, published=False)
