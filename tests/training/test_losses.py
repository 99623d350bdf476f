"""Losses and learning rates against numbers written out by hand."""

import math

import pytest
import torch

from sweet_rl.errors import UsageError
from sweet_rl.training.losses import LOSSES, PairLogps, check_loss, pair_losses, reduction_of
from sweet_rl.training.settings import LossSettings
from sweet_rl.training.steps import rate_factor
from tests.conftest import ROOT


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


@pytest.mark.parametrize(
    ("name", "smoothing", "value"),
    [
        ("sigmoid", 0.0, 0.3132617),  # h = 2, so -log sigma(1)
        ("dpo", 0.0, 0.3132617),
        ("sigmoid_norm", 0.1, 0.4132617),  # 0.9 * 0.3132617 + 0.1 * 1.3132617; the means are made before
        ("ipo", 0.0, 1.0),  # (2 - 1)^2
        ("hinge", 0.0, 0.0),  # 1 - 0.5 * 2
        ("robust", 0.1, 0.1882617),  # (0.9 * 0.3132617 - 0.1 * 1.3132617) / 0.8
        ("logexp", 0.0, 0.3132617),
    ],
)
def test_every_loss_by_hand(name, smoothing, value):
    settings = LossSettings(name=name, beta=0.5, label_smoothing=smoothing)
    assert losses(settings).preference_B.item() == pytest.approx(value, abs=1e-6)
    check_loss(settings)


def test_a_hinge_pulls_until_h_is_one_over_beta():
    assert losses(LossSettings(name="hinge", beta=0.25)).preference_B.item() == pytest.approx(0.5)


def test_each_loss_says_where_it_is_from_and_what_beta_does():
    for name in LOSSES.ours:
        words = LOSSES.find(name).__doc__
        assert "arXiv" in words, name
        assert f"`{name}`" in (ROOT / "docs/losses.md").read_text()
        assert "beta" in words.partition("\n")[2] or name == "logexp", name


def test_the_margin_is_the_difference_of_the_rewards():
    assert losses(LossSettings(beta=0.5)).margin_B.item() == 1.0


def test_what_has_no_meaning_is_refused():
    for name in ("ipo", "hinge", "logexp"):
        with pytest.raises(UsageError, match=f"--label_smoothing has no effect on the loss {name}, got 0.1"):
            check_loss(LossSettings(name=name, label_smoothing=0.1))
    with pytest.raises(UsageError, match=r"below 0\.5 with the loss robust, got 0\.5"):
        check_loss(LossSettings(name="robust", label_smoothing=0.5))
    with pytest.raises(TypeError):
        LossSettings(0.1)  # a field more would shift all others


def centred(pairs, settings):
    return -(pairs.h_B - pairs.h_B.mean())


def summed(pairs, settings):
    return -pairs.h_B.sum()


def frozen(pairs, settings):
    return -pairs.h_B.detach()


def forgetful(pairs):
    return -pairs.h_B


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        ("centred", "another number when other pairs are in the batch"),
        ("summed", r"gives shape \[\] for three pairs"),
        ("frozen", "has no gradient"),
        ("forgetful", "fails on three pairs: TypeError.*takes 1 positional argument"),
        ("math", "fails on three pairs: TypeError: .module. object is not callable"),
    ],
)
def test_a_loss_of_ones_own_that_is_none(loss, message):
    with pytest.raises(UsageError, match=message):
        check_loss(LossSettings(name=f"{__name__}:{loss}"))


def test_only_the_loss_of_means_wants_means():
    assert {name for name in LOSSES.ours if reduction_of(name)} == {"sigmoid_norm"}


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
