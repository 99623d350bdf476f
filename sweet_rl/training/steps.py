"""The order in which rows are trained on: optimizer steps, and their micro-batches on every process."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from torch.utils.data import Dataset

from sweet_rl.errors import UsageError
from sweet_rl.training.batches import Encoded
from sweet_rl.training.trees import common_prefix, in_order

Packs = Callable[[list[int]], list[list[int]]]
"""The rows of one optimizer step to micro-batches, for all processes together."""

_STEPS_SORTED_TOGETHER = 16
"""More would save little padding, and make steps less random."""


class Positions(Dataset[tuple[Encoded, float]]):
    """What the sampler's (position, scale) stand for."""

    def __init__(self, rows: Sequence[Encoded]) -> None:
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, place: tuple[int, float]) -> tuple[Encoded, float]:
        position, scale = place
        return self._rows[position], scale


class StepSampler:
    """Micro-batches of one process for one epoch, as lists of (position, scale).

    Which rows an optimizer step has does not depend on how they are packed. It is `train_batch` rows (the
    epoch's last one may have fewer), whose scale makes its loss the mean over their weights. Each step has
    exactly `accumulation` micro-batches on each of `world` processes, in every epoch: what a step lacks is
    filled up with the shortest row, with scale 0, because a sharded model needs all processes at every pass.

    Args:
        lengths: tokens of each row.
        packs: divides the rows of a step.
        weights: what each row counts for; default all the same.
        groups: rows with the same number stay together where a step's size allows; default each by itself.
        train_batch: rows of one optimizer step, over all processes.
        epochs: how many there will be; `accumulation` is enough for all of them.
        seed: with the epoch, decides the order.
        shuffle: a new order for each epoch; otherwise the order of the file.
        group_by_length: steps of rows of like length, drawn from the rows of many steps.
        drop_last: leave out an incomplete last step (published).
        rank: of this process.
        world: number of processes.
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
        self._groups = _members(range(len(lengths)) if groups is None else groups)
        self._train_batch = train_batch
        self._seed, self._epoch = seed, 0
        self._shuffle, self._group, self._drop_last = shuffle, group_by_length, drop_last
        self._rank, self._world = rank, world
        self._filler = min(range(len(lengths)), key=lengths.__getitem__)
        most = max(len(packs(rows)) for epoch in range(epochs) for rows in self._steps(epoch))
        self.accumulation = -(-most // world)
        """Micro-batches of one step on one process."""

    @property
    def steps(self) -> int:
        """Optimizer steps of one epoch."""
        whole, rest = divmod(len(self._lengths), self._train_batch)
        return whole + (rest > 0 and not self._drop_last)

    def __len__(self) -> int:
        return self.steps * self.accumulation

    def set_epoch(self, epoch: int) -> None:
        """Choose the order of epoch 0, 1, ..."""
        self._epoch = epoch

    def __iter__(self) -> Iterator[list[tuple[int, float]]]:
        for rows in self._steps(self._epoch):
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
        order = [row for group in groups for row in group]
        if self._group:
            order = [row for window in _windows(groups, size) for row in self._by_length(window)]
        steps = [order[start : start + size] for start in range(0, len(order), size)][: self.steps]
        if self._group and self._shuffle:
            draw.shuffle(steps)
        return steps

    def _by_length(self, groups: list[list[int]]) -> Iterator[int]:
        longest_first = sorted(groups, key=lambda group: -max(self._lengths[row] for row in group))
        return (row for group in longest_first for row in group)


def by_count(order: Sequence[int], *, most: int, world: int = 1) -> Packs:
    """Packs of at most `most` rows, as equal as possible over the processes.

    Args:
        order: each row's place in an order in which neighbours fit together well.
        most: rows of one pack.
        world: number of processes.
    """

    def packs(rows: list[int]) -> list[list[int]]:
        near = sorted(rows, key=order.__getitem__)
        count = min(len(near), -(-len(near) // (most * world)) * world)
        return [near[len(near) * i // count : len(near) * (i + 1) // count] for i in range(count)]

    return packs


def by_tokens(
    rows: Sequence[Encoded], order: Sequence[int], *, budget: int, share: bool = True, world: int = 1
) -> Packs:
    """Packs of at most about `budget` tokens, the largest first.

    Args:
        rows: all rows.
        order: each row's place in an order in which those that begin alike are neighbours.
        budget: tokens of one pack, without padding.
        share: tokens that rows share count once.
        world: number of processes; a step is divided so that all have something to do.

    Raises:
        UsageError: a row alone is larger; names it.
    """
    ids = [[np.asarray(side.ids, dtype=np.uint32) for side in row.sides] for row in rows]

    def new_tokens(row: int, before: int | None = None) -> int:
        if not share:
            return sum(map(len, ids[row]))
        return _new_tokens(ids[row], [] if before is None else ids[before])

    alone = list(map(new_tokens, range(len(rows))))
    for row, tokens in zip(rows, alone, strict=True):
        if tokens > budget:
            raise UsageError(
                f"{row.row.place} takes {tokens:,} tokens, more than --max_tokens_per_batch {budget:,}. "
                "Raise it, or lower --max_len."
            )

    def packed(near: list[int], limit: float) -> list[tuple[int, list[int]]]:
        found: list[tuple[int, list[int]]] = []
        for row in near:
            new = new_tokens(row, found[-1][1][-1]) if found else alone[row]
            if found and found[-1][0] + new <= limit:
                found[-1] = (found[-1][0] + new, [*found[-1][1], row])
            else:
                found.append((alone[row], [row]))
        return found

    def packs(step: list[int]) -> list[list[int]]:
        near = sorted(step, key=order.__getitem__)
        found = packed(near, budget)
        wanted = -(-len(found) // world) * world
        if wanted > len(found):  # some process would have one less
            even = max(sum(tokens for tokens, _ in found) / wanted, *(alone[row] for row in near))
            more = packed(near, min(budget, even))
            found = more if len(more) <= wanted else found
        return [members for _, members in sorted(found, key=lambda pack: -pack[0])]

    return packs


def history_groups(rows: Sequence[Encoded]) -> list[int]:
    """A number for each row; the same for rows whose first side has the same prompt (text, without one)."""
    numbers: dict[tuple[int, ...], int] = {}
    firsts = (row.sides[0] for row in rows)
    return [
        numbers.setdefault(first.ids[: first.prompt_length] or first.ids, len(numbers)) for first in firsts
    ]


def prefix_order(rows: Sequence[Encoded]) -> list[int]:
    """Each row's place when rows that begin alike are neighbours."""
    places = [0] * len(rows)
    for place, row in enumerate(in_order([np.asarray(row.sides[0].ids, dtype=np.uint32) for row in rows])):
        places[row] = place
    return places


def _new_tokens(sides: Sequence[np.ndarray], before: Sequence[np.ndarray]) -> int:
    """Tokens of some sequences that are not shared with those before them, in any of both.

    What two share by less than half of the longer is not counted as shared: it may stand there twice
    (`sweet_rl.training.trees.grow`).
    """
    new = 0
    for number, ids in enumerate(sides):
        shared = max((common_prefix(ids, other) for other in (*before, *sides[:number])), default=0)
        new += len(ids) - (shared if 2 * shared >= len(ids) else 0)
    return new


def _windows(groups: Sequence[list[int]], size: int) -> Iterator[list[list[int]]]:
    """Groups of many steps at a time."""
    window: list[list[int]] = []
    rows = 0
    for group in groups:
        window.append(group)
        rows += len(group)
        if rows >= size * _STEPS_SORTED_TOGETHER:
            yield window
            window, rows = [], 0
    yield window


def _members(groups: Sequence[int]) -> list[list[int]]:
    members: dict[int, list[int]] = {}
    for row, group in enumerate(groups):
        members.setdefault(group, []).append(row)
    return list(members.values())
