"""How rows become micro-batches: by their number, or by their tokens, shared ones counted once."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from sweet_rl.errors import UsageError
from sweet_rl.training.batches import Encoded
from sweet_rl.training.trees import common_prefix, in_order

Packs = Callable[[list[int]], list[list[int]]]
"""Some rows, of one optimizer step for example, to micro-batches, for all processes together."""


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


class ByTokens:
    """Packs of at most about `budget` tokens, the largest first.

    Args:
        rows: all rows.
        order: each row's place in an order in which those with a common prefix are neighbours.
        budget: tokens of one pack, without padding.
        share: tokens that rows share count once.
        world: number of processes; the rows are divided so that all have something to do.

    Raises:
        UsageError: a row alone is larger; names it.
    """

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
        """Tokens of a row that it does not share with the one before it."""
        if not self._share:
            return sum(map(len, self._ids[row]))
        return _new_tokens(self._ids[row], [] if before is None else self._ids[before])


def prefix_order(rows: Sequence[Encoded]) -> list[int]:
    """Each row's place when rows with a common prefix are neighbours."""
    places = [0] * len(rows)
    for place, row in enumerate(in_order([np.asarray(row.branches[0].ids, dtype=np.uint32) for row in rows])):
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


def padded_batches(
    lengths: Sequence[int], most: int, *, order: Sequence[int] | None = None, worth_tokens: float = math.inf
) -> Iterator[list[int]]:
    """Numbers of sequences in batches of `most` tokens at most, padding included.

    A sequence that is longer than that is a batch of its own.

    Args:
        lengths: of the sequences, in tokens.
        most: tokens of a batch at most.
        order: in which neighbours share a batch; None: the longest first.
        worth_tokens: a batch that has as many does not wait for sequences that would be padded by a tenth.
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
    """Numbers in the given order in batches of `most` tokens at most, those shared with the one before apart.

    Args:
        order: in which sequences with a common prefix are neighbours.
        lengths: of the sequences, in tokens.
        shared: of each in the order, the tokens that it shares with the one before it.
        most: tokens of a batch at most.
    """
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
