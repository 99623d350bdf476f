"""LoRA layers that fold the adapter into the weight: the same numbers, and only where that computes less."""

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("peft")

from peft import LoraConfig, get_peft_model  # noqa: E402
from peft.tuners.lora.layer import Linear  # noqa: E402
from torch import nn  # noqa: E402

from sweet_rl.training.folding import FoldingLinear, fold_where_it_pays  # noqa: E402


class Pair(nn.Module):
    """Two layers, one with a bias."""

    def __init__(self, width):
        super().__init__()
        self.first, self.second = nn.Linear(width, 3 * width), nn.Linear(3 * width, width, bias=False)

    def forward(self, x):
        return self.second(torch.tanh(self.first(x)))


def adapted(width=32, rank=32, *, fold=True, **settings):
    """The same weights whether folded or not; the adapter is no longer the zero that it begins as."""
    torch.manual_seed(0)
    config = LoraConfig(r=rank, lora_alpha=2 * rank, target_modules=["first", "second"], **settings)
    model = get_peft_model(Pair(width), config)
    for name, parameter in model.named_parameters():
        if "lora_B" in name:
            nn.init.normal_(parameter, std=0.2)
    if fold:
        fold_where_it_pays(model)
    return model


def tokens(count=64, width=32):
    return torch.randn(2, count // 2, width, generator=torch.Generator().manual_seed(1))


@pytest.fixture
def plain(monkeypatch):
    """Counts the layers that were computed as peft does."""
    counted, forward = [], Linear.forward

    def counting(self, *arguments, **more):
        counted.append(self)
        return forward(self, *arguments, **more)

    monkeypatch.setattr(Linear, "forward", counting)
    return counted


def test_values_and_gradients_are_those_of_peft(plain):
    results = []
    for fold in (False, True):
        plain.clear()
        model, x = adapted(fold=fold), tokens().requires_grad_()
        y = model(x)
        (y**2).sum().backward()
        assert len(plain) == (0 if fold else 2)
        trained = {name: one.grad for name, one in model.named_parameters() if one.requires_grad}
        assert len(trained) == 4
        results.append([y, x.grad, *trained.values()])
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


def test_fewer_tokens_are_enough_where_there_are_no_gradients(plain):
    model = adapted()
    with torch.no_grad():
        model(tokens(32))
    assert plain == []
    model(tokens(32))
    assert len(plain) == 2


def test_parameters_keep_their_names():
    assert adapted().state_dict().keys() == adapted(fold=False).state_dict().keys()
    assert {type(one) for one in adapted().modules() if isinstance(one, Linear)} == {FoldingLinear}


@pytest.mark.parametrize(
    ("settings", "count"),
    [
        ({"rank": 2}, 64),
        ({}, 8),
        ({"lora_dropout": 0.5}, 64),
        ({"use_dora": True}, 64),
        ({"lora_bias": True, "target_modules": ["first"]}, 64),
    ],
    ids=["low rank", "few tokens", "dropout", "DoRA", "a bias of the adapter's"],
)
def test_peft_computes_what_would_cost_more_or_be_another_thing(plain, settings, count):
    if "lora_bias" in settings:
        model = get_peft_model(Pair(32), LoraConfig(r=32, **settings))
        fold_where_it_pays(model)
    else:
        model = adapted(**settings)
    model.train()(tokens(count))
    assert len(plain) == (1 if "lora_bias" in settings else 2)


def test_sharded_weights_and_modules_that_somebody_hooked_are_left_to_peft(plain):
    def folded(change):
        plain.clear()
        model = adapted()
        change(model.get_base_model().first)
        model(tokens())
        return 2 - len(plain)

    assert folded(lambda layer: None) == 2
    for mark in ("ds_id", "device_mesh"):
        assert folded(lambda layer, mark=mark: setattr(layer.lora_A["default"].weight, mark, 1)) == 1
    seen = []
    assert folded(lambda layer: layer.base_layer.register_forward_hook(lambda *_: seen.append(1))) == 1
    assert seen == [1]
    assert folded(lambda layer: setattr(layer.base_layer, "forward", lambda x: x.new_zeros(2, 32, 96))) == 1


def test_without_dropout_at_present_it_is_folded(plain):
    adapted(lora_dropout=0.5).eval()(tokens())
    assert plain == []


def test_sixteen_bits_and_adapters_that_are_off_are_left_to_peft(plain):
    model = adapted()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        model(tokens())
    with model.disable_adapter():
        expected = model.get_base_model()(tokens())
    assert len(plain) == 4
    model.merge_adapter()
    merged = model(tokens())
    model.unmerge_adapter()
    assert len(plain) == 6
    torch.testing.assert_close(model(tokens()), merged, rtol=1e-4, atol=1e-4)
    assert not torch.allclose(merged, expected)
    model.bfloat16()(tokens().bfloat16())
    assert len(plain) == 8
