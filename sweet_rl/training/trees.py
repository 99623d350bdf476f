"""Token sequences with common prefixes, laid out so that each prefix appears once. No torch.

A tree is written depth first: a token is seen by the tokens behind it up to the end of its subtree, and by no
other. So one number for each token, its `end`, says all about who attends to whom:

    token q sees token k  if and only if  k <= q < end[k]

Positions count from the beginning of a token's own sequence, so every token sees exactly what it would see if
its sequence stood alone, and the computation is the same.

Axes: N tokens of a tree, R rows, T places in a row.
"""

# the names of arrays end in their axes

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.uint32]
Ints = NDArray[np.int64]

_READINESS = (1.0, 0.25, 4.0)  # How readily sequences join a tree, beside what is right without padding
_MOST_PADDED = 2  # Times as many places as tokens where nothing is shared


class Layout(NamedTuple):
    """Trees in rows of equal length.

    Padding attends to itself only, and no token attends to it; its end is 0. `places[s][p]` is the flat
    place (row x T + place) of token p of sequence s. Where every sequence has a row of its own `shares` is
    False: the usual causal attention does for those.
    """

    ids_RT: Ints
    positions_RT: Ints
    ends_RT: Ints
    places: list[Ints]
    shares: bool


def common_prefix(one: Ids, other: Ids) -> int:
    """How many tokens two sequences begin with alike."""
    n = min(len(one), len(other))
    differs = one[:n] != other[:n]
    first = int(differs.argmax()) if n else 0
    return first if n and differs[first] else n


def in_order(sequences: Sequence[Ids]) -> list[int]:
    """Their numbers in lexicographic order, in which those with a common prefix are neighbours."""
    keys = [np.ascontiguousarray(ids, dtype=">u4").tobytes() for ids in sequences]
    return sorted(range(len(keys)), key=keys.__getitem__)


def neighbours(sequences: Sequence[Ids]) -> tuple[list[int], list[int]]:
    """Lexicographic order, and how many tokens each in it begins with as the one before it does."""
    order = in_order(sequences)
    pairs = ((sequences[one], sequences[other]) for one, other in pairwise(order))
    return order, [0, *(common_prefix(one, other) for one, other in pairs)][: len(order)]


def chains(sequences: Sequence[tuple[int, ...]]) -> list[list[int]]:
    """Their numbers, those together of which each begins the next one, the shortest first.

    Whoever reads the last one of a chain has read them all, where tokens see only what is before them.
    """
    found: list[list[int]] = []
    for number in sorted(range(len(sequences)), key=sequences.__getitem__):
        ids = sequences[number]
        before = sequences[found[-1][-1]] if found else ids
        if found and ids[: len(before)] == before:
            found[-1].append(number)
        else:
            found.append([number])
    return found


def lay_out(sequences: Sequence[Ids], *, attention_span: float = math.inf, pad_id: int = 0) -> Layout:
    """The sequences as trees in as few rows as they fit, each as long as the largest tree.

    A shared prefix saves tokens, but dense attention over a larger tree looks at more pairs of tokens in
    vain. A sequence (none is empty) joins a tree if that saves more than it costs. `attention_span` is how
    many pairs of tokens attention looks at in the time that all else takes for one token: about six times a
    model's hidden size for dense masks, infinite for kernels that skip what is hidden, 0 to share nothing.

    That knows nothing of padding; so trees that are made more and less readily are looked at as well, and
    the rows are taken that cost least. `pad_id` stands at places without a token.
    """
    spans = [attention_span * factor for factor in _READINESS]
    if not 0 < attention_span < math.inf:
        spans = [attention_span]
    order, shared = neighbours(sequences)
    sizes = [len(sequences[number]) for number in order]
    plans = [_in_rows(_divided(sizes, shared, span), packed=attention_span > 0) for span in spans]

    def length_of(rows: list[list[_Part]]) -> int:
        return max(part.size for parts in rows for part in parts)

    def cost(rows: list[list[_Part]]) -> float:
        """Of reading all rows, padding included, in the time of a token without attention, times the span."""
        return len(rows) * length_of(rows) * (attention_span + length_of(rows))

    rows = min(plans, key=cost)
    length = length_of(rows)
    shares = len(rows) < len(sequences)
    if not shares:
        rows = sorted(rows, key=lambda parts: order[parts[0].start])
    ids_RT = np.full((len(rows), length), pad_id, dtype=np.int64)
    positions_RT = np.zeros_like(ids_RT)
    ends_RT = np.zeros_like(ids_RT)
    places: list[Ints] = [np.zeros(0, dtype=np.int64)] * len(sequences)
    for row, parts in enumerate(rows):
        start = 0
        for part in parts:
            members, stop = order[part.start : part.stop], start + part.size
            *tree, of = _tree([sequences[number] for number in members], shared[part.start : part.stop])
            ids_RT[row, start:stop], positions_RT[row, start:stop], ends_RT[row, start:stop] = tree
            ends_RT[row, start:stop] += start
            for number, within in zip(members, of, strict=True):
                places[number] = within + (row * length + start)
            start = stop
    return Layout(ids_RT, positions_RT, ends_RT, places, shares)


class _Part(NamedTuple):
    """Sequences from `start` to `stop` of an order, which have `size` tokens together, each prefix once."""

    start: int
    stop: int
    size: int


def _divided(sizes: Sequence[int], shared: Sequence[int], attention_span: float) -> list[_Part]:
    """What of an order, with its sequences' sizes and what each shares with the one before, is a tree."""
    parts: list[_Part] = []
    for place, (size, known) in enumerate(zip(sizes, shared, strict=True)):
        if parts and known and attention_span:
            before, new = parts[-1].size, size - known
            if known * attention_span >= (before + new) ** 2 - before**2 - size**2:
                parts[-1] = _Part(parts[-1].start, place + 1, before + new)
                continue
        parts.append(_Part(place, place + 1, size))
    return parts


def _tree(members: Sequence[Ids], shared: Sequence[int]) -> tuple[Ints, Ints, Ints, list[Ints]]:
    """One tree of some sequences in lexicographic order, each of which shares tokens with the one before.

    Its tokens, their positions and their ends, each as [N], and the places in it of each sequence's tokens.
    """
    pieces: list[Ids] = []
    positions: list[Ints] = []
    places: list[Ints] = []
    left: list[tuple[Ints, int]] = []
    size = 0
    for ids, known in zip(members, shared, strict=True):
        depth = known if places else 0
        path = places[-1] if places else np.zeros(0, dtype=np.int64)
        left.append((path[depth:], size))
        pieces.append(ids[depth:])
        positions.append(np.arange(depth, len(ids)))
        places.append(np.concatenate([path[:depth], np.arange(size, size + len(ids) - depth)]))
        size += len(ids) - depth
    ends = np.full(size, size, dtype=np.int64)
    for path, end in left:
        ends[path] = end
    return np.concatenate(pieces).astype(np.int64), np.concatenate(positions), ends, places


def _in_rows(parts: Sequence[_Part], *, packed: bool) -> list[list[_Part]]:
    """The trees of each row, as long as the largest.

    Sequences that share nothing have a row each, for which no mask is needed; where most of that would be
    padding, and rows may be `packed`, they are put together all the same.
    """
    length = max(part.size for part in parts)
    alone = all(part.stop == part.start + 1 for part in parts)
    if alone and not (packed and len(parts) * length > _MOST_PADDED * sum(part.size for part in parts)):
        return [[part] for part in parts]
    rows: list[list[_Part]] = []
    room: list[int] = []
    for part in sorted(parts, key=lambda part: -part.size):  # first fit, the largest first
        row = next((i for i, free in enumerate(room) if free >= part.size), None)
        if row is None:
            rows.append([])
            room.append(length)
            row = len(rows) - 1
        rows[row].append(part)
        room[row] -= part.size
    return rows
