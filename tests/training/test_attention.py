"""Attention under masks: that of each sequence alone, for every kind of model; in bfloat16, as on a GPU, where there is one."""

import random
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import (
    AutoModelForCausalLM,
    Gemma2Config,
    GPT2Config,
    LlamaConfig,
    MistralConfig,
    Qwen2Config,
    Qwen3Config,
)

from sweet_rl.policies.weights import loaded_on
from sweet_rl.training import forward as attention
from sweet_rl.training.batches import Collator, Reader, lay_out, to_device, token_weights
from sweet_rl.training.forward import (
    PreferenceObjective,
    ResponseHead,
    attention_span,
    block_mask,
    dense_mask,
    sees,
)
from sweet_rl.training.models import add_adapter
from sweet_rl.training.runs import reader
from sweet_rl.training.settings import LossSettings, ModelSettings, TrainSettings
from sweet_rl.training.trainer import Rows
from tests.tiny_models import save_tiny_llama
from tests.training.test_batches import turns

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


def made(config, kind="sdpa"):
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config, attn_implementation=kind)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    return model.eval()


def losses_and_gradients(model, pairs, span, reduction="turn"):
    """Losses of all pairs in one batch, and all gradients."""
    bare = model.get_base_model() if hasattr(model, "get_base_model") else model
    model.zero_grad()
    settings = LossSettings(nll_loss_coef=0.3, reduction=reduction)
    objective = PreferenceObjective(bare, settings)
    total = []
    batches = [pairs] if span else [[pair] for pair in pairs]
    for batch in batches:
        read = Collator(reduction, Reader(0, span))([(pair, 1.0) for pair in batch])
        assert ("ends_RT" in read) == (span > 0)
        total_B = objective(model, read).total_B
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


def test_attention_by_blocks_of_queries_gives_the_same(monkeypatch):
    model = made(KINDS["llama"])
    pairs = turns(2, history=20)
    alone = losses_and_gradients(model, pairs, 0)
    calls = []
    monkeypatch.setattr(attention, "QUERIES", 8)
    attend = attention.sdpa_attention_forward

    def watched(*given, **more):
        calls.append(given[2].shape[2])
        return attend(*given, **more)

    monkeypatch.setattr(attention, "sdpa_attention_forward", watched)
    assert_equal(losses_and_gradients(model, pairs, 1e9), alone)
    assert sorted(set(calls))[:3] == [8, 16, 24]  # no block is given the keys behind it


@pytest.mark.parametrize(("targets", "checkpointing"), [("q_proj,v_proj", False), ("all-linear", True)])
def test_with_an_adapter_and_recomputed_activations(targets, checkpointing):
    model = made(KINDS["llama"])
    settings = ModelSettings(pretrain="llama", lora_rank=4, target_modules=targets)
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
    settings = TrainSettings(dataset="data", pretrain="llama", lora_rank=4)
    model = made(KINDS["llama"])
    span = attention_span(model)
    rows = Rows(SimpleNamespace(pad_token_id=0, eos_token_id=0), [], [])
    assert reader(add_adapter(model, settings), rows, settings).attention_span == span > 0


@pytest.mark.parametrize("kind", ["llama", "tied", "gpt2", "gemma2"])
def test_without_logits_numbers_and_gradients_are_those_of_all_logits(kind, monkeypatch):
    """Beside the arithmetic written plainly: every logit of every place, in one table."""
    model = made(KINDS[kind], "eager")
    pairs = turns(2, history=20)
    monkeypatch.setattr(attention, "CHUNK_LOGITS", 256 * 3)

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
    logps, _ = PreferenceObjective(model, LossSettings()).logps(model, read)
    ours = gradients(logps.chosen_B, logps.rejected_B)
    chosen, rejected = (plain(pair.sides[0]) for pair in pairs), (plain(pair.sides[1]) for pair in pairs)
    assert_equal(ours, gradients(torch.stack([*chosen]), torch.stack([*rejected])))


def test_a_model_that_cannot_read_trees_says_so():
    model = made(KINDS["llama"])
    model.config._attn_implementation = "flash_attention_2"
    assert attention_span(model) == 0
    model.config._attn_implementation = "flex_attention"
    assert attention_span(model) == float("inf")
    model.config.layer_types = ["linear_attention"]
    assert attention_span(model) == 0


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


GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
DEVICES = ["cpu", pytest.param("cuda", marks=GPU)]
LENGTHS = [1, 7, 8, 9, 15, 16, 17, 63, 64, 65, 127, 128, 129, 192, 320, 511, 512, 513, 576, 704]
"""64 above a multiple of 128 is where cuDNN's backward pass makes NaN."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_tiny_llama(tmp_path_factory.mktemp("model") / "llama", context=2048, head_dim=16)


def sequences(draw, tokens):
    """Texts that share beginnings of each other, of about so many distinct tokens together; some of one token."""
    found = [[draw.randrange(300) for _ in range(max(1, tokens // 3))]]
    left = tokens - len(found[0])
    while left > 0:
        new = draw.choice([1, 2, draw.randint(1, left)])
        of = draw.choice(found)
        found.append(
            [*of[: draw.randrange(len(of) + 1)], *(draw.randrange(300) for _ in range(min(new, left)))]
        )
        left -= new
    return [np.array(ids, dtype=np.uint32) for ids in found]


def layout(length, seed):
    """Positions and ends of three rows of a length: two of several trees with padding, one of padding alone."""
    draw = random.Random(seed)
    positions_RT, ends_RT = torch.zeros(2, 3, length, dtype=torch.int64).unbind()
    for row in (0, 1):
        start = 0
        while start < length - row * (length // 4):
            tree = lay_out(sequences(draw, draw.randint(1, length)))
            stop = min(length, start + tree.ends_RT.shape[1])
            positions_RT[row, start:stop] = torch.from_numpy(tree.positions_RT[0])[: stop - start]
            ends_RT[row, start:stop] = torch.from_numpy(tree.ends_RT[0])[: stop - start] + start
            start = stop
    return positions_RT, ends_RT.clamp(max=length)


@settings(deadline=None)
@given(st.integers(1, 70), st.integers(0, 9), st.sampled_from([None, 1, 5]))
def test_every_place_sees_itself_padding_too(length, seed, window):
    mask_R1TT = dense_mask(*layout(length, seed), window)
    assert mask_R1TT.dtype == torch.bool  # torch makes numbers of it, which lie as its kernels want them
    assert mask_R1TT.is_contiguous()
    assert mask_R1TT.diagonal(dim1=2, dim2=3).all()
    assert not mask_R1TT.triu(1).any()


def plain(query, key, value, mask):
    """What attention is, written out in float32."""
    scores = (query @ key.transpose(2, 3)) * query.shape[-1] ** -0.5
    return (scores.masked_fill(~mask, -torch.inf).softmax(-1) @ value).transpose(1, 2)


def apart(one, other):
    """The length of their difference, of the second's length; of numbers around 0.1, where those are smaller."""
    return ((one.float() - other).norm() / other.norm().clamp(min=0.1 * other.numel() ** 0.5)).item()


@pytest.mark.parametrize("low", [0.0, 120.0], ids=["scores around 0", "scores around -120"])
@pytest.mark.parametrize("device", DEVICES)
def test_outputs_and_gradients_in_bfloat16_are_those_of_float32(device, low, folder):
    loaded_on(str(folder), device=device)  # which chooses among torch's kernels
    assert not torch.backends.cuda.cudnn_sdp_enabled()
    for length in LENGTHS:
        torch.manual_seed(length)
        mask = dense_mask(*(one.to(device) for one in layout(length, length)))
        halves = [torch.randn(3, 2, length, 16, device=device).bfloat16() for _ in range(3)]
        halves[0][..., 0], halves[1][..., 0] = 1, -4 * low
        weights = torch.randn(3, length, 2, 16, device=device)
        found, wanted = [], []
        for qkv, results in ((halves, found), ([half.float() for half in halves], wanted)):
            for one in qkv:
                one.requires_grad_()
            exact = results is wanted
            causal = SimpleNamespace(is_causal=True)
            out = plain(*qkv, mask) if exact else attention.attention_by_blocks(causal, *qkv, mask)[0]
            (out.float() * weights).sum().backward()
            results += [out.detach(), *(one.grad for one in qkv)]
        assert all(one.isfinite().all() for one in found), length
        # A query's first number has a gradient of 0, what rounding leaves of it times a key of -480.
        distances = [apart(one[..., 1:], other[..., 1:]) for one, other in zip(found, wanted, strict=True)]
        assert max(distances) < 0.02, (length, distances)


def weights_gradient(model, read, asked, device, *, bf16):
    """Log-probabilities, and the gradient of a weighted sum of them by the model's weights, as training makes it."""
    model.zero_grad()
    question, places = read.ask(*asked)
    question = to_device(question, device)
    with torch.autocast(device, torch.bfloat16, enabled=bf16):
        logps, _ = ResponseHead(model).logprobs(model, question)
    logps = logps[torch.from_numpy(np.concatenate(places)).to(device)]
    (logps * torch.linspace(-1, 1, len(logps), device=device)).sum().backward()
    gradient = torch.cat([one.grad.flatten() for one in model.parameters()])
    return logps.detach(), gradient, question["ids_RT"].shape


@pytest.mark.parametrize("device", DEVICES)
def test_weights_learn_in_bfloat16_what_they_learn_in_float32(device, folder):
    """Beside each text alone in float32, without any mask."""
    torch.manual_seed(0)
    model = loaded_on(str(folder), device=device, dtype="float32")
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.1)
    seen = set()
    for tokens in (9, 17, 64, 65, 130, 192, 600):
        draw = random.Random(tokens)
        texts = [np.append(ids, 7) for ids in sequences(draw, tokens)]
        asked = texts, [(number, np.arange(1, len(ids))) for number, ids in enumerate(texts)]
        alone, gradient, _ = weights_gradient(model, Reader(0, 0), asked, device, bf16=False)
        shared = Reader(0, attention_span(model))
        logps, found, shape = weights_gradient(model, shared, asked, device, bf16=True)
        seen.add(shape[0] > 1)
        assert found.isfinite().all()
        assert apart(logps, alone) < 0.02
        assert apart(found, gradient) < 0.05, tokens
    assert attention.attention_of(model.config) == "sdpa"
