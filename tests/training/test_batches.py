"""Padding, weights, and the order of training; the result does not depend on the micro-batch."""

from collections import Counter

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sweet_rl.chat import Span
from sweet_rl.training.batches import Collator, StepSampler
from sweet_rl.training.data import PairRow
from sweet_rl.training.encoding import EncodedPair, Side, TurnEncoder
from sweet_rl.training.forward import PairForward
from sweet_rl.training.losses import pair_losses
from sweet_rl.training.settings import LossSettings
from tests.tiny_models import tiny_tokenizer
from tests.training.pairs import dialogue_pairs

ROW = PairRow("", "", "", "pairs.jsonl", 1)


def two_turns():
    """Turns of 1 and of 3 tokens, beside a side with one turn of 2."""
    chosen = Side((5, 6, 7, 8, 9, 10), (Span(1, 2), Span(3, 6)))
    return EncodedPair(0, chosen, Side((5, 6, 7), (Span(1, 3),)), ROW)


@pytest.mark.parametrize(
    ("reduction", "weights"),
    [
        ("sum", [0, 1, 0, 1, 1, 1]),
        ("trajectory", [0, 1 / 4, 0, 1 / 4, 1 / 4, 1 / 4]),
        ("turn", [0, 1, 0, 1 / 3, 1 / 3, 1 / 3]),
    ],
)
def test_weights_by_hand(reduction, weights):
    batch = Collator(reduction, 99)([(two_turns(), 0.5)])
    torch.testing.assert_close(batch["weights_ST"][0], torch.tensor(weights, dtype=torch.float32))
    assert batch["ids_ST"].tolist() == [[5, 6, 7, 8, 9, 10], [5, 6, 7, 99, 99, 99]]
    assert batch["attention_ST"][1].tolist() == [1, 1, 1, 0, 0, 0]
    assert batch["nll_weights_BT"].tolist() == [[0, 0.25, 0, 0.25, 0.25, 0.25]]


def test_the_first_token_and_the_prompt_have_no_weight():
    side = Side((5, 6, 7, 8), (Span(0, 4),), prompt_length=2)
    batch = Collator("trajectory", 0)([(EncodedPair(0, side, side, ROW), 1.0)])
    assert batch["weights_ST"][0].tolist() == [0, 0, 0.5, 0.5]


@given(
    count=st.integers(1, 60),
    train_batch=st.integers(1, 20),
    micro=st.integers(1, 7),
    world=st.integers(1, 3),
    group=st.booleans(),
)
def test_every_row_once_and_equal_within_its_step(count, train_batch, micro, world, group):
    lengths = [(7 * row) % 23 + 1 for row in range(count)]
    accumulation = -(-train_batch // (micro * world))
    ranks = [
        StepSampler(
            lengths,
            train_batch=train_batch,
            accumulation=accumulation,
            seed=1,
            group_by_length=group,
            rank=rank,
            world=world,
        )
        for rank in range(world)
    ]
    batches = [list(sampler) for sampler in ranks]
    steps = -(-count // train_batch)
    assert {len(mine) for mine in batches} == {steps * accumulation} == {len(sampler) for sampler in ranks}
    used = Counter(row for mine in batches for batch in mine for row, scale in batch if scale)
    assert used == Counter(range(count))
    for step in range(steps):
        mine = [b for rank in batches for b in rank[step * accumulation : (step + 1) * accumulation]]
        assert max(map(len, mine)) <= micro
        scales = [scale for batch in mine for _, scale in batch if scale]
        assert sum(scales) == pytest.approx(world)
        assert len(set(scales)) == 1


def test_steps_do_not_depend_on_the_micro_batch():
    def steps(accumulation):
        sampler = StepSampler([3, 1, 2] * 10, train_batch=8, accumulation=accumulation, seed=4)
        flat = list(sampler)
        return [
            {row for batch in flat[i : i + accumulation] for row, scale in batch if scale}
            for i in range(0, len(flat), accumulation)
        ]

    assert steps(1) == steps(2) == steps(5)


def test_epochs_differ_and_the_files_order_can_be_kept():
    sampler = StepSampler(range(1, 21), train_batch=4, accumulation=1, seed=0)
    first = list(sampler)
    sampler.set_epoch(1)
    assert list(sampler) != first
    sampler.set_epoch(0)
    assert list(sampler) == first
    kept = StepSampler(
        [5, 1, 4], train_batch=2, accumulation=1, seed=0, shuffle=False, group_by_length=False, drop_last=True
    )
    assert list(kept) == [[(0, 0.5), (1, 0.5)]]


@pytest.mark.parametrize("reduction", ["sum", "trajectory", "turn"])
def test_losses_and_gradients_do_not_depend_on_the_micro_batch(reduction, steady):
    from transformers import AutoModelForCausalLM

    rows = [PairRow("", row["chosen"], row["rejected"], "p", i) for i, row in enumerate(dialogue_pairs(6))]
    pairs, _ = TurnEncoder(tiny_tokenizer(), max_len=512).encode(rows)
    model = AutoModelForCausalLM.from_pretrained(steady)
    forward = PairForward(model)
    settings = LossSettings(nll_loss_coef=0.1, reduction=reduction)

    def run(micro):
        model.zero_grad()
        totals = []
        for start in range(0, 6, micro):
            batch = Collator(reduction, 0)([(pair, 1 / 6) for pair in pairs[start : start + micro]])
            losses = pair_losses(forward(model, batch)[0], *batch["reference_SB"], settings)
            (losses.total_B * batch["scale_B"]).sum().backward()
            totals += losses.total_B.tolist()
        return totals, [parameter.grad.clone() for parameter in model.parameters()]

    totals, gradients = run(1)
    for micro in (2, 3):
        others, other_gradients = run(micro)
        assert others == pytest.approx(totals, rel=1e-4)
        for ours, theirs in zip(gradients, other_gradients, strict=True):
            assert (ours - theirs).norm() <= 1e-4 * ours.norm()
