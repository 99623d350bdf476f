"""Attention under masks in bfloat16 beside float32, over layouts of many lengths; the same on a GPU, where there is one."""

import json
import random
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sweet_rl.commands.train_sft import train_sft
from sweet_rl.policies.weights import loaded_on
from sweet_rl.training import attention, trainer
from sweet_rl.training.attention import attention_span, dense_mask, inputs_of
from sweet_rl.training.batches import Reader, to_device
from sweet_rl.training.forward import ResponseHead
from sweet_rl.training.trees import lay_out
from tests.training.pairs import write_dialogues

GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
DEVICES = ["cpu", pytest.param("cuda", marks=GPU)]
LENGTHS = [1, 7, 8, 9, 15, 16, 17, 63, 64, 65, 127, 128, 129, 192, 320, 511, 512, 513, 576, 704]
"""64 above a multiple of 128 is where cuDNN's backward pass makes NaN."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    from tests.tiny_models import save_tiny_llama

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
    positions_RT, ends_RT = (
        torch.zeros(3, length, dtype=torch.int64),
        torch.zeros(3, length, dtype=torch.int64),
    )
    for row in (0, 1):
        start = 0
        while start < length - row * (length // 4):
            tree = lay_out(sequences(draw, draw.randint(1, length)))
            stop = min(length, start + tree.ends_RT.shape[1])
            positions_RT[row, start:stop] = torch.from_numpy(tree.positions_RT[0])[: stop - start]
            ends_RT[row, start:stop] = torch.from_numpy(tree.ends_RT[0])[: stop - start] + start
            start = stop
    return positions_RT, ends_RT.clamp(max=length)


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
@pytest.mark.parametrize("attend", [attention.attention_by_blocks, attention.plain_attention])
@pytest.mark.parametrize("device", DEVICES)
def test_outputs_and_gradients_in_bfloat16_are_those_of_float32(device, attend, low, folder):
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
            out = plain(*qkv, mask) if exact else attend(SimpleNamespace(is_causal=True), *qkv, mask)[0]
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
        inputs = inputs_of(model, question)
        logps, _ = ResponseHead(model).logprobs(
            model, question["predictors_K"], question["targets_K"], inputs
        )
    logps = logps[torch.from_numpy(np.concatenate(places)).to(device)]
    (logps * torch.linspace(-1, 1, len(logps), device=device)).sum().backward()
    return (
        logps.detach(),
        torch.cat([one.grad.flatten() for one in model.parameters()]),
        question["ids_RT"].shape,
    )


@pytest.mark.parametrize("plainly", [False, True])
@pytest.mark.parametrize("device", DEVICES)
def test_weights_learn_in_bfloat16_what_they_learn_in_float32(device, plainly, folder):
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
        if plainly and tokens == 9:
            assert attention.attend_plainly(model)
        logps, found, shape = weights_gradient(
            model, Reader(0, attention_span(model)), asked, device, bf16=True
        )
        seen.add(shape[0] > 1)
        assert found.isfinite().all()
        assert apart(logps, alone) < 0.02
        assert apart(found, gradient) < 0.05, tokens
    assert attention.attention_of(model.config) == "sdpa"


def test_an_update_whose_gradient_is_not_finite_is_computed_again(steady, tmp_path, monkeypatch, capsys):
    """A fused kernel that makes NaN in its backward pass, once: nothing of it is learned, and the run goes on."""
    rows = [
        {"task": f"task {i % 3}", "answers": ["what should it", "give " * (1 + i % 5)], "reward": 1}
        for i in range(12)
    ]
    data = write_dialogues(tmp_path / "data.jsonl", rows)
    recipe = {"train_batch_size": 4, "micro_train_batch_size": 2, "learning_rate": 1e-3, "eval_fraction": 0}
    recipe |= {"max_epochs": 2, "quiet": True, "dataset": str(data), "pretrain": str(steady)}

    def metrics(name):
        train_sft(**recipe, save_path=str(tmp_path / name), ckpt_path=str(tmp_path / f"{name} checkpoints"))
        lines = (tmp_path / name / "metrics.jsonl").read_text().splitlines()
        return [[json.loads(line)[key] for key in ("loss", "grad_norm")] for line in lines]

    wanted = metrics("fine")
    attend, calls = attention.sdpa_attention_forward, []

    def fused_wrong(*given, **options):
        out, _ = attend(*given, **options)
        if given[4] is not None and torch.backends.cuda.flash_sdp_enabled():
            calls.append(given[1].shape)
            if len(calls) == 8:
                out.register_hook(lambda gradient: gradient * torch.nan)
        return out, None

    monkeypatch.setattr(attention, "sdpa_attention_forward", fused_wrong)
    monkeypatch.setattr(trainer, "CHECKED", {"cpu"})
    found = metrics("wrong")
    said = capsys.readouterr().out
    assert said.count("The gradient is not finite at update 3. From here on") == 1
    assert len(calls) == 8  # under masks no fused kernel was asked again
    assert np.allclose(found, wanted, rtol=1e-4)
