"""Log-probabilities of all pairs under a model that is not being trained.

The reference is asked once, before training, so that it need not stay in memory. It is the base model itself,
before an adapter is put on it, unless another one is named.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from sweet_rl.training.batches import Collator
from sweet_rl.training.encoding import EncodedPair
from sweet_rl.training.forward import PairForward


class Processes(NamedTuple):
    """This process among those that share the work."""

    rank: int = 0
    world: int = 1


def score_pairs(
    model: Any,
    pairs: Sequence[EncodedPair],
    collator: Collator,
    *,
    forward: PairForward,
    batches: Sequence[list[int]],
    device: Any,
    processes: Processes,
    bf16: bool = False,
) -> Tensor:
    """[pairs, 3] in float32 on the CPU: chosen, rejected, and the chosen one's NLL, in the order of `pairs`.

    `batches` are places in `pairs`.
    Every process takes every other batch, and all make the same number of passes, as a sharded model needs.
    """
    rank, world = processes
    result = torch.zeros(len(pairs), 3)
    training = model.training
    model.eval()
    for start in range(0, len(batches), world):
        mine = start + rank
        rows = batches[min(mine, len(batches) - 1)]
        batch = collator([(pairs[row], 0.0) for row in rows])
        moved: Any = {name: tensor.to(device) for name, tensor in batch.items()}  # type: ignore[attr-defined]
        with torch.inference_mode(), torch.autocast(torch.device(device).type, torch.bfloat16, enabled=bf16):
            logps, _ = forward(model, moved)
        if mine < len(batches):
            result[rows] = torch.stack(list(logps), dim=-1).float().cpu()
    model.train(training)
    return _summed(result, device, world)


def _summed(result: Tensor, device: Any, world: int) -> Tensor:
    if world == 1:
        return result
    shared = result.to(device)
    torch.distributed.all_reduce(shared)
    return shared.cpu()
