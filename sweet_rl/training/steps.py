"""Which rows an update has, how they become micro-batches, and its learning rate.

Published behaviour: docs/published/sweet_rl.md#preference-training.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from torch.utils.data import Dataset

from sweet_rl.errors import UsageError
from sweet_rl.training.batches import common_prefix, in_order
from sweet_rl.training.encoding import Encoded
from sweet_rl.training.processes import rank, world_size
from sweet_rl.training.settings import TrainSettings

# Some rows, of one optimizer step for example, to micro-batches, for all processes together.
Packs = Callable[[list[int]], list[list[int]]]

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


class StepSampler:
    """Micro-batches of one process for one epoch, as lists of (position, scale).

    Which rows an optimizer step has does not depend on how they are packed. It is `train_batch` rows (the
    epoch's last one may have fewer), whose scale makes its loss the mean over their weights. Each step has
    exactly `accumulation` micro-batches on each of `world` processes, in every epoch: what a step lacks is
    filled up with the shortest row, with scale 0, because a sharded model needs all processes at every pass.
    """

    def __init__(
        self,
        lengths: Sequence[int],
        *,
        packs: Packs,
        train_batch: int,
        seed: int,
        epochs: int = 1,
        shuffle: bool = True,
        group_by_length: bool = True,
        drop_last: bool = False,
        rank: int = 0,
        world: int = 1,
        weights: Sequence[float] | None = None,
        groups: Sequence[int] | None = None,
    ) -> None:
        self._lengths = lengths
        self._packs = packs
        self._weights = [1.0] * len(lengths) if weights is None else weights
        members: dict[int, list[int]] = {}
        for row, group in enumerate(range(len(lengths)) if groups is None else groups):
            members.setdefault(group, []).append(row)
        self._groups = list(members.values())
        self._train_batch = train_batch
        self._seed, self.epoch = seed, 0  # an epoch has an order of its own
        self._shuffle, self._group, self._drop_last = shuffle, group_by_length, drop_last
        self._rank, self._world = rank, world
        self._filler = min(range(len(lengths)), key=lengths.__getitem__)
        most = max(len(packs(rows)) for epoch in range(epochs) for rows in self._steps(epoch))
        self.accumulation = -(-most // world)  # Micro-batches of one step on one process

    @property
    def steps(self) -> int:
        """Optimizer steps of one epoch."""
        whole, rest = divmod(len(self._lengths), self._train_batch)
        return whole + (rest > 0 and not self._drop_last)

    def __len__(self) -> int:
        return self.steps * self.accumulation

    def __iter__(self) -> Iterator[list[tuple[int, float]]]:
        for rows in self._steps(self.epoch):
            scale = self._world / sum(self._weights[row] for row in rows)  # gradients are averaged
            mine = self._packs(rows)[self._rank :: self._world]
            yield from ([(row, scale) for row in pack] for pack in mine)
            yield from ([(self._filler, 0.0)] for _ in range(self.accumulation - len(mine)))

    def _steps(self, epoch: int) -> list[list[int]]:
        groups = list(self._groups)
        draw = random.Random(f"{self._seed}/{epoch}")
        if self._shuffle:
            draw.shuffle(groups)
        size = self._train_batch
        if self._group:
            groups = list(self._by_length(groups))
        order = [row for group in groups for row in group]
        steps = [order[start : start + size] for start in range(0, len(order), size)][: self.steps]
        if self._group and self._shuffle:
            draw.shuffle(steps)
        return steps

    def _by_length(self, groups: Sequence[list[int]]) -> Iterator[list[int]]:
        """The longest first among those of many steps at a time."""
        window: list[list[int]] = []
        rows = 0
        for number, group in enumerate(groups, start=1):
            window.append(group)
            rows += len(group)
            if rows >= self._train_batch * _STEPS_SORTED_TOGETHER or number == len(groups):
                yield from sorted(window, key=lambda some: -max(self._lengths[row] for row in some))
                window, rows = [], 0


def history_groups(rows: Sequence[Encoded]) -> list[int]:
    """A number for each row; the same for rows whose first side has the same prompt (text, without one)."""
    numbers: dict[tuple[int, ...], int] = {}
    firsts = (row.branches[0] for row in rows)
    return [
        numbers.setdefault(first.ids[: first.prompt_length] or first.ids, len(numbers)) for first in firsts
    ]


def by_count(order: Sequence[int], *, most: int, world: int = 1) -> Packs:
    """Packs of at most `most` rows, as equal as possible over processes; neighbours in `order` fit together."""

    def packs(rows: list[int]) -> list[list[int]]:
        near = sorted(rows, key=order.__getitem__)
        count = min(len(near), -(-len(near) // (most * world)) * world)
        return [near[len(near) * i // count : len(near) * (i + 1) // count] for i in range(count)]

    return packs


class ByTokens:
    """Packs of at most about `budget` tokens, without padding, the largest first."""

    def __init__(
        self,
        rows: Sequence[Encoded],
        order: Sequence[int],
        *,
        budget: int,
        share: bool = True,
        world: int = 1,
    ) -> None:
        self._ids = [[np.asarray(branch.ids, dtype=np.uint32) for branch in row.branches] for row in rows]
        self._order, self._budget, self._share, self._world = order, budget, share, world
        self._alone = [self._new_tokens(row) for row in range(len(rows))]
        for row, tokens in zip(rows, self._alone, strict=True):
            if tokens > budget:
                raise UsageError(
                    f"{row.row.place} takes {tokens:,} tokens, more than --max_tokens_per_batch {budget:,}. "
                    "Raise it, or lower --max_len."
                )

    def __call__(self, rows: list[int]) -> list[list[int]]:
        """The rows, divided."""
        near = sorted(rows, key=self._order.__getitem__)
        found = self._packed(near, self._budget)
        wanted = -(-len(found) // self._world) * self._world
        if wanted > len(found):  # some process would have one less
            even = max(sum(tokens for tokens, _ in found) / wanted, *(self._alone[row] for row in near))
            more = self._packed(near, min(self._budget, even))
            found = more if len(more) <= wanted else found
        return [members for _, members in sorted(found, key=lambda pack: -pack[0])]

    def _packed(self, near: list[int], limit: float) -> list[tuple[int, list[int]]]:
        """Neighbours put together until the limit is reached, with the tokens of each pack."""
        found: list[tuple[int, list[int]]] = []
        for row in near:
            new = self._new_tokens(row, found[-1][1][-1]) if found else self._alone[row]
            if found and found[-1][0] + new <= limit:
                found[-1] = (found[-1][0] + new, [*found[-1][1], row])
            else:
                found.append((self._alone[row], [row]))
        return found

    def _new_tokens(self, row: int, before: int | None = None) -> int:
        """Tokens of a row that no branch of it shares with another, or with the row before, by half of the longer."""
        branches, new = self._ids[row], 0
        known = [] if before is None else self._ids[before]
        for number, ids in enumerate(branches):
            others = (*known, *branches[:number]) if self._share else ()
            shared = max((common_prefix(ids, other) for other in others), default=0)
            new += len(ids) - (shared if 2 * shared >= len(ids) else 0)
        return new


def packs_of(rows: Sequence[Encoded], settings: TrainSettings, *, share: bool, world: int) -> Packs:
    """How rows are divided into micro-batches: by count, or by tokens."""
    order = [-row.length for row in rows]
    if share:  # rows with a common prefix are neighbours
        for place, row in enumerate(in_order([np.array(row.branches[0].ids, np.uint32) for row in rows])):
            order[row] = place
    if settings.max_tokens_per_batch is None:
        return by_count(order, most=settings.micro_train_batch_size or ROWS, world=world)
    return ByTokens(rows, order, budget=settings.max_tokens_per_batch, share=share, world=world)


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
