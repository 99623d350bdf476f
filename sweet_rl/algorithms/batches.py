"""Sequences cut into batches of a number of tokens. No torch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence


def by_new_tokens(
    order: Sequence[int], lengths: Sequence[int], shared: Sequence[int], most: int
) -> Iterator[list[int]]:
    """Batches of neighbours, by the tokens that each adds to those before it."""
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


def neighbours(order: Sequence[int], lengths: Sequence[int], most: int) -> Iterator[list[int]]:
    """Numbers in the given order, cut into batches of at most so many tokens, padding included."""
    batch: list[int] = []
    longest = 0
    for number in order:
        longest = max(longest, lengths[number])
        if batch and (len(batch) + 1) * longest > most:
            yield batch
            batch, longest = [], lengths[number]
        batch.append(number)
    if batch:
        yield batch
