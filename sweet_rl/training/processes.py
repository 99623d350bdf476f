"""Several processes that compute one update: how they meet, divide rows, and exchange gradients and weights.

Every process draws the same rows and takes its share; gradients are added up. So an update does not depend on the
number of processes, unlike the published mean, which made gradients P times smaller. All processes call these functions.

Published behaviour: docs/published/archer.md#loop.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Final, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn

from sweet_rl.errors import SweetRLError

# How long a process waits for the others: the first one plays meanwhile (published: meant as 5 hours).
PATIENCE: Final = timedelta(hours=5)

T = TypeVar("T")


def world_size() -> int:
    """Processes that learn together: those that a launcher started; 1 without one."""
    return dist.get_world_size() if dist.is_initialized() else int(os.environ.get("WORLD_SIZE", "1"))


def rank() -> int:
    """Number of this process among them; 0 without a launcher."""
    return dist.get_rank() if dist.is_initialized() else int(os.environ.get("RANK", "0"))


def is_main() -> bool:
    """Whether this process plays, writes and logs."""
    return rank() == 0


def from_main(make: Callable[[], T]) -> T:
    """What `make` returns in the first process, in all of them; each raises what that one does."""
    if world_size() == 1:
        return make()
    box: list[Any] = [None, None]
    if is_main():
        try:
            box[0] = make()
        except BaseException as error:
            told = (
                error
                if isinstance(error, SweetRLError)
                else RuntimeError(f"the first process stopped: {error}")
            )
            dist.broadcast_object_list([None, told])
            raise
    dist.broadcast_object_list(box)
    if box[1] is not None:
        raise box[1]
    return box[0]  # type: ignore[no-any-return]


@contextmanager
def process_group() -> Iterator[None]:
    """Meet the other processes of a launcher (`accelerate launch`, `torchrun`), if any, while the block lasts."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1 or dist.is_initialized():
        yield
        return
    os.environ.pop("ACCELERATE_USE_FSDP", None)  # transformers would load weights in the first process only
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    backends = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    dist.init_process_group(backends, timeout=PATIENCE)
    try:
        yield
    finally:
        dist.destroy_process_group()


def is_sharded(tensor: Tensor) -> bool:
    return getattr(tensor, "device_mesh", None) is not None


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
    """Add up gradients over all processes; those of sharded parameters were when they were made (`shard`)."""
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
    """Add up gradients over all processes (where there is none, it is 0), clip them, `check` their norm, and step."""
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
