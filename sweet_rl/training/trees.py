"""Token sequences with common prefixes, laid out so that each prefix appears once. No torch.

A tree is written depth first: a token is seen by the tokens behind it up to the end of its subtree, and by no
other. So one number for each token, its `end`, says all about who attends to whom:

    token q sees token k  if and only if  k <= q < end[k]

Positions count from the beginning of a token's own sequence, so every token sees exactly what it would see if
its sequence stood alone, and the computation is the same.

Axes: N tokens of a tree, R rows, T places in a row.
"""

# ruff: noqa: N806, N815 - the names of arrays end in their axes

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.uint32]
Ints = NDArray[np.int64]


_READINESS = (1.0, 0.25, 4.0)
"""How readily sequences join a tree, beside what is right without padding."""


class Tree(NamedTuple):
    """Sequences as one tree. `members` are their numbers; `places` has the positions of each one's tokens."""

    ids_N: Ints
    positions_N: Ints
    ends_N: Ints
    members: list[int]
    places: list[Ints]


class Layout(NamedTuple):
    """Trees in rows of equal length.

    Padding attends to itself only, and no token attends to it; its end is 0. `places[s][p]` is the flat
    place (row x T + place) of token p of sequence s. Where nothing is shared every sequence has a row of its
    own and `shares` is False: the usual causal attention does for those.
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


def grow(sequences: Sequence[Ids], *, attention_span: float = math.inf) -> list[Tree]:
    """The sequences as trees, each token once in its tree.

    A shared prefix saves tokens, but dense attention over a larger tree looks at more pairs of tokens in
    vain. A sequence joins a tree if that saves more than it costs.

    Args:
        sequences: none is empty.
        attention_span: how many pairs of tokens attention looks at in the time that all else takes for one
            token: about six times a model's hidden size for dense masks, infinite for kernels that skip
            what a mask hides, 0 to share nothing.
    """
    trees: list[_Growing] = []
    before: Ids | None = None
    for number in in_order(sequences):
        ids = sequences[number]
        shared = 0 if before is None else common_prefix(before, ids)
        if trees and trees[-1].gains(shared, len(ids), attention_span):
            trees[-1].add(number, ids, shared)
        else:
            trees.append(_Growing(number, ids))
        before = ids
    return [tree.grown() for tree in trees]


def lay_out(sequences: Sequence[Ids], *, attention_span: float = math.inf, pad_id: int = 0) -> Layout:
    """The sequences as trees in as few rows as they fit, each as long as the largest tree.

    `grow` knows nothing of padding; so trees that are made more and less readily are looked at as well, and
    the rows are taken that cost least.

    Args:
        sequences: none is empty.
        attention_span: see `grow`.
        pad_id: what stands at places without a token.
    """
    spans = [attention_span * factor for factor in _READINESS]
    if not 0 < attention_span < math.inf:
        spans = [attention_span]
    found = [_in_rows(grow(sequences, attention_span=span)) for span in spans]
    rows, length, shares = min(found, key=lambda one: len(one[0]) * one[1] * (attention_span + one[1]))
    ids_RT = np.full((len(rows), length), pad_id, dtype=np.int64)
    positions_RT = np.zeros_like(ids_RT)
    ends_RT = np.zeros_like(ids_RT)
    places: list[Ints] = [np.zeros(0, dtype=np.int64)] * len(sequences)
    for row, members in enumerate(rows):
        start = 0
        for tree in members:
            stop = start + len(tree.ids_N)
            ids_RT[row, start:stop] = tree.ids_N
            positions_RT[row, start:stop] = tree.positions_N
            ends_RT[row, start:stop] = tree.ends_N + start
            for number, within in zip(tree.members, tree.places, strict=True):
                places[number] = within + (row * length + start)
            start = stop
    return Layout(ids_RT, positions_RT, ends_RT, places, shares)


class _Growing:
    """A tree to which sequences are added in lexicographic order."""

    def __init__(self, number: int, ids: Ids) -> None:
        self._pieces: list[Ids] = []
        self._depths: list[int] = []
        self._ends: list[tuple[Ints, int]] = []
        self._path: Ints = np.zeros(0, dtype=np.int64)
        self._members: list[int] = []
        self._places: list[Ints] = []
        self._size = 0
        self.add(number, ids, 0)

    def gains(self, shared: int, length: int, attention_span: float) -> bool:
        """Whether a sequence of that length saves more here than in a tree of its own."""
        if shared == 0 or attention_span == 0:
            return False
        new = length - shared
        more = (self._size + new) ** 2 - self._size**2 - length**2
        return shared * attention_span >= more

    def add(self, number: int, ids: Ids, shared: int) -> None:
        """Branch off after the first `shared` tokens of the sequence before."""
        new = len(ids) - shared
        self._ends.append((self._path[shared:], self._size))
        self._path = np.concatenate([self._path[:shared], np.arange(self._size, self._size + new)])
        self._pieces.append(ids[shared:])
        self._depths.append(shared)
        self._members.append(number)
        self._places.append(self._path)
        self._size += new

    def grown(self) -> Tree:
        ends = np.full(self._size, self._size, dtype=np.int64)
        for places, end in self._ends:
            ends[places] = end
        positions = [
            np.arange(depth, depth + len(piece))
            for depth, piece in zip(self._depths, self._pieces, strict=True)
        ]
        ids = np.concatenate(self._pieces).astype(np.int64)
        return Tree(ids, np.concatenate(positions), ends, self._members, self._places)


def _in_rows(trees: Sequence[Tree]) -> tuple[list[list[Tree]], int, bool]:
    """The trees of each row, the rows' length, and whether anything is shared."""
    length = max(len(tree.ids_N) for tree in trees)
    if any(len(tree.members) > 1 for tree in trees):
        return _filled(trees, length), length, True
    return [[tree] for tree in sorted(trees, key=lambda tree: tree.members[0])], length, False


def _filled(trees: Sequence[Tree], length: int) -> list[list[Tree]]:
    """First fit, the largest first."""
    rows: list[list[Tree]] = []
    room: list[int] = []
    for tree in sorted(trees, key=lambda tree: -len(tree.ids_N)):
        size = len(tree.ids_N)
        row = next((i for i, free in enumerate(room) if free >= size), None)
        if row is None:
            rows.append([])
            room.append(length)
            row = len(rows) - 1
        rows[row].append(tree)
        room[row] -= size
    return rows
