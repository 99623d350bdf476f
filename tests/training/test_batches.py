"""What a batch asks of a model; the result does not depend on the micro-batch."""

import numpy as np
import pytest

from sweet_rl.chat import Span
from sweet_rl.training.batches import Collator, Reader, token_weights
from sweet_rl.training.data import PairRow, Said
from sweet_rl.training.encoding import Encoded, Side, TurnEncoder
from sweet_rl.training.forward import PairForward
from sweet_rl.training.losses import pair_losses
from sweet_rl.training.settings import LossSettings
from tests.tiny_models import tiny_tokenizer
from tests.training.pairs import dialogue_pairs

ROW = PairRow(Said(), Said(), Said(), "pairs.jsonl", 1)


def two_turns():
    """Turns of 1 and of 3 tokens, beside a side with one turn of 2."""
    chosen = Side.single((5, 6, 7, 8, 9, 10), (Span(1, 2), Span(3, 6)))
    return Encoded(0, (chosen, Side.single((5, 6, 7), (Span(1, 3),))), ROW)


@pytest.mark.parametrize(
    ("reduction", "weights"),
    [
        ("sum", [0, 1, 0, 1, 1, 1]),
        ("trajectory", [0, 1 / 4, 0, 1 / 4, 1 / 4, 1 / 4]),
        ("turn", [0, 1, 0, 1 / 3, 1 / 3, 1 / 3]),
    ],
)
def test_weights_by_hand(reduction, weights):
    np.testing.assert_allclose(token_weights(two_turns().sides[0], reduction)[0], weights)


def test_the_first_token_and_the_prompt_have_no_weight():
    side = Side.single((5, 6, 7, 8), (Span(0, 4),), prompt_length=2)
    assert token_weights(side, "trajectory")[0].tolist() == [0, 0, 0.5, 0.5]


def asked(batch):
    """Every term of a batch: (output, row, place before, token) to weight."""
    width = batch["ids_RT"].shape[1]
    places = [divmod(int(place), width) for place in batch["predictors_K"]]
    return {
        (int(o), *places[k], int(batch["targets_K"][k])): float(w)
        for k, o, w in zip(batch["terms_M"], batch["outputs_M"], batch["weights_M"], strict=True)
    }


def test_a_batch_without_sharing_by_hand():
    batch = Collator("sum", Reader(99, attention_span=0))([(two_turns(), 0.5)])
    assert batch["ids_RT"].tolist() == [
        [5, 6, 7, 8, 9],
        [5, 6, 99, 99, 99],
    ]  # the last token is only predicted
    chosen = {(0, 0, 0, 6): 1, (0, 0, 2, 8): 1, (0, 0, 3, 9): 1, (0, 0, 4, 10): 1}
    nll = {(2, *place): -0.25 for _, *place in chosen}
    assert asked(batch) == chosen | {(1, 1, 0, 6): 1, (1, 1, 1, 7): 1} | nll
    assert "ends_RT" not in batch


def test_a_shared_beginning_stands_there_once():
    batch = Collator("sum", Reader(99))([(two_turns(), 0.5)])
    assert batch["ids_RT"].tolist() == [[5, 6, 7, 8, 9]]
    assert batch["predictors_K"].tolist() == [0, 1, 2, 3, 4]
    assert batch["targets_K"].tolist() == [6, 7, 8, 9, 10]


@pytest.mark.parametrize("reduction", ["sum", "trajectory", "turn"])
def test_losses_and_gradients_do_not_depend_on_the_micro_batch(reduction, steady):
    from transformers import AutoModelForCausalLM

    rows = [
        PairRow(Said(), Said(row["chosen"]), Said(row["rejected"]), "p", i)
        for i, row in enumerate(dialogue_pairs(6))
    ]
    pairs, _ = TurnEncoder(tiny_tokenizer(), max_len=512).encode(rows)
    model = AutoModelForCausalLM.from_pretrained(steady)
    forward = PairForward(model)
    settings = LossSettings(nll_loss_coef=0.1, reduction=reduction)

    def run(micro):
        model.zero_grad()
        totals = []
        for start in range(0, 6, micro):
            batch = Collator(reduction, Reader(0))([(pair, 1 / 6) for pair in pairs[start : start + micro]])
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
