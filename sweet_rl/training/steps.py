"""Which rows an update has, how they become micro-batches for which memory suffices, and its learning rate.

Published behaviour: docs/published/sweet_rl.md#preference-training.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass
from typing import Any, TypeVar

import numpy as np
import torch
from torch.utils.data import Dataset

from sweet_rl.errors import ServiceError, UsageError, first_line
from sweet_rl.training.batches import common_prefix, in_order
from sweet_rl.training.encoding import Encoded
from sweet_rl.training.processes import rank, world_size
from sweet_rl.training.settings import TrainSettings

# Some rows, of one optimizer step for example, to micro-batches, for all processes together.
Packs = Callable[[list[int]], list[list[int]]]
Item = TypeVar("Item")
Result = TypeVar("Result")

ROWS = 8  # of a micro-batch where nothing is said about it
_STEPS_SORTED_TOGETHER = 16  # More would save little padding, and make steps less random


class Positions(Dataset[tuple[Encoded, float]]):
    """The meaning of the sampler's (position, scale)."""

    def __init__(self, rows: Sequence[Encoded]) -> None:
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, place: tuple[int, float]) -> tuple[Encoded, float]:
        return self._rows[place[0]], place[1]


@dataclass(eq=False)
class StepSampler:
    """Micro-batches of one process for one epoch, as lists of (position, scale).

    Which rows an optimizer step has does not depend on how they are packed. It is `train_batch` rows (the
    epoch's last one may have fewer), whose scale makes its loss the mean over their weights. Each step has
    exactly `accumulation` micro-batches on each of `world` processes, in every epoch: what a step lacks is
    filled up with the shortest row, with scale 0, because a sharded model needs all processes at every pass.
    """

    lengths: Sequence[int]
    _: KW_ONLY
    packs: Packs
    train_batch: int
    seed: int
    epochs: int = 1
    shuffle: bool = True
    group_by_length: bool = True
    drop_last: bool = False
    rank: int = 0
    world: int = 1
    weights: Sequence[float] | None = None
    groups: Sequence[int] | None = None  # rows of one group stay together
    epoch: int = 0  # each has an order of its own

    def __post_init__(self) -> None:
        most = max(len(self.packs(rows)) for epoch in range(self.epochs) for rows in self._steps(epoch))
        self.accumulation = -(-most // self.world)  # Micro-batches of one step on one process

    @property
    def steps(self) -> int:
        """Optimizer steps of one epoch."""
        whole, rest = divmod(len(self.lengths), self.train_batch)
        return whole + (rest > 0 and not self.drop_last)

    def __len__(self) -> int:
        return self.steps * self.accumulation

    def __iter__(self) -> Iterator[list[tuple[int, float]]]:
        filler = min(range(len(self.lengths)), key=self.lengths.__getitem__)
        for rows in self._steps(self.epoch):
            weight = len(rows) if self.weights is None else sum(self.weights[row] for row in rows)
            mine = self.packs(rows)[self.rank :: self.world]
            yield from (
                [(row, self.world / weight) for row in pack] for pack in mine
            )  # gradients are averaged
            yield from ([(filler, 0.0)] for _ in range(self.accumulation - len(mine)))

    def _steps(self, epoch: int) -> list[list[int]]:
        members: dict[int, list[int]] = {}
        for row, group in enumerate(range(len(self.lengths)) if self.groups is None else self.groups):
            members.setdefault(group, []).append(row)
        groups, draw, size = list(members.values()), random.Random(f"{self.seed}/{epoch}"), self.train_batch
        if self.shuffle:
            draw.shuffle(groups)
        if self.group_by_length:  # the longest first among those of many steps at a time
            given, groups, window, rows = groups, [], list[list[int]](), 0
            for number, some in enumerate(given, start=1):
                window.append(some)
                rows += len(some)
                if rows >= size * _STEPS_SORTED_TOGETHER or number == len(given):
                    groups += sorted(window, key=lambda one: -max(self.lengths[row] for row in one))
                    window, rows = [], 0
        order = [row for group in groups for row in group]
        steps = [order[start : start + size] for start in range(0, len(order), size)][: self.steps]
        if self.group_by_length and self.shuffle:
            draw.shuffle(steps)
        return steps


def history_groups(rows: Sequence[Encoded]) -> list[int]:
    """A number for each row; the same for rows whose first side has the same prompt (text, without one)."""
    numbers: dict[tuple[int, ...], int] = {}
    firsts = (row.branches[0] for row in rows)
    return [
        numbers.setdefault(first.ids[: first.prompt_length] or first.ids, len(numbers)) for first in firsts
    ]


def by_tokens(
    rows: Sequence[Encoded], order: Sequence[int], *, budget: int, share: bool, world: int
) -> Packs:
    """Packs of at most about `budget` tokens, without padding, the largest first."""
    ids = [[np.asarray(branch.ids, dtype=np.uint32) for branch in row.branches] for row in rows]

    def new_tokens(row: int, before: int | None = None) -> int:
        """Tokens of a row that no branch of it shares with another, or with the row before, by half of the longer."""
        known, new = [] if before is None else ids[before], 0
        for number, branch in enumerate(ids[row]):
            others = (*known, *ids[row][:number]) if share else ()
            shared = max((common_prefix(branch, other) for other in others), default=0)
            new += len(branch) - (shared if 2 * shared >= len(branch) else 0)
        return new

    alone = [new_tokens(row) for row in range(len(rows))]
    for one, tokens in zip(rows, alone, strict=True):
        if tokens > budget:
            raise UsageError(
                f"{one.row.place} takes {tokens:,} tokens, more than --max_tokens_per_batch {budget:,}. "
                "Raise it, or lower --max_len."
            )

    def packed(near: list[int], limit: float) -> list[tuple[int, list[int]]]:
        """Neighbours put together until the limit is reached, with the tokens of each pack."""
        found: list[tuple[int, list[int]]] = []
        for row in near:
            new = new_tokens(row, found[-1][1][-1]) if found else alone[row]
            if found and found[-1][0] + new <= limit:
                found[-1] = (found[-1][0] + new, [*found[-1][1], row])
            else:
                found.append((alone[row], [row]))
        return found

    def packs(rows: list[int]) -> list[list[int]]:
        near = sorted(rows, key=order.__getitem__)
        found = packed(near, budget)
        wanted = -(-len(found) // world) * world
        if wanted > len(found):  # some process would have one less
            even = max(sum(tokens for tokens, _ in found) / wanted, *(alone[row] for row in near))
            more = packed(near, min(budget, even))
            found = more if len(more) <= wanted else found
        return [members for _, members in sorted(found, key=lambda pack: -pack[0])]

    return packs


def packs_of(rows: Sequence[Encoded], settings: TrainSettings, *, share: bool, world: int) -> Packs:
    """How rows are divided into micro-batches: by tokens, or as equally as possible by their count."""
    order = [-row.length for row in rows]
    if share:  # rows with a common prefix are neighbours
        for place, row in enumerate(in_order([np.array(row.branches[0].ids, np.uint32) for row in rows])):
            order[row] = place
    if settings.max_tokens_per_batch is not None:
        return by_tokens(rows, order, budget=settings.max_tokens_per_batch, share=share, world=world)
    most = (settings.micro_train_batch_size or ROWS) * world

    def packs(some: list[int]) -> list[list[int]]:
        near = sorted(some, key=order.__getitem__)
        count = min(len(near), -(-len(near) // most) * world)
        return [near[len(near) * i // count : len(near) * (i + 1) // count] for i in range(count)]

    return packs


def steps_of(settings: TrainSettings, rows: Sequence[Encoded], *, share: bool) -> StepSampler:
    """The optimizer steps of a run, for this process."""
    world = world_size()
    return StepSampler(
        [row.length for row in rows],
        packs=packs_of(rows, settings, share=share, world=world),
        weights=[row.weight for row in rows],
        groups=history_groups(rows) if share and settings.group_by_history else None,
        train_batch=settings.train_batch_size,
        epochs=settings.max_epochs,
        seed=settings.seed,
        shuffle=settings.shuffle,
        group_by_length=bool(settings.group_by_length),
        drop_last=settings.published,
        rank=rank(),
        world=world,
    )


def padded_batches(
    lengths: Sequence[int], most: int, *, order: Sequence[int] | None = None, worth_tokens: float = math.inf
) -> Iterator[list[int]]:
    """Numbers of sequences in batches of `most` tokens at most, padding included; a longer one is alone.

    `order` is one in which neighbours share a batch, by default the longest first. A batch of `worth_tokens`
    does not wait for sequences that would be padded by a tenth.
    """
    batch: list[int] = []
    longest = 0
    for number in sorted(range(len(lengths)), key=lambda n: -lengths[n]) if order is None else order:
        longest = max(longest, lengths[number])
        full = (len(batch) + 1) * longest > most
        enough = len(batch) * longest >= worth_tokens and lengths[number] < 0.9 * longest
        if batch and (full or enough):
            yield batch
            batch, longest = [], lengths[number]
        batch.append(number)
    if batch:
        yield batch


def shared_batches(
    order: Sequence[int], lengths: Sequence[int], shared: Sequence[int], most: int
) -> Iterator[list[int]]:
    """Numbers in an order in batches of `most` tokens at most; what each shares with the one before counts once."""
    batch: list[int] = []
    size = 0
    for number, known in zip(order, shared, strict=True):
        new = lengths[number] - known if batch else lengths[number]
        if batch and size + new > most:
            yield batch
            batch, size, new = [], 0, lengths[number]
        batch.append(number)
        size += new
    if batch:
        yield batch


_DECAYS: dict[str, Callable[[float], float]] = {
    "cosine_with_floor": lambda progress: 0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi * progress)),
    "linear": lambda progress: 1 - progress,
    "constant": lambda _: 1.0,
}


def rate_factor(name: str, *, steps: int, warmup_ratio: float, published: bool) -> Callable[[int], float]:
    """Factors of updates 0, 1, ...: a linear warm-up of ceil(warmup_ratio * steps) updates, then the decay.

    The published warm-up begins at 0, so its first update changes nothing; ours begins one step above.
    """
    if name not in _DECAYS:
        raise UsageError(f"--lr_scheduler must be one of {', '.join(_DECAYS)}, got {name!r}.")
    warmup = math.ceil(warmup_ratio * steps)
    decay = _DECAYS[name]

    def factor(update: int) -> float:
        if update < warmup:
            return update / warmup if published else (update + 1) / (warmup + 1)
        return decay(min(1.0, (update - warmup) / max(1, steps - warmup)))

    return factor


MOST_TOKENS = 32_768  # No more than that, whatever is free: other programs may want it
# Share of a GPU's memory that stays free: it comes in pieces, and other programs use the same GPU.
MARGIN = 0.1
PADDING = 0.2  # Share of a micro-batch's places that are left for padding, which packs do not count
CARD = "cuda"  # The kind of device whose memory is measured
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


def own_passes(
    batches: Sequence[Sequence[Item]],
    work: Callable[[Sequence[Item]], Result],
    *,
    world: int,
    divides: bool = True,
) -> Iterator[tuple[bool, Result]]:
    """What `work` gives for every `world`-th batch, and whether that counts: all processes make as many passes.

    A sharded model needs all of them at every pass. One process halves what memory does not suffice for, if it `divides`.
    """
    for start in range(0, len(batches), world):
        mine = start + (rank() if world > 1 else 0)
        some = batches[min(mine, len(batches) - 1)]
        for result in by_halves(some, work) if world == 1 and divides else [work(some)]:
            yield mine < len(batches), result


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
    show what a further token takes. Raises torch's error where the longest row alone is too large.
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
