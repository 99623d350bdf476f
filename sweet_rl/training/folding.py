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
        if type(module) is Linear and type(module.base_layer) is nn.Linear:
            module.__class__ = FoldingLinear


_SHARDED = ("ds_id", "device_mesh")
"""What weights have that DeepSpeed's ZeRO-3, or FSDP, gathers when their own module is called."""


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
            parts: list[Any] = [self.base_layer, self.lora_A[name], self.lora_B[name]]
            weights = _Weights(*(part.weight for part in parts))
            if all(map(_plain, parts)) and _whole(x, weights) and _pays(x, weights):
                folded = torch.addmm(weights.base, weights.up, weights.down, alpha=self.scaling[name])
                return functional.linear(x, folded, parts[0].bias)
        result: Tensor = super().forward(x, *args, **kwargs)
        return result

    def _only_adapter(self) -> str | None:
        """The adapter, if it is the only active one, plain, and without dropout at present."""
        names: list[str] = list(self.active_adapters)
        if len(names) != 1 or self.disable_adapters or self.merged or names[0] not in self.lora_A:
            return None
        (name,) = names
        dropout = self.lora_dropout[name]
        drops = isinstance(dropout, nn.Dropout) and dropout.p > 0 and dropout.training
        return None if drops or name in self.lora_variant or self.lora_bias[name] else name


def _plain(part: nn.Module) -> bool:
    """Calling it is nothing but its product: nobody hooked it or put another forward there."""
    hooked = part._forward_hooks or part._forward_pre_hooks or part._backward_hooks
    return not hooked and "forward" not in vars(part)


def _whole(x: Tensor, weights: _Weights) -> bool:
    """All of it is here, and in full precision: a sum in 16 bits would round a small adapter away."""
    sharded = any(hasattr(one, mark) for one in weights for mark in _SHARDED)
    alike = all(one.dtype == torch.float32 and one.device == x.device for one in (x, *weights))
    return not sharded and alike and not torch.is_autocast_enabled(x.device.type)


def _pays(x: Tensor, weights: _Weights) -> bool:
    """Whether it saves a tenth of the multiplications, at least; with gradients, of both directions."""
    (outward, inward), rank = weights.base.shape, len(weights.down)
    tokens, size, adapter = x.numel() // inward, inward * outward, rank * (inward + outward)
    if torch.is_grad_enabled():  # of the frozen weight there is no gradient, unless it is folded
        plain, folded = tokens * (2 * size + 3 * adapter), 3 * size * (tokens + rank)
    else:
        plain, folded = tokens * (size + adapter), size * (tokens + rank)
    return folded < 0.9 * plain
