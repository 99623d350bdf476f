"""Attention that can copy from the start, as that of any pretrained model can: a tiny one learns it slowly.

Two heads of the first layer look at the token before and at the one before that. Two of the second find
where the token before stood earlier and bring what stands two places behind it: after "owner:" the owner that
a list gave (induction heads). Nothing here knows a task or a word; whether, when and what to copy is left to
learn. Importing this module imports torch.

Axes: H hidden, W dimensions of words, S dimensions of a neighbour, D of a head.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import normalize

HEAD_DIM: Final = 32
THETA: Final = 1e6
"""Of the rotary positions: some pairs of dimensions turn from token to token, most hardly in a whole text."""

_TURNING, _STILL = 0.1, 0.007
"""Radians a token: pairs above the first tell places apart, below the second they compare tokens anywhere."""

_LENGTH: Final = 2.2
"""Of the part of an embedding that says which word it is."""

_CONSTANT: Final = 1.2
"""In the first dimension of every embedding: what heads read that look at places alone."""
_CONSTANT_READ: Final = 3.8
"""About what the first layer's normalisation makes of it."""

_SHARP, _ALIKE, _KEPT, _SAID = 9.0, 3.0, 0.6, 2.0
"""Scales of looking at a place, of finding what is alike, of keeping a neighbour, of saying what is there."""

_QUIET: Final = 0.2
"""What is left of the random rest, which would drown the copies."""

_OWN_SHARE: Final = 8
"""Dimensions of a finding head that compare the token itself with the one before a place."""

_WORD_START: Final = "\u0120"
"""How a byte-level vocabulary writes the blank before a word."""


class _Places(NamedTuple):
    """Which dimensions of a state are whose."""

    words: Sequence[int]
    before: Sequence[int]
    two_before: Sequence[int]


def teach_copying(model: Any, tokenizer: Any, *, seed: int) -> None:
    """Write such heads into a fresh Llama of two layers, in place."""
    size = model.config.hidden_size
    quarter = size // 4
    places = _Places(range(1, size // 2), range(size // 2, size - quarter), range(size - quarter, size))
    draws = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        _embed(model.get_input_embeddings().weight, tokenizer.get_vocab(), places)
        first, second = model.model.layers
        for layer in (first, second):
            layer.mlp.down_proj.weight.mul_(_QUIET)
            layer.self_attn.o_proj.weight.mul_(_QUIET)
        neighbours = [*places.before, *places.two_before]
        first.mlp.down_proj.weight[neighbours] = 0
        first.self_attn.o_proj.weight[neighbours] = 0
        kept_SW = _directions(len(places.words), draws)[:quarter]
        for head, (back, kept) in enumerate(((1, places.before), (2, places.two_before))):
            _look_back(_Head(first.self_attn, head), back, kept, places.words, kept_SW)
        for head in (0, 1):
            _find_and_say(_Head(second.self_attn, head), places, kept_SW, draws)


class _Head:
    """The weights of one head, which begins empty."""

    def __init__(self, attention: Any, number: int) -> None:
        rows = slice(number * HEAD_DIM, (number + 1) * HEAD_DIM)
        self.query, self.key, self.value = (
            projection.weight[rows] for projection in (attention.q_proj, attention.k_proj, attention.v_proj)
        )
        self.output = attention.o_proj.weight[:, rows]
        for weight in (self.query, self.key, self.value, self.output):
            weight.zero_()


def _embed(weight_VH: Tensor, vocabulary: Mapping[str, int], places: _Places) -> None:
    """Embeddings of one length, with room for neighbours; a word with a blank before it is nearly the word.

    One length, so that the first normalisation leaves the constant alike in all: places are compared by it.
    """
    weight_VH[:, [*places.before, *places.two_before]] = 0
    for token, place in vocabulary.items():
        bare = token.removeprefix(_WORD_START)
        if bare != token and bare in vocabulary:
            weight_VH[place] = weight_VH[vocabulary[bare]]
            weight_VH[place, places.words[0]] += 1.0
    words_VW = weight_VH[:, list(places.words)]
    weight_VH[:, list(places.words)] = _LENGTH * normalize(words_VW, dim=1)  # padding is all 0, and stays so
    weight_VH[:, 0] = _CONSTANT


def _look_back(head: _Head, back: int, kept: Sequence[int], words: Sequence[int], kept_SW: Tensor) -> None:
    """Attend to the token so many places back, and keep it."""
    scale = _SHARP / _CONSTANT_READ
    for pair, turn in enumerate(_turns()):
        if turn >= _TURNING:
            head.key[pair, 0] = scale
            head.query[pair, 0] = scale * math.cos(turn * back)
            head.query[pair + HEAD_DIM // 2, 0] = -scale * math.sin(turn * back)
    for row, place in enumerate(kept):
        head.value[row, list(words)] = kept_SW[row]
        head.output[place, row] = _KEPT


def _find_and_say(head: _Head, places: _Places, kept_SW: Tensor, draws: torch.Generator) -> None:
    """Attend to where the token before stood two places back and this one a place back; say what is there."""
    still = [pair for pair, turn in enumerate(_turns()) if turn < _STILL]
    dims = [*still, *(pair + HEAD_DIM // 2 for pair in still)]
    turned_SS = _directions(len(places.before), draws)
    for number, dim in enumerate(dims[:-_OWN_SHARE]):
        head.query[dim, list(places.before)] = _ALIKE * turned_SS[number]
        head.key[dim, list(places.two_before)] = _ALIKE * turned_SS[number]
    for number, dim in enumerate(dims[-_OWN_SHARE:]):
        head.query[dim, list(places.words)] = _ALIKE * kept_SW[number]
        head.key[dim, places.before[number]] = _ALIKE
    said_WW = _directions(len(places.words), draws)
    for number, word_W in enumerate(said_WW[:HEAD_DIM]):
        head.value[number, list(places.words)] = word_W
        head.output[list(places.words), number] = _SAID * word_W


def _turns() -> list[float]:
    """How far each pair of dimensions turns from token to token, in radians."""
    return [THETA ** (-2 * pair / HEAD_DIM) for pair in range(HEAD_DIM // 2)]


def _directions(size: int, draws: torch.Generator) -> Tensor:
    """Orthogonal directions, as rows."""
    rows: Tensor = torch.linalg.qr(torch.randn(size, size, generator=draws))[0]
    return rows
