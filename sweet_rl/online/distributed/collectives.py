"""Several processes that compute one update: which rows each one takes, and sums over all.

Every process draws the same rows and takes its share; gradients are added up. So an update does not depend
on the number of processes, unlike the published mean, which made gradients P times smaller. Importing this
module imports torch.

Published behaviour: docs/published/archer.md#loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import torch
import torch.distributed as dist
from torch import Tensor, nn

from sweet_rl.online.distributed.fsdp import is_sharded
from sweet_rl.online.distributed.processes import world_size


def rank() -> int:
    """Number of this process among those of the launcher; 0 without one."""
    return dist.get_rank() if dist.is_initialized() else 0


def own_rows(count: int) -> list[int]:
    """Numbers of the rows that this process takes."""
    return list(range(rank(), count, world_size()))


def all_reduce_sum(tensor: Tensor) -> Tensor:
    """The sum over all processes, in place; the same on each."""
    if world_size() > 1:
        dist.all_reduce(tensor)
    return tensor


def all_reduce_max(count: int, device: torch.device) -> int:
    """The largest of the counts that the processes give, equal on all of them."""
    if world_size() == 1:
        return count
    box = torch.tensor(count, device=device)
    dist.all_reduce(box, dist.ReduceOp.MAX)
    return int(box)


def all_reduce_gradients(parameters: Sequence[nn.Parameter]) -> None:
    """Add up gradients over all processes, in one message for each kind of number.

    Those of sharded parameters have been added up when they were made (`fsdp.shard`).
    """
    if world_size() == 1:
        return
    parameters = [parameter for parameter in parameters if not is_sharded(parameter)]
    for dtype in dict.fromkeys(parameter.dtype for parameter in parameters):  # in the same order everywhere
        same = [parameter for parameter in parameters if parameter.dtype == dtype]
        grads = [p.grad if p.grad is not None else torch.zeros_like(p) for p in same]
        flat = all_reduce_sum(torch.cat([grad.flatten() for grad in grads]))
        parts = torch.split(flat, [parameter.numel() for parameter in same])
        for parameter, part in zip(same, parts, strict=True):
            parameter.grad = part.view_as(parameter)


def clipped_step(
    optimizer: torch.optim.Optimizer,
    parameters: Sequence[nn.Parameter],
    max_norm: float,
    check: Callable[[float], None],
) -> None:
    """Add up gradients over all processes, clip them together, `check` their norm, and step.

    Where there is no gradient, it is 0.
    """
    for parameter in parameters:
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
    all_reduce_gradients(parameters)
    check(float(nn.utils.clip_grad_norm_(parameters, max_norm)))
    optimizer.step()


def broadcast_parameters(modules: Iterable[nn.Module]) -> None:
    """Give every process the weights and buffers of the first; sharded parameters are alike already."""
    if world_size() == 1:
        return
    for module in modules:
        for tensor in [*module.parameters(), *module.buffers()]:
            if not is_sharded(tensor):
                dist.broadcast(tensor.data, src=0)
