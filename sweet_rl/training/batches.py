"""Encoded rows to tensors: the model's inputs, and the positions of the log-probabilities; what rows share, once.

Sequences with common prefixes are laid out as trees, written depth first: a token is seen by the tokens behind it up
to the end of its subtree, and by no other. So one number for each token, its `end`, says all about who attends to whom:

    token q sees token k  if and only if  k <= q < end[k]

Positions count from the beginning of a token's own sequence, so every token sees exactly what it would see if
its sequence stood alone, and the computation is the same.

Axes: R rows of tokens, T places in a row, N tokens of a tree, K log-probabilities asked for, M terms, O outputs, B rows
of the data (pairs, or single texts), S sides (the chosen of all pairs, then the rejected), I pictures, P their patches,
D numbers of a patch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple, NotRequired, TypedDict, TypeVar, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sweet_rl.training.encoding import Encoded, Side
from sweet_rl.training.settings import Reduction
from sweet_rl.training.vision import Pictures, Vision

B = TypeVar("B")
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
    """Their numbers, those together of which each begins the next one: reading the last one reads them all."""
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
    """A tree's tokens, positions and ends, each as [N], and the places in it of each sequence's tokens."""
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


class Shown(TypedDict):
    """Pictures of some rows, if they have any: in the order of the rows, then of their tokens."""

    pixels_PD: NotRequired[Tensor]
    grids_I3: NotRequired[Tensor]


class Question(Shown):
    """What a model reads, and the tokens whose log-probabilities are asked for.

    Sequences with a common prefix share it (`Layout`); then `positions_RT` and
    `ends_RT` are there. Log-probability k is that of the token `targets_K[k]` after the one at the flat place
    (row x T + place) `predictors_K[k]`.
    """

    ids_RT: Tensor
    positions_RT: NotRequired[Tensor]
    ends_RT: NotRequired[Tensor]
    attention_RT: NotRequired[Tensor]
    predictors_K: Tensor
    targets_K: Tensor


class Batch(Question):
    """One micro-batch: a question, and weighted sums of its log-probabilities.

    Output o is the sum of `weights_M[m]` times log-probability `terms_M[m]` over all m with `outputs_M[m] == o`.
    Outputs are B sums of texts, or of pairs B chosen, B rejected, and B negative log-likelihoods.
    `scale_B` is what a unit of each row's loss counts for in its optimizer step, `weight_B` its number of units.
    """

    terms_M: Tensor
    outputs_M: Tensor
    weights_M: Tensor
    reference_SB: NotRequired[Tensor]  # of pairs
    weight_B: Tensor
    scale_B: Tensor
    index_B: Tensor


class ValueBatch(Shown):
    """One micro-batch of pairs for a regression head: both sides, padded on the right."""

    ids_ST: Tensor
    attention_ST: Tensor
    scale_B: Tensor
    index_B: Tensor


def question_of(layout: Layout, predictors_K: np.ndarray, targets_K: np.ndarray | None = None) -> Question:
    """What is asked of sequences that are laid out; without targets only what stands at the places."""
    question = Question(
        ids_RT=torch.from_numpy(layout.ids_RT),
        predictors_K=torch.from_numpy(predictors_K),
        targets_K=torch.zeros(0, dtype=torch.int64) if targets_K is None else torch.from_numpy(targets_K),
    )
    if layout.shares:
        question["positions_RT"] = torch.from_numpy(layout.positions_RT)
        question["ends_RT"] = torch.from_numpy(layout.ends_RT)
    return question


@dataclass(frozen=True, slots=True)
class Reader:
    """Sequences to questions."""

    pad_id: int  # Fills up rows; never read
    # How much sharing is worth (`lay_out`); 0 shares nothing.
    attention_span: float = math.inf
    # Also give the padding mask, for models that count tokens. Nothing is shared then.
    with_attention: bool = False
    vision: Vision | None = None  # Needed where there are pictures

    def ask(
        self,
        sequences: Sequence[np.ndarray],
        asked: Sequence[tuple[int, np.ndarray]],
        pictures: Sequence[Pictures] = (),
    ) -> tuple[Question, list[np.ndarray]]:
        """One question for all, and for each part of `asked` where its log-probabilities stand among the K.

        Asked are some (sequence, positions of its tokens, each at least 1); nothing is asked for twice.
        Tokens behind a sequence's last one that is asked for are not read, nor is that one itself. Where
        there are `pictures` nothing is shared: their tokens have positions on three axes, which the model
        finds for rows that hold one sequence only.
        """
        needed = [1] * len(sequences)
        for number, positions in asked:
            needed[number] = max(needed[number], int(positions.max(initial=1)))
        shown = any(pictures)
        layout = lay_out(
            [ids[:n].astype(np.uint32) for ids, n in zip(sequences, needed, strict=True)],
            attention_span=0 if self.with_attention or shown else self.attention_span,
            pad_id=self.pad_id,
        )
        predictors = [layout.places[number][positions - 1] for number, positions in asked]
        targets = [sequences[number][positions].astype(np.int64) for number, positions in asked]
        pairs = np.stack([np.concatenate(predictors), np.concatenate(targets)])
        distinct, places = np.unique(pairs, axis=1, return_inverse=True)
        question = question_of(layout, distinct[0], distinct[1])
        if self.with_attention:
            question["attention_RT"] = torch.from_numpy((layout.ends_RT > 0).astype(np.int64))
        if shown:
            vision = self.vision
            read = [
                theirs if vision is None else vision.outside(ids.tolist(), theirs, n, len(ids))
                for ids, theirs, n in zip(sequences, pictures, needed, strict=True)
            ]
            question = Question(**{**question, **show(vision, read)})
        stops = np.cumsum([len(positions) for _, positions in asked])[:-1]
        return question, np.split(places.reshape(-1), stops)


@dataclass(frozen=True, slots=True)
class Collator:
    """Pairs, with the reference's log-probabilities where they are known, or texts to a batch."""

    reduction: Reduction
    reader: Reader
    reference: Tensor | None = None  # [pairs, 2]: chosen and rejected, by `Encoded.index`

    def __call__(self, items: Sequence[tuple[Encoded, float]]) -> Batch:
        """A batch of (row, scale); a row with scale 0 fills a place and trains nothing."""
        rows, scales = zip(*items, strict=True)
        count, index = len(rows), torch.tensor([row.index for row in rows])
        sides = [side for same in zip(*(row.sides for row in rows), strict=True) for side in same]
        wanted = [(i, i, token_weights(side, self.reduction)) for i, side in enumerate(sides)]
        if paired := len(sides) > count:  # and the chosen sides' negative log-likelihoods
            wanted += [
                (i, 2 * count + i, [-weights for weights in token_weights(side, "trajectory", own=True)])
                for i, side in enumerate(sides[:count])
            ]
        branches = [branch for side in sides for branch in side.branches]
        firsts = np.cumsum([0, *(len(side.branches) for side in sides)])
        asked, outputs, weights = list[tuple[int, np.ndarray]](), [], []
        for side, output, each in wanted:
            for branch, of_tokens in enumerate(each, start=int(firsts[side])):
                at = np.flatnonzero(of_tokens)
                asked.append((branch, at))
                outputs.append(np.full(len(at), output))
                weights.append(of_tokens[at])
        sequences = [np.asarray(branch.ids, dtype=np.uint32) for branch in branches]
        question, places = self.reader.ask(sequences, asked, [branch.pictures for branch in branches])
        batch: Any = dict(
            **question,
            terms_M=torch.from_numpy(np.concatenate(places)),
            outputs_M=torch.from_numpy(np.concatenate(outputs)),
            weights_M=torch.from_numpy(np.concatenate(weights).astype(np.float32)),
            weight_B=torch.tensor([row.weight for row in rows], dtype=torch.float32),
            scale_B=torch.tensor(scales, dtype=torch.float32),
            index_B=index,
        )
        if paired:
            known = self.reference
            batch["reference_SB"] = torch.zeros(2, count) if known is None else known[index].T
        return cast(Batch, batch)


@dataclass(frozen=True, slots=True)
class ValueCollator:
    """Pairs to a batch for a regression head."""

    pad_id: int
    vision: Vision | None = None

    def __call__(self, items: Sequence[tuple[Encoded, float]]) -> ValueBatch:
        """A batch of (pair, scale); a pair with scale 0 fills a place and trains nothing."""
        pairs, scales = zip(*items, strict=True)
        # a text's value is that of its last turn's sequence, which holds what came before
        texts = [pair.sides[side].branches[-1] for side in (0, 1) for pair in pairs]
        ids_ST = torch.full((len(texts), max(len(text.ids) for text in texts)), self.pad_id)
        attention_ST = torch.zeros_like(ids_ST)
        for row, text in enumerate(texts):
            ids_ST[row, : len(text.ids)] = torch.tensor(text.ids)
            attention_ST[row, : len(text.ids)] = 1
        return ValueBatch(
            **show(self.vision, [text.pictures for text in texts]),
            ids_ST=ids_ST,
            attention_ST=attention_ST,
            scale_B=torch.tensor(scales, dtype=torch.float32),
            index_B=torch.tensor([pair.index for pair in pairs]),
        )


def show(vision: Vision | None, pictures: Sequence[Pictures]) -> Shown:
    """The pictures of some rows as tensors; nothing where there are none."""
    flat = [picture for theirs in pictures for picture in theirs]
    if not flat:
        return Shown()
    if vision is None:
        raise ValueError("there are pictures, but no settings to read them with")
    pixels_PD, grids_I3 = map(torch.from_numpy, vision.patches(flat))
    return Shown(pixels_PD=pixels_PD, grids_I3=grids_I3)


def to_device(batch: B, device: Any) -> B:
    """A copy of the batch with every tensor on the device."""
    moved: Any = {name: tensor.to(device) for name, tensor in cast(dict[str, Tensor], batch).items()}
    return cast(B, moved)


def token_weights(side: Side, reduction: Reduction, *, own: bool = False) -> list[np.ndarray]:
    """What each token of each of a side's branches counts for in its reduced log-probability, as float32.

    `own` divides by the tokens that are scored, whatever the side's denominator is. A mean over nothing is NaN.
    """
    total = side.tokens
    denominator = total if own or side.denominator is None else side.denominator
    found = []
    for branch in side.branches:
        weights = np.zeros(len(branch.ids), dtype=np.float32)
        if not total and not denominator and reduction != "sum":
            weights[1:2] = np.nan
        for start, end in branch.scored:
            weights[start:end] = 1.0 / {"sum": 1, "trajectory": denominator, "turn": end - start}[reduction]
        found.append(weights)
    return found
