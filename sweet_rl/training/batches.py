"""Encoded rows to tensors: the model's inputs, and the positions of the log-probabilities.

Axes: R rows of tokens, T places in a row, K log-probabilities asked for, M terms, O outputs, B rows of the
data (pairs, or single texts), S sides (the chosen of all pairs, then the rejected), I pictures, P their
patches, D numbers of a patch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NotRequired, TypedDict, TypeVar, cast

import numpy as np
import torch
from torch import Tensor

from sweet_rl.training.encoding import Encoded, Side
from sweet_rl.training.settings import Reduction
from sweet_rl.training.trees import Layout, lay_out
from sweet_rl.training.vision import Pictures, Vision

B = TypeVar("B")


class Shown(TypedDict):
    """Pictures of some rows, if they have any: in the order of the rows, then of their tokens."""

    pixels_PD: NotRequired[Tensor]
    grids_I3: NotRequired[Tensor]


class Question(Shown):
    """What a model reads, and the tokens whose log-probabilities are asked for.

    Sequences with a common prefix share it (`sweet_rl.training.trees`); then `positions_RT` and
    `ends_RT` are there. Log-probability k is that of the token `targets_K[k]` after the one at the flat place
    (row x T + place) `predictors_K[k]`.
    """

    ids_RT: Tensor
    positions_RT: NotRequired[Tensor]
    ends_RT: NotRequired[Tensor]
    attention_RT: NotRequired[Tensor]
    predictors_K: Tensor
    targets_K: Tensor


class Reading(Question):
    """A question, and weighted sums of its log-probabilities.

    Output o is the sum of `weights_M[m]` times log-probability `terms_M[m]` over all m with
    `outputs_M[m] == o`.
    """

    terms_M: Tensor
    outputs_M: Tensor
    weights_M: Tensor


class Batch(Reading):
    """One micro-batch; its outputs are B sums of texts, or of pairs B chosen, B rejected, and B negative log-likelihoods.

    `scale_B` is what a unit of each row's loss counts for in its optimizer step, `weight_B` its number of units.
    """

    reference_SB: NotRequired[Tensor]
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
    # How much sharing is worth (`sweet_rl.training.trees.lay_out`); 0 shares nothing.
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

    def read(self, sides: Sequence[Side], wanted: Sequence[tuple[int, int, list[np.ndarray]]]) -> Reading:
        """The question whose answers are needed, and weighted sums of them."""
        branches = [branch for side in sides for branch in side.branches]
        firsts = np.cumsum([0, *(len(side.branches) for side in sides)])
        terms = [  # branch, output, weights of its tokens
            (int(firsts[side]) + number, output, one)
            for side, output, weights in wanted
            for number, one in enumerate(weights)
        ]
        asked = [(branch, np.flatnonzero(weights)) for branch, _, weights in terms]
        sequences = [np.asarray(branch.ids, dtype=np.uint32) for branch in branches]
        question, places = self.ask(sequences, asked, [branch.pictures for branch in branches])
        outputs = [np.full(len(at), output) for at, (_, output, _) in zip(places, terms, strict=True)]
        weights = [all_[at] for (_, _, all_), (_, at) in zip(terms, asked, strict=True)]
        return Reading(
            **question,
            terms_M=torch.from_numpy(np.concatenate(places)),
            outputs_M=torch.from_numpy(np.concatenate(outputs)),
            weights_M=torch.from_numpy(np.concatenate(weights).astype(np.float32)),
        )


@dataclass(frozen=True, slots=True)
class Collator:
    """Pairs, with the reference's log-probabilities where they are known, or texts to a batch."""

    reduction: Reduction
    reader: Reader
    reference: Tensor | None = None  # [pairs, 2]: chosen and rejected, by `Encoded.index`

    def __call__(self, items: Sequence[tuple[Encoded, float]]) -> Batch:
        """A batch of (row, scale); a row with scale 0 fills a place and trains nothing."""
        rows, count = [row for row, _ in items], len(items)
        sides = [row.sides[side] for side in range(len(rows[0].sides)) for row in rows]
        terms = [(i, i, token_weights(side, self.reduction)) for i, side in enumerate(sides)]
        if paired := len(sides) > count:
            terms += [
                (i, 2 * count + i, [-weights for weights in token_weights(side, "trajectory", own=True)])
                for i, side in enumerate(sides[:count])
            ]
        index = torch.tensor([row.index for row in rows])
        batch: Any = {
            **self.reader.read(sides, terms),
            "weight_B": torch.tensor([row.weight for row in rows], dtype=torch.float32),
            "scale_B": _scales(items),
            "index_B": index,
        }
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
        pairs = [pair for pair, _ in items]
        # a text's value is that of its last turn's sequence, which holds what came before
        texts = [side.branches[-1] for side in (pair.sides[side] for side in (0, 1) for pair in pairs)]
        ids_ST = torch.full((len(texts), max(len(text.ids) for text in texts)), self.pad_id)
        attention_ST = torch.zeros_like(ids_ST)
        for row, text in enumerate(texts):
            ids_ST[row, : len(text.ids)] = torch.tensor(text.ids)
            attention_ST[row, : len(text.ids)] = 1
        return ValueBatch(
            **show(self.vision, [text.pictures for text in texts]),
            ids_ST=ids_ST,
            attention_ST=attention_ST,
            scale_B=_scales(items),
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

    `own` divides by the tokens that are scored, whatever the side's denominator is. A mean over nothing is
    NaN, and so is its gradient, as in the published code; our encoder leaves such pairs out.
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


def _scales(items: Sequence[tuple[Any, float]]) -> Tensor:
    return torch.tensor([scale for _, scale in items], dtype=torch.float32)
