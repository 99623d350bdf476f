"""Log-probabilities and gradients of a small model on a device, by each precision and kind of attention.

They are compared with the CPU's in float32, which reads each sequence alone. Three layouts: two trees of one
length, trees of several lengths in padded rows, and rows of a length that is 64 above a multiple of 128,
where a kernel of cuDNN made NaN.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import dataclass, replace
from typing import Any

from _gpu_dpo import Data
from _gpu_shapes import SHAPES, Shape, made
from _measure import on_gpu

from sweet_rl.policies.weights import pretrained
from sweet_rl.training.batches import Collator, Reader, to_device
from sweet_rl.training.forward import PreferenceObjective, attention_span
from sweet_rl.training.models import trainable
from sweet_rl.training.settings import LossSettings, ModelSettings


@dataclass(frozen=True)
class Way:
    attention: str = "sdpa"
    dtype: str = "float32"
    bits: int = 0  # Of quantised weights
    autocast: bool = False  # Weights in float32, computing in bfloat16
    compiled: bool = False  # Layers that torch has compiled
    pretrained: str = ""  # A model whose weights are taken instead of random ones


WAYS = {  # What is compared with the CPU's float32. flash_attention_2 reads no trees.
    "sdpa, float32": Way(),
    "flex_attention, float32": Way("flex_attention"),
    "sdpa, bfloat16": Way(dtype="bfloat16"),
    "flex_attention, bfloat16": Way("flex_attention", "bfloat16"),
    "sdpa, autocast": Way(autocast=True),
    "flex_attention, autocast": Way("flex_attention", autocast=True),
    "flex_attention, compiled, float32": Way("flex_attention", compiled=True),
    "flex_attention, compiled, autocast": Way("flex_attention", autocast=True, compiled=True),
    "flash_attention_2, bfloat16": Way("flash_attention_2", "bfloat16"),
    "smollm2, sdpa, autocast": Way(autocast=True, pretrained="smollm2"),
    "sdpa, 8 bits": Way(dtype="bfloat16", bits=8),
    "sdpa, 4 bits": Way(dtype="bfloat16", bits=4),
}


def parity(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Largest differences of a response's log-probability a token, and of the gradients as a whole."""
    import torch

    shape, way, device = SHAPES[arguments.shape], WAYS[arguments.way], arguments.device
    history, response = arguments.history, arguments.response
    tree = history + 8 * (response - 1)  # four pairs behind a history; nothing is read behind a last token
    layouts = {
        "": Data(history, response, turns=2, steps=1),
        "padded rows": Data(history, response, turns=5, steps=1, shortest=0.2),
        "64 above a multiple of 128": Data(history + (64 - tree) % 128, response, turns=2, steps=1),
    }
    model, rows = _loaded(shape, way, device), []
    trains = not way.bits and (on_gpu(device) or way.attention != "flex_attention")  # it learns on GPUs only
    for side, data in layouts.items():
        pairs = data.pairs(shape.vocabulary)
        expected, exact = _measured(_on_cpu(shape, way), pairs, "cpu", Way(), alone=True)
        model.zero_grad()
        found, gradients = _measured(model, pairs, device, way, trains=trains)
        if not all(torch.isfinite(one).all() for one in (found, *gradients.values())):
            raise ValueError(f"{side or 'trees'}: log-probabilities or gradients are not finite numbers")
        apart = (found - expected).abs() / response
        row: dict[str, Any] = {"logprob_apart": float(apart.max()), "logprob_apart_mean": float(apart.mean())}
        if gradients:
            square = sum(float((gradients[name] - exact[name]).square().sum()) for name in exact)
            row["gradient_apart"] = (square / sum(float(one.square().sum()) for one in exact.values())) ** 0.5
        rows.append(row | ({"side": side} if side else {}))
    return rows


def _on_cpu(shape: Shape, way: Way) -> Any:
    if not way.pretrained:
        return made(replace(shape, dtype="float32"), "cpu")
    return pretrained(way.pretrained, dtype="float32")[0]


def _loaded(shape: Shape, way: Way, device: str) -> Any:
    """The same weights as `_on_cpu`, on the device, in the way's precision.

    Through a folder, as users load them: quantisation happens there.
    """
    import torch
    from transformers import BitsAndBytesConfig

    options: dict[str, Any] = {"dtype": getattr(torch, way.dtype), "attn_implementation": way.attention}
    if way.bits:
        options["quantization_config"] = BitsAndBytesConfig(
            load_in_8bit=way.bits == 8, load_in_4bit=way.bits == 4, bnb_4bit_compute_dtype=torch.bfloat16
        )
        options["device_map"] = {"": device}
    with tempfile.TemporaryDirectory() as folder:
        _on_cpu(shape, way).save_pretrained(folder)
        model: Any = pretrained(folder, **options)[0]
    if way.compiled:
        trainable(model, ModelSettings(pretrain="made", torch_compile=True))
    return model if way.bits else model.to(device)


def _measured(
    model: Any, pairs: Any, device: str, way: Way, *, alone: bool = False, trains: bool = True
) -> tuple[Any, dict[str, Any]]:
    import torch

    objective = PreferenceObjective(model.train(), LossSettings())
    read = Reader(0, 0 if alone else attention_span(model))
    batch = to_device(Collator("sum", read)([(pair, 1.0) for pair in pairs]), device)
    bf16 = torch.autocast(torch.device(device).type, torch.bfloat16, enabled=way.autocast)
    with torch.set_grad_enabled(trains), bf16:
        logps = objective.logps(model, batch)[0]
    gradients = {}
    if trains:
        (logps.chosen_B - logps.rejected_B).sum().backward()
        gradients = {
            name: parameter.grad.float().cpu()
            for name, parameter in model.named_parameters()
            if parameter.grad is not None
        }
    return torch.cat([logps.chosen_B, logps.rejected_B]).detach().float().cpu(), gradients
