"""LoRA layers folded into their weights (`sweet_rl.training.folding`) beside peft's own, at several widths.

An update's forward and backward pass of a fresh Llama with an adapter of rank 64 in all linear layers: both
sides have the same weights, take turns, and agree on losses and gradients to 1e-4 of the largest.

Run: python benchmarks/adapters.py [--widths 64,128,256,512] [--rank 64]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from unittest import mock

import torch
from _machine import heading
from _timing import in_turn, medians
from peft import LoraConfig, get_peft_model
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM

from sweet_rl.training.folding import FoldingLinear, fold_where_it_pays

VOCABULARY = 512


def main() -> None:
    """Print one line for each width."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--widths", default="64,128,256,512")
    parser.add_argument("--rank", type=int, default=64)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--texts", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=250, help="of a text")
    parser.add_argument("--rounds", type=int, default=9)
    flags = parser.parse_args()
    torch.set_num_threads(1)
    print(f"{heading()}\n{flags.texts} texts of {flags.tokens} tokens, rank {flags.rank}; seconds, median")
    print(f"{'width':>5}{'peft':>9}{'folded':>9}{'ratio':>8}   layers that are folded")
    for width in map(int, flags.widths.split(",")):
        sides = {name: _side(width, flags, fold=fold) for name, fold in (("peft", False), ("folded", True))}
        folded, layers = _folded(*sides["folded"])
        _agree(*(update() for update, _ in sides.values()))
        updates = {name: update for name, (update, _) in sides.items()}
        plain, ours = medians(in_turn(updates, flags.rounds, clock=time.process_time)).values()
        print(f"{width:5}{plain:9.3f}{ours:9.3f}{plain / ours:7.2f}x   {folded} of {layers}")


def _side(
    width: int, flags: argparse.Namespace, *, fold: bool
) -> tuple[Callable[[], list[Tensor]], torch.nn.Module]:
    """A model with its adapter, and what makes the gradients of one update."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=width,
        intermediate_size=8 * width // 3,
        num_hidden_layers=flags.layers,
        num_attention_heads=width // 32,
    )
    adapter = LoraConfig(r=flags.rank, target_modules="all-linear", task_type="CAUSAL_LM")
    model = get_peft_model(LlamaForCausalLM(config), adapter)
    trained = {name: one for name, one in model.named_parameters() if one.requires_grad}
    for name, one in trained.items():
        if "lora_B" in name:  # zero so far: half of the gradients would be, too
            torch.nn.init.normal_(one, std=0.02)
    if fold:
        fold_where_it_pays(model)
    ids = torch.randint(VOCABULARY, (flags.texts, flags.tokens))

    def update() -> list[Tensor]:
        model.zero_grad()
        loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        return [loss.detach(), *(one.grad for one in trained.values() if one.grad is not None)]

    return update, model


def _folded(update: Callable[[], list[Tensor]], model: torch.nn.Module) -> tuple[int, int]:
    """How many layers of a model an update folds, and how many it has; to fold is one call of `addmm`."""
    layers = sum(isinstance(one, FoldingLinear) for one in model.modules())
    with mock.patch.object(torch, "addmm", wraps=torch.addmm) as folds:
        update()
    return folds.call_count, layers


def _agree(one: list[Tensor], other: list[Tensor]) -> None:
    for a, b in zip(one, other, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4 * float(a.abs().max()))


if __name__ == "__main__":
    main()
