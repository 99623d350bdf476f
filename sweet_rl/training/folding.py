"""LoRA layers that fold the adapter into the weight where that computes less.

For each token, y = W x + s B (A x) takes three products, and five more backward; y = (W + s B A) x takes one
and two, beside two products of the weights. That is less where the rank is not far below the layer's width,
as in a tiny model that is random below its adapter. The numbers are the same, up to rounding.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from peft.tuners.lora.layer import Linear
from torch import Tensor, nn
from torch.nn import functional


def fold_where_it_pays(model: nn.Module) -> None:
    """Let the adapters of a model's linear layers be folded; every forward pass decides whether it pays."""
    for module in model.modules():
        if type(module) is Linear and type(module.get_base_layer()) is nn.Linear:
            module.__class__ = FoldingLinear


class _Weights(NamedTuple):
    """Of a layer and its adapter: W [out, in], A [rank, in], B [out, rank]."""

    base: Tensor
    down: Tensor
    up: Tensor


class FoldingLinear(Linear):
    """Peft's linear layer, with its parameters and its files."""

    def forward(self, x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        """The same as peft's."""
        name = None if args or kwargs else self._only_adapter()
        if name is not None:
            base: Any = self.base_layer
            down: Any = self.lora_A[name]
            up: Any = self.lora_B[name]
            weights = _Weights(base.weight, down.weight, up.weight)
            if _pays(x, weights):
                folded = torch.addmm(weights.base, weights.up, weights.down, alpha=self.scaling[name])
                return functional.linear(x, folded, base.bias)
        plain: Tensor = super().forward(x, *args, **kwargs)
        return plain

    def _only_adapter(self) -> str | None:
        """The adapter, if it is active, the only one, plain, and without dropout at present."""
        names: list[str] = list(self.active_adapters)
        if len(names) != 1 or self.disable_adapters or self.merged or names[0] not in self.lora_A:
            return None
        (name,) = names
        dropout = self.lora_dropout[name]
        drops = isinstance(dropout, nn.Dropout) and dropout.p > 0 and dropout.training
        return None if drops or name in self.lora_variant or self.lora_bias[name] else name


def _pays(x: Tensor, weights: _Weights) -> bool:
    """Whether folding computes less, forward and backward, and loses nothing.

    A sum in 16 bits rounds a small adapter away, and a sharded weight is gathered for its own module only.
    """
    shapes, rank = [tuple(one.shape) for one in weights], len(weights.down)
    inward, outward = x.shape[-1], len(weights.base)
    whole = shapes == [(outward, inward), (rank, inward), (outward, rank)]
    full = all(one.dtype == torch.float32 for one in (x, *weights))
    if not whole or not full or torch.is_autocast_enabled(x.device.type):
        return False
    tokens, size = x.numel() // inward, inward * outward
    return tokens * (rank * (inward + outward) - size / 3) > rank * size
