"""Encoded rows to tensors, and the order in which they are trained on.

Axes: S sides (the chosen of all pairs, then the rejected), T positions, B rows (pairs, or single texts).
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypedDict

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from sweet_rl.training.encoding import EncodedPair, EncodedText, Side
from sweet_rl.training.settings import Reduction


class Encoded(Protocol):
    """A row that can be trained on: a pair, or a single text."""

    @property
    def index(self) -> int:
        """Its number among all rows of the data."""
        ...

    @property
    def row(self) -> Any:
        """What it was made from; knows its `place`."""
        ...

    @property
    def sides(self) -> tuple[Side, ...]:
        """What is read of it."""
        ...

    @property
    def length(self) -> int:
        """Tokens that it takes in a batch."""
        ...

    @property
    def weight(self) -> int:
        """What it counts for in its optimizer step's mean."""
        ...


class Batch(TypedDict):
    """One micro-batch of pairs. Sides are padded on the right; padding has weight 0 everywhere.

    A response's reduced log-probability is the weighted sum of its tokens' log-probabilities, whatever the
    reduction; `scale_B` is what each pair's loss counts for in its optimizer step.
    """

    ids_ST: Tensor
    attention_ST: Tensor
    weights_ST: Tensor
    nll_weights_BT: Tensor
    reference_SB: Tensor
    scale_B: Tensor
    index_B: Tensor


@dataclass(frozen=True, slots=True)
class Collator:
    """Pairs to a batch, with the reference's log-probabilities where they are known."""

    reduction: Reduction
    pad_id: int
    reference: Tensor | None = None
    """[pairs, 2]: chosen and rejected, by `EncodedPair.index`."""

    def __call__(self, items: Sequence[tuple[EncodedPair, float]]) -> Batch:
        """A batch of (pair, scale); a pair with scale 0 fills a place and trains nothing."""
        pairs = [pair for pair, _ in items]
        sides = [*(pair.chosen for pair in pairs), *(pair.rejected for pair in pairs)]
        ids, attention = _stacked(sides, self.pad_id)
        weights = np.zeros(ids.shape, dtype=np.float32)
        nll = np.zeros((len(pairs), ids.shape[1]), dtype=np.float32)
        for row, side in enumerate(sides):
            _weigh(weights[row], side, self.reduction)
            if row < len(pairs):
                _weigh_mean(nll[row], side)
        index = torch.tensor([pair.index for pair in pairs])
        reference = torch.zeros(2, len(pairs)) if self.reference is None else self.reference[index].T
        return Batch(
            ids_ST=ids,
            attention_ST=attention,
            weights_ST=torch.from_numpy(weights),
            nll_weights_BT=torch.from_numpy(nll),
            reference_SB=reference,
            scale_B=torch.tensor([scale for _, scale in items], dtype=torch.float32),
            index_B=index,
        )


class TextBatch(TypedDict):
    """One micro-batch of texts; `mask_BT` is 1 at tokens to imitate."""

    ids_BT: Tensor
    attention_BT: Tensor
    mask_BT: Tensor
    scale_B: Tensor
    index_B: Tensor


@dataclass(frozen=True, slots=True)
class TextCollator:
    """Texts to a batch."""

    pad_id: int

    def __call__(self, items: Sequence[tuple[EncodedText, float]]) -> TextBatch:
        """A batch of (text, scale); a text with scale 0 fills a place and trains nothing."""
        sides = [text.side for text, _ in items]
        ids, attention = _stacked(sides, self.pad_id)
        mask = torch.zeros(ids.shape)
        for row, side in enumerate(sides):
            for start, end in side.scored:
                mask[row, start:end] = 1
        return TextBatch(
            ids_BT=ids,
            attention_BT=attention,
            mask_BT=mask,
            scale_B=torch.tensor([scale for _, scale in items], dtype=torch.float32),
            index_B=torch.tensor([text.index for text, _ in items]),
        )


def _stacked(sides: Sequence[Side], pad_id: int) -> tuple[Tensor, Tensor]:
    """Ids and attention of one length, padded on the right."""
    length = max(len(side.ids) for side in sides)
    ids = torch.full((len(sides), length), pad_id, dtype=torch.int64)
    attention = torch.zeros_like(ids)
    for row, side in enumerate(sides):
        ids[row, : len(side.ids)] = torch.tensor(side.ids)
        attention[row, : len(side.ids)] = 1
    return ids, attention


def _weigh(row: np.ndarray, side: Side, reduction: Reduction) -> None:
    spans = side.scored
    total = sum(end - start for start, end in spans)
    denominator = total if side.denominator is None else side.denominator
    if not total and not denominator and reduction != "sum":
        row[1 : len(side.ids)] = np.nan  # the published mean over nothing
    for start, end in spans:
        by = {"sum": 1, "trajectory": denominator, "turn": end - start}[reduction]
        row[start:end] = 1.0 / by


def _weigh_mean(row: np.ndarray, side: Side) -> None:
    spans = side.scored
    total = sum(end - start for start, end in spans)
    if not total:
        row[1 : len(side.ids)] = np.nan  # the published mean over nothing; our encoder leaves such pairs out
    for start, end in spans:
        row[start:end] = 1.0 / total


class Positions(Dataset[tuple[Encoded, float]]):
    """What the sampler's (position, scale) stand for."""

    def __init__(self, rows: Sequence[Encoded]) -> None:
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, place: tuple[int, float]) -> tuple[Encoded, float]:
        position, scale = place
        return self._rows[position], scale


def length_batches(rows: Sequence[Encoded], size: int) -> list[list[int]]:
    """Positions in `rows`, longest first, in batches of `size`: for passes where the order is free."""
    order = sorted(range(len(rows)), key=lambda i: -rows[i].length)
    return [order[start : start + size] for start in range(0, len(order), size)]


class StepSampler:
    """Micro-batches of one process for one epoch, as lists of (position, scale); the same for any micro size.

    An optimizer step is `train_batch` rows (the epoch's last one may have fewer), whose scale makes its loss
    the mean over their weights. Each step has exactly `accumulation` micro-batches on each of `world`
    processes: its rows are sorted by length and dealt out evenly; an empty place is filled by a row with
    scale 0.

    Args:
        lengths: tokens of each row.
        weights: what each row counts for; default all the same.
        train_batch: rows of one optimizer step, over all processes.
        accumulation: micro-batches of one step on one process.
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
        train_batch: int,
        accumulation: int,
        seed: int,
        shuffle: bool = True,
        group_by_length: bool = True,
        drop_last: bool = False,
        rank: int = 0,
        world: int = 1,
        weights: Sequence[float] | None = None,
    ) -> None:
        self._lengths = lengths
        self._weights = [1.0] * len(lengths) if weights is None else weights
        self._train_batch = train_batch
        self._accumulation = accumulation
        self._seed, self._epoch = seed, 0
        self._shuffle, self._group, self._drop_last = shuffle, group_by_length, drop_last
        self._rank, self._world = rank, world

    @property
    def steps(self) -> int:
        """Optimizer steps of one epoch."""
        whole, rest = divmod(len(self._lengths), self._train_batch)
        return whole + (rest > 0 and not self._drop_last)

    def __len__(self) -> int:
        return self.steps * self._accumulation

    def set_epoch(self, epoch: int) -> None:
        """Choose the order of epoch 0, 1, ..."""
        self._epoch = epoch

    def __iter__(self) -> Iterator[list[tuple[int, float]]]:
        for rows in self._steps():
            yield from self._micro_batches(rows)

    def _steps(self) -> list[list[int]]:
        order = list(range(len(self._lengths)))
        draw = random.Random(f"{self._seed}/{self._epoch}")
        if self._shuffle:
            draw.shuffle(order)
        size = self._train_batch
        if self._group:
            many = size * _STEPS_SORTED_TOGETHER
            order = [
                row
                for start in range(0, len(order), many)
                for row in sorted(order[start : start + many], key=lambda row: -self._lengths[row])
            ]
        steps = [order[start : start + size] for start in range(0, len(order), size)][: self.steps]
        if self._group and self._shuffle:
            draw.shuffle(steps)
        return steps

    def _micro_batches(self, rows: list[int]) -> Iterator[list[tuple[int, float]]]:
        if self._group:
            rows = sorted(rows, key=lambda row: -self._lengths[row])
        scale = self._world / sum(self._weights[row] for row in rows)  # gradients are averaged over processes
        for number in range(self._accumulation):
            start, end = (len(rows) * i // self._accumulation for i in (number, number + 1))
            mine = rows[start:end][self._rank :: self._world]
            yield [(row, scale) for row in mine] or [(rows[0], 0.0)]


_STEPS_SORTED_TOGETHER = 16
"""More would save little padding, and make steps less random."""
