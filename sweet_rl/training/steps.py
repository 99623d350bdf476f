"""The order of rows in training: optimizer steps, and their micro-batches on every process."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from torch.utils.data import Dataset

from sweet_rl.training.batches import Encoded
from sweet_rl.training.packing import Packs

_STEPS_SORTED_TOGETHER = 16
"""More would save little padding, and make steps less random."""


class Positions(Dataset[tuple[Encoded, float]]):
    """The meaning of the sampler's (position, scale)."""

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


def history_groups(rows: Sequence[Encoded]) -> list[int]:
    """A number for each row; the same for rows whose first side has the same prompt (text, without one)."""
    numbers: dict[tuple[int, ...], int] = {}
    firsts = (row.branches[0] for row in rows)
    return [
        numbers.setdefault(first.ids[: first.prompt_length] or first.ids, len(numbers)) for first in firsts
    ]


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
