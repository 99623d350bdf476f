"""Memory for forward and backward passes: what a GPU has room for, and what is done beyond that."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import torch

from sweet_rl.errors import ServiceError, first_line
from sweet_rl.training.encoding import Encoded

Item = TypeVar("Item")
Result = TypeVar("Result")

MOST_TOKENS = 32_768
"""No more than that, whatever is free: other programs may want it."""
MARGIN = 0.1
"""Share of a GPU's memory that stays free: it comes in pieces, and other programs use the same GPU."""
PADDING = 0.2
"""Share of a micro-batch's places that are left for padding, which packs do not count."""
CARD = "cuda"
"""The kind of device whose memory is measured."""
REPAIR = (
    "Use --gradient_checkpointing True or --bf16 True, lower --max_tokens_per_batch, "
    "--micro_train_batch_size or --max_len, or end what else uses the memory."
)

_EXHAUSTED = re.compile(r"out of memory|can't allocate memory|not enough memory|ALLOC_FAILED", re.IGNORECASE)


def exhausted(error: BaseException) -> bool:
    """Whether an error is torch's way of saying that memory, of a GPU or the machine's, does not suffice."""
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return True
    return isinstance(error, RuntimeError) and _EXHAUSTED.search(str(error)) is not None


@contextmanager
def explained(repair: str) -> Iterator[None]:
    """Raises ServiceError, with what to do about it, where memory does not suffice."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not exhausted(error):
            raise
        raise ServiceError(f"Out of memory: {first_line(error)[:200]} {repair}") from error


def by_halves(items: Sequence[Item], work: Callable[[Sequence[Item]], Result]) -> Iterator[Result]:
    """What `work` gives for all items, or, where memory does not suffice, for parts of them one by one."""
    waiting = [items]
    while waiting:
        part = waiting.pop()
        try:
            result = work(part)
        except (RuntimeError, MemoryError) as error:
            if len(part) == 1 or not exhausted(error):
                raise
        else:
            yield result
            continue
        free_cache()  # here the error is gone, and with it what the pass had made
        waiting += [part[len(part) // 2 :], part[: len(part) // 2]]


def places(batch: Mapping[str, Any]) -> int:
    """Tokens of a batch of `sweet_rl.training.batches`, padding included: what its memory goes by."""
    number: int = (batch["ids_RT"] if "ids_RT" in batch else batch["ids_ST"]).numel()
    return number


def free_cache() -> None:
    """Give back what torch keeps for later; nothing without a GPU."""
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def tokens_that_fit(
    rows: Sequence[Encoded], work: Callable[[Sequence[Encoded]], int], *, reserve: int, device: torch.device
) -> int:
    """Tokens of a micro-batch for which a GPU, with the model on it, has room beside `reserve` bytes.

    `work` is a forward and backward pass over some rows, and gives its `places`. Passes over the longest rows
    show what a further token takes, with this model, attention and way of keeping activations; a place in a
    shorter row takes less. Raises torch's error where the longest row alone is too large.
    """

    def measured(count: int) -> tuple[int, int]:
        torch.cuda.reset_peak_memory_stats(device)
        return work(longest[:count]), torch.cuda.max_memory_allocated(device)

    longest = sorted(rows, key=lambda row: -row.length)
    work(longest[:1])  # gradients are there from now on, and what kernels keep
    held = torch.cuda.memory_allocated(device)
    few, least = measured(1)
    needed = max(few, longest[0].length)
    many, most, count = few, least, 1
    try:
        while many < 2 * few and count < len(longest):
            count = min(2 * count, len(longest))
            many, most = measured(count)
    except RuntimeError as error:
        if not exhausted(error):
            raise
        return needed
    a_place = (most - least) / (many - few) if most > least and many > few else (least - held) / few
    free_cache()
    free, whole = torch.cuda.mem_get_info(device)
    kept = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    room = free + kept - reserve - MARGIN * whole - (least - held)
    return max(needed, min(MOST_TOKENS, few + int(room / max(a_place, 1.0))))
