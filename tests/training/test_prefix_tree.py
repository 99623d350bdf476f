"""The tree gives the log-probabilities and gradients of each sequence computed alone, for every kind of model."""

from operator import attrgetter

import pytest
import torch
from transformers import (
    AutoModelForCausalLM,
    Gemma2Config,
    GPT2Config,
    LlamaConfig,
    MistralConfig,
    Qwen2Config,
    Qwen3Config,
)

from sweet_rl.training import attention, forward
from sweet_rl.training.adapters import add_adapter
from sweet_rl.training.attention import attention_span, block_mask, sees
from sweet_rl.training.batches import Collator, Reader, token_weights
from sweet_rl.training.fitting import reader
from sweet_rl.training.forward import PairForward
from sweet_rl.training.losses import pair_losses
from sweet_rl.training.settings import (
    DataSettings,
    LossSettings,
    ModelSettings,
    OptimizerSettings,
    OutputSettings,
    ShardSettings,
    TrainSettings,
)
from tests.training.test_steps import turns

SMALL = {"vocab_size": 256, "hidden_size": 32, "num_hidden_layers": 2, "intermediate_size": 48}
GROUPED = SMALL | {"num_attention_heads": 4, "num_key_value_heads": 2}
KINDS = {
    "llama": LlamaConfig(**GROUPED),
    "tied": LlamaConfig(**GROUPED, tie_word_embeddings=True),
    "qwen2": Qwen2Config(**GROUPED),
    "qwen2 with windows": Qwen2Config(
        **GROUPED, use_sliding_window=True, sliding_window=9, max_window_layers=1
    ),
    "qwen3": Qwen3Config(**GROUPED, head_dim=8),
    "mistral": MistralConfig(**GROUPED, sliding_window=9),
    "gpt2": GPT2Config(vocab_size=256, n_embd=32, n_layer=2, n_head=4, n_positions=256),
    # Caps its logits, so that its head cannot be asked for log-probabilities.
    "gemma2": Gemma2Config(**GROUPED, head_dim=8, sliding_window=9, final_logit_softcapping=3.0),
}


def made(config, attention="sdpa"):
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config, attn_implementation=attention)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    return model.eval()


def losses_and_gradients(model, pairs, span, reduction="turn"):
    """Losses of all pairs in one batch, and all gradients."""
    bare = model.get_base_model() if hasattr(model, "get_base_model") else model
    forward = PairForward(bare)
    model.zero_grad()
    settings = LossSettings(nll_loss_coef=0.3, reduction=reduction)
    total = []
    batches = [pairs] if span else [[pair] for pair in pairs]
    for batch in batches:
        read = Collator(reduction, Reader(0, span))([(pair, 1.0) for pair in batch])
        assert ("ends_RT" in read) == (span > 0)
        total_B = pair_losses(forward(model, read)[0], *read["reference_SB"], settings).total_B
        total_B.sum().backward()
        total += total_B.tolist()
    return total, {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def assert_equal(one, other, rel=1e-4):
    assert one[0] == pytest.approx(other[0], rel=rel)
    assert one[1].keys() == other[1].keys()
    scale = max(float(gradient.norm()) for gradient in other[1].values())
    for name, gradient in one[1].items():
        assert (gradient - other[1][name]).norm() <= rel * max(float(gradient.norm()), 1e-3 * scale), name


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_tree_equals_each_sequence_alone(kind, attention):
    if kind == "gemma2" and attention == "sdpa":
        pytest.skip("its attention caps scores, which sdpa cannot")
    model = made(KINDS[kind], attention)
    pairs = turns(2, history=20)
    span = attention_span(model)
    assert span > 0
    assert_equal(losses_and_gradients(model, pairs, span), losses_and_gradients(model, pairs, 0))


@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_attention_by_blocks_of_queries_gives_the_same(kind, monkeypatch):
    model = made(KINDS[kind])
    pairs = turns(2, history=20)
    alone = losses_and_gradients(model, pairs, 0)
    calls = []
    monkeypatch.setattr(attention, "QUERIES", 8)
    attend = attention.sdpa_attention_forward
    monkeypatch.setattr(
        attention,
        "sdpa_attention_forward",
        lambda *given, **more: calls.append(given[2].shape[2]) or attend(*given, **more),
    )
    assert_equal(losses_and_gradients(model, pairs, 1e9), alone)
    assert sorted(set(calls))[:3] == [8, 16, 24]  # no block is given the keys behind it


@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize("targets", ["q_proj,v_proj", "all-linear"])
def test_with_an_adapter_and_recomputed_activations(targets, checkpointing):
    model = made(KINDS["llama"])
    settings = ModelSettings("llama", lora_rank=4, target_modules=targets)
    if checkpointing:
        model.activation_checkpointing_enable({"use_reentrant": False})
        model.enable_input_require_grads()
    model = add_adapter(model, settings)
    for name, parameter in model.named_parameters():
        if "lora_B" in name:  # zero at first, which would hide the other half's gradients
            torch.nn.init.normal_(parameter, std=0.1)
    model.train()
    pairs = turns(2, history=20)
    assert_equal(losses_and_gradients(model, pairs, 1e9), losses_and_gradients(model, pairs, 0))


def test_with_an_adapter_as_much_is_shared_as_without():
    settings = TrainSettings(
        DataSettings("data"),
        ModelSettings("llama", lora_rank=4),
        LossSettings(),
        OptimizerSettings(),
        ShardSettings(),
        OutputSettings(),
    )
    model = made(KINDS["llama"])
    span = attention_span(model)
    assert reader(add_adapter(model, settings.model), 0, settings).attention_span == span > 0


def test_logits_in_chunks_give_the_same(monkeypatch):
    model = made(KINDS["llama"])
    pairs = turns(2, history=20)
    whole = losses_and_gradients(model, pairs, 1e9)
    monkeypatch.setattr(forward, "CHUNK_LOGITS", 256 * 3)
    assert_equal(losses_and_gradients(model, pairs, 1e9), whole)


@pytest.mark.parametrize("kind", ["llama", "tied", "gpt2", "gemma2"])
def test_without_logits_numbers_and_gradients_are_those_of_all_logits(kind, monkeypatch):
    """Beside the arithmetic written plainly: every logit of every place, in one table."""
    model = made(KINDS[kind], "eager")
    pairs = turns(2, history=20)
    monkeypatch.setattr(forward, "CHUNK_LOGITS", 256 * 3)

    def plain(side):
        (branch,) = side.branches
        ids = torch.tensor([branch.ids])
        logps = model(input_ids=ids).logits[:, :-1].log_softmax(-1).gather(2, ids[:, 1:, None])[0, :, 0]
        return (logps * torch.from_numpy(token_weights(side, "sum")[0])[1:]).sum()

    def gradients(chosen, rejected):
        model.zero_grad()
        (chosen - 0.7 * rejected).square().sum().backward()  # each response counts for something else
        sums = [*chosen.tolist(), *rejected.tolist()]
        return sums, {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}

    read = Collator("sum", Reader(0, attention_span(model)))([(pair, 1.0) for pair in pairs])
    logps = PairForward(model)(model, read)[0]
    ours = gradients(logps.chosen_B, logps.rejected_B)
    sides = [
        torch.stack([plain(side(pair)) for pair in pairs])
        for side in (attrgetter("chosen"), attrgetter("rejected"))
    ]
    assert_equal(ours, gradients(*sides))


def test_a_model_that_cannot_read_trees_says_so():
    model = made(KINDS["llama"])
    model.config._attn_implementation = "flash_attention_2"
    assert attention_span(model) == 0
    model.config._attn_implementation = "flex_attention"
    assert attention_span(model) == float("inf")
    model.config.layer_types = ["linear_attention"]
    assert attention_span(model) == 0


def test_bfloat16_is_as_near_as_bfloat16_is():
    model = made(KINDS["llama"]).bfloat16()
    pairs = turns(2, history=20)
    one, other = losses_and_gradients(model, pairs, 1e9), losses_and_gradients(model, pairs, 0)
    assert one[0] == pytest.approx(other[0], rel=3e-2)


@pytest.mark.parametrize("window", [None, 40])
@pytest.mark.parametrize("history", [9, 300])
def test_blocks_for_flex_attention_are_those_in_which_something_is_seen(window, history):
    from torch.nn.attention.flex_attention import create_block_mask

    read = Collator("sum", Reader(0))([(pair, 1.0) for pair in turns(3, history=history)])
    positions_RT, ends_RT = read["positions_RT"], read["ends_RT"]
    rows, length = ends_RT.shape
    made_of_all = create_block_mask(
        sees(positions_RT, ends_RT, window), rows, None, length, length, device="cpu"
    )
    found = block_mask(positions_RT, ends_RT, window)
    assert found.seq_lengths == made_of_all.seq_lengths == (length, length)
    seen, kept = made_of_all.to_dense().bool(), found.to_dense().bool()
    if window is None:
        assert torch.equal(kept, seen)
        assert torch.equal(found.full_kv_num_blocks, made_of_all.full_kv_num_blocks)
    assert not (seen & ~kept).any()
    assert kept.sum() <= seen.sum() + rows  # hardly one for nothing
    assert _whole(found) <= _whole(made_of_all)


def _whole(mask):
    """Blocks in which everything is seen."""
    counts, indices = mask.full_kv_num_blocks, mask.full_kv_indices
    return {
        (row, block, key)
        for row in range(counts.shape[0])
        for block in range(counts.shape[2])
        for key in indices[row, 0, block, : counts[row, 0, block]].tolist()
    }


@pytest.mark.parametrize("window", [None, 4])
def test_blocks_for_flex_attention_are_made_of_the_same_mask(window):
    from torch.nn.attention.flex_attention import create_mask

    read = Collator("sum", Reader(0))([(pair, 1.0) for pair in turns(2, history=9)])
    mask = sees(read["positions_RT"], read["ends_RT"], window)
    rows, length = read["ends_RT"].shape
    dense = create_mask(mask, rows, None, length, length, device="cpu")[:, 0]
    q, k = torch.arange(length)[:, None], torch.arange(length)[None, :]
    for row in range(rows):
        assert torch.equal(dense[row], mask(torch.tensor(row), None, q, k))
