"""Models of given shapes, made from a config and a seed where they compute; what a step computes, in flops.

Axes: R rows of tokens, T places in a row, K log-probabilities asked for.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from _measure import on_gpu

GIB = 2**30

PEAK_TFLOPS = {
    r"\bB200\b": 2250, r"\bG?H200\b": 989, r"\bH100 PCIe\b": 756, r"\bH100 NVL\b": 835, r"\bH100\b": 989,
    r"\bA100\b": 312, r"\bL40S\b": 362, r"\bL4\b": 121, r"\bRTX A6000\b": 155, r"\bRTX 4090$": 165,
    r"\bRTX 3090$": 71,
}  # fmt: skip
"""Makers' figures for dense bfloat16, sums in float32, by what a card calls itself; the first that fits."""


def peak_tflops(card: str) -> float | None:
    if "MIG" in card:
        return None
    return next((peak for pattern, peak in PEAK_TFLOPS.items() if re.search(pattern, card)), None)


@dataclass(frozen=True)
class Shape:
    """A Llama; `lora_rank` 0 trains all weights. `dtype` is that of the weights; GPUs compute in bfloat16."""

    hidden: int
    layers: int
    heads: int
    key_heads: int
    inner: int
    vocabulary: int
    tied: bool = False
    lora_rank: int = 0
    dtype: str = "float32"
    checkpointing: bool = False

    @property
    def config(self) -> Any:
        from transformers import LlamaConfig

        return LlamaConfig(
            vocab_size=self.vocabulary,
            hidden_size=self.hidden,
            intermediate_size=self.inner,
            num_hidden_layers=self.layers,
            num_attention_heads=self.heads,
            num_key_value_heads=self.key_heads,
            max_position_embeddings=131_072,
            tie_word_embeddings=self.tied,
            bos_token_id=0,
            eos_token_id=1,
        )


LLAMA_8B = {"hidden": 4096, "layers": 32, "heads": 32, "key_heads": 8, "inner": 14_336, "vocabulary": 128_256}
SHAPES = {
    "tiny": Shape(64, 2, 4, 2, 128, 512),
    "tiny_lora": Shape(64, 2, 4, 2, 128, 512, lora_rank=4, dtype="bfloat16", checkpointing=True),
    "small": Shape(512, 4, 8, 2, 1024, 4096),
    "135m": Shape(576, 30, 9, 3, 1536, 49_152, tied=True),
    "1b": Shape(2048, 16, 32, 8, 8192, 128_256, tied=True, checkpointing=True),
    "1b_kept": Shape(2048, 16, 32, 8, 8192, 128_256, tied=True),
    "8b": Shape(**LLAMA_8B, lora_rank=64, dtype="bfloat16", checkpointing=True),
    "8b_all_weights": Shape(**LLAMA_8B, dtype="bfloat16", checkpointing=True),
}
"""135m, 1b and 8b have the shapes of SmolLM2, Llama 3.2 1B and 3.1 8B. All weights of 8B with AdamW in float32 take 128 GB:
so adapters on weights in bfloat16, and where that fits (64 GB and more) everything in bfloat16."""


def made(shape: Shape, device: str, *, attention: str = "sdpa", dtype: str | None = None) -> Any:
    """The model with random weights, made on the device: nothing is read from a disk or copied.

    The same seed draws other weights on another kind of device.
    """
    import torch
    from transformers import AutoModelForCausalLM

    torch.manual_seed(0)
    with torch.device(device):
        model: Any = AutoModelForCausalLM.from_config(
            shape.config, attn_implementation=attention, dtype=getattr(torch, dtype or shape.dtype)
        )
    model.generation_config.pad_token_id = 0
    return model


def free_memory(device: str) -> None:
    import gc

    gc.collect()
    if on_gpu(device):
        import torch

        torch.cuda.empty_cache()


@dataclass(frozen=True)
class Work:
    """What a step must compute at least: every distinct token once."""

    distinct_tokens: int
    pairs_of_tokens: int  # Of a token and one that it sees, itself included
    asked: int  # Places at the output head

    def flops(self, shape: Shape) -> float:
        """Multiplications and additions, forward and backward; what is computed again is not counted.

        A backward pass is two forward passes: gradients of inputs and of weights. With adapters it is one, as
        frozen weights get no gradients; the adapters' own share is left out.
        """
        key_width = shape.hidden // shape.heads * shape.key_heads
        layer = 2 * shape.hidden * (shape.hidden + key_width) + 3 * shape.hidden * shape.inner
        weights = 2 * shape.layers * layer * self.distinct_tokens
        head = 2 * shape.hidden * shape.vocabulary * self.asked
        attention = 4 * shape.hidden * shape.layers * self.pairs_of_tokens
        return (2 if shape.lora_rank else 3) * (weights + head) + 3 * attention


def work_of(reading: Any) -> Work:
    read_RT = reading["ends_RT"] > 0
    return Work(
        distinct_tokens=int(read_RT.sum()),
        pairs_of_tokens=int((reading["positions_RT"] + 1)[read_RT].sum()),
        asked=len(set(reading["predictors_K"].tolist())),
    )
