"""What the first process broadcasts to the others: one plays, all learn."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Final, TypeVar

import torch
import torch.distributed as dist

PATIENCE: Final = timedelta(hours=5)
"""How long a process waits for the others: the first one plays meanwhile (published: meant as 5 hours)."""

T = TypeVar("T")


def world_size() -> int:
    """Processes that learn together; 1 where no launcher started us."""
    return dist.get_world_size() if dist.is_initialized() else 1


def is_main() -> bool:
    """Whether this process plays, writes and logs."""
    return not dist.is_initialized() or dist.get_rank() == 0


def from_main(make: Callable[[], T]) -> T:
    """What `make` returns in the first process, in all of them."""
    if world_size() == 1:
        return make()
    box: list[Any] = [None, None]
    if is_main():
        try:
            box[0] = make()
        except BaseException as error:
            dist.broadcast_object_list([None, RuntimeError(f"the first process stopped: {error}")])
            raise
    dist.broadcast_object_list(box)
    if box[1] is not None:
        raise box[1]
    value: T = box[0]
    return value


@contextmanager
def process_group() -> Iterator[None]:
    """Meet the other processes of a launcher (`accelerate launch`, `torchrun`) while the block lasts.

    Without a launcher there is no other process.
    """
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
