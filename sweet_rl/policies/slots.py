"""Keys and values of texts that a model has read, each text in a slot of its own, and attention to them.

Tokens of many texts are read in one row, without padding: attention alone looks from one token of a row to
another, and here each token is shown the slot of its own text. transformers knows this attention by the name
`NAME`. Importing this module imports torch and transformers.

Axes: S slots, H heads of keys, G heads of queries for each, C places of a slot, D of a head, N tokens that
are read now, L texts that are read in one call, n tokens of each, T places of each up to its last token.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface

from sweet_rl.policies.decoding import sent

NAME = "slots"

_CALL_BYTES = 70_000
"""Keys and values that a CPU reads in the time that a call of its own takes; a GPU reads more."""
_CALL_BYTES_ON_GPU = 100_000_000
_QUERIES = 16
"""Queries of a text that are computed in the time in which its keys and values are read."""
_ALIGNED = 16
"""Places of which a call is shown a multiple: otherwise CUDA's kernels copy every mask."""

Ints = NDArray[np.int64]

_HARMLESS = {"is_causal", "position_ids", "position_embeddings", "use_cache", "cache_position"}
_HARMLESS |= {"output_attentions", "output_router_logits"}
"""What models hand to every attention and what changes nothing here."""


class Slots:
    """The memory: keys and values [S, H, C, D] of each layer. Whose a slot is, is known elsewhere."""

    def __init__(self) -> None:
        self.slots = self.places = 0
        self._layers: dict[int, tuple[Tensor, Tensor]] = {}

    @property
    def bytes_of_a_place(self) -> int:
        """Bytes that one token takes in all layers; 0 before any was read."""
        states = [one[0, :, 0] for layer in self._layers.values() for one in layer]
        return sum(one.numel() * one.element_size() for one in states)

    def resize(self, kept: Sequence[int], slots: int, places: int) -> None:
        """So many slots of so many places; the slots `kept`, in their order, become the first ones."""
        for number, layer in self._layers.items():
            resized = [one.new_zeros(slots, one.shape[1], places, one.shape[3]) for one in layer]
            filled = min(self.places, places)
            for states_SHCD, new_SHCD in zip(layer, resized, strict=True):
                new_SHCD[: len(kept), :, :filled] = states_SHCD[list(kept), :, :filled]
            self._layers[number] = resized[0], resized[1]
        self.slots, self.places = slots, places

    def copy(self, copies: Sequence[tuple[int, int, int]]) -> None:
        """The first places of slots into others, all read before any is written: (source, target, places) of each."""
        if not copies or not self._layers:
            return
        sources, targets, places = np.array(copies).T
        device = self._layers[next(iter(self._layers))][0].device
        source_I, target_I = sent(np.stack([sources, targets]), device)
        for layer in self._layers.values():
            for states_SHCD in layer:
                known_SHCD = states_SHCD[:, :, : places.max()]
                known_SHCD[target_I] = known_SHCD[source_I]

    def of_layer(self, number: int, like: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        """Keys and values of a layer, made when it is first read; `like` are some tokens' [N, H, D]."""
        if number not in self._layers:
            shapes = [(self.slots, one.shape[1], self.places, one.shape[2]) for one in like]
            keys, values = (one.new_zeros(shape) for one, shape in zip(like, shapes, strict=True))
            self._layers[number] = keys, values
        return self._layers[number]


class Segment(NamedTuple):
    """Tokens of one text that are read now: those from place `begin` to before place `end` of its slot."""

    slot: int
    begin: int
    end: int


class _Call(NamedTuple):
    """Segments that are attended to in one call: L of n tokens, the shorter ones filled up."""

    rows: int
    tokens: int
    at: slice | Tensor  # the place in the row of each token [L x n]
    slots: slice | Tensor  # whose keys, and which places of them
    places: slice
    mask_L1MT: Tensor | None  # added to scores; M queries: all tokens for each head of a group. None: causal


class Reading:
    """What one forward pass reads: segments of texts, at most one of each, side by side in a row of N tokens.

    Which of them are computed together is decided once, for all layers of a kind.
    """

    def __init__(self, slots: Slots, segments: Sequence[Segment], device: torch.device) -> None:
        self._slots, self._device = slots, device
        self._slot_I, self._begin_I, self._end_I = np.array(segments, dtype=np.int64).T
        self._length_I = self._end_I - self._begin_I
        self.last_I = self._length_I.cumsum() - 1
        """The place in the row of each segment's last token."""
        self._first_I = self.last_I + 1 - self._length_I
        places_N = np.arange(self.last_I[-1] + 1) + (self._begin_I - self._first_I).repeat(self._length_I)
        self.places_N, self._slot_N = sent(np.stack([places_N, self._slot_I.repeat(self._length_I)]), device)
        """The place of each token in its text, and its slot."""
        self._plans: dict[tuple[Any, ...], tuple[list[_Call], slice | Tensor]] = {}

    def attend(
        self, layer: int, query_NHGD: Tensor, like_NHD: tuple[Tensor, Tensor], scale: float, window: int
    ) -> Tensor:
        """Keep the tokens' keys and values; return what each token finds in its text [N, H, G, D]."""
        memory = self._slots.of_layer(layer, like_NHD)
        for states_SHCD, states_NHD in zip(memory, like_NHD, strict=True):
            states_SHCD[self._slot_N, :, self.places_N] = states_NHD
        size = sum(states[0, :, 0].numel() * states.element_size() for states in memory)
        kind = (size, query_NHGD.shape[2], query_NHGD.dtype, window)
        if kind not in self._plans:
            self._plans[kind] = self._plan(*kind)
        calls, found_N = self._plans[kind]
        found = [self._call(one, memory, query_NHGD, scale) for one in calls]
        return (torch.cat(found) if len(found) > 1 else found[0])[found_N]

    def _call(self, call: _Call, memory: tuple[Tensor, Tensor], query_NHGD: Tensor, scale: float) -> Tensor:
        """What the tokens of a call find [L x n, H, G, D], those that fill up included."""
        rows, tokens, (heads, groups, width) = call.rows, call.tokens, query_NHGD.shape[1:]
        query = query_NHGD[call.at]
        keys, values = (states_SHCD[call.slots, :, call.places] for states_SHCD in memory)
        if tokens == 1:
            return scaled_dot_product_attention(query, keys, values, call.mask_L1MT, scale=scale)
        query_LHGnD = query.view(rows, tokens, heads, groups, width).permute(0, 2, 3, 1, 4)
        if rows == 1:
            query = query_LHGnD[0]
            keys, values = (one.transpose(0, 1).expand(-1, groups, -1, -1) for one in (keys, values))
        else:  # keys are read once for all heads of a group
            query = query_LHGnD.reshape(rows, heads, groups * tokens, width)
        causal = call.mask_L1MT is None
        found = scaled_dot_product_attention(
            query, keys, values, call.mask_L1MT, is_causal=causal, scale=scale
        )
        found_LHGnD = found.view(rows, heads, groups, tokens, found.shape[-1])
        return found_LHGnD.permute(0, 3, 1, 2, 4).flatten(0, 1)

    def _plan(
        self, size: int, groups: int, dtype: torch.dtype, window: int
    ) -> tuple[list[_Call], slice | Tensor]:
        """All calls, and where in what they find each token's result is."""
        first_I = np.maximum(0, self._begin_I + 1 - window)
        calls, start, found_N = list[_Call](), 0, np.empty(len(self._slot_N), dtype=np.int64)

        def mask(place_Ln: Ints, first: int, end: int) -> Tensor:
            places_T = torch.arange(first, end, device=self._device)
            behind_LnT = sent(place_Ln, self._device)[..., None] - places_T
            hidden_LnT = (behind_LnT < 0) | (behind_LnT >= window)
            shown = torch.zeros(hidden_LnT.shape, dtype=dtype, device=self._device)
            return shown.masked_fill_(hidden_LnT, -torch.inf)[:, None]

        for texts, copies in self._together(size, first_I):
            columns = (self._slot_I, self._first_I, self._begin_I, self._length_I, first_I, self._end_I)
            if len(texts) == 1:
                slot, at, begin, length, first, end = (int(one[texts[0]]) for one in columns)
                found_N[at : at + length] = np.arange(start, start + length)
                start += length
                whole = length == 1 or (begin == 0 and end <= window)
                seen = None if whole else mask(np.arange(begin, end)[None], first, end)
                shown = slice(slot, slot + 1), slice(first, end)
                calls.append(_Call(1, length, slice(at, at + length), *shown, seen))
                continue
            slot_l, at_l, begin_l, length_l, first_l, end_l = (one[texts] for one in columns)
            slots = self._index(slot_l) if copies else slice(int(slot_l.min()), int(slot_l.max()) + 1)
            row_l = np.arange(len(texts)) if copies else slot_l - slot_l.min()
            first, end = int(first_l.min()) // _ALIGNED * _ALIGNED, int(end_l.max())
            end = min(end + -end % _ALIGNED, self._slots.places)
            row_L3 = np.tile([0, first, 0], (row_l.max() + 1, 1))  # a row without a text sees a place, too
            row_L3[row_l] = np.stack([at_l, begin_l, length_l], axis=1)
            at_L1, begin_L1, length_L1 = row_L3.T[..., None]
            step_n = np.arange(length_l.max())
            step_Ln, real_Ln = np.minimum(step_n, np.maximum(length_L1 - 1, 0)), step_n < length_L1
            at_Ln = at_L1 + step_Ln
            found_N[at_Ln[real_Ln]] = start + np.flatnonzero(real_Ln)
            start += at_Ln.size
            seen = mask(begin_L1 + step_Ln, first, end)
            seen = seen.repeat(1, 1, groups, 1) if len(step_n) > 1 else seen
            row_at = self._index(at_Ln.ravel())
            calls.append(_Call(len(at_Ln), len(step_n), row_at, slots, slice(first, end), seen))
        return calls, self._index(found_N)

    def _together(self, size: int, first_I: Ints) -> list[tuple[list[int], bool]]:
        """The texts of each call, and whether their keys and values are copied side by side for it.

        A call costs the bytes of keys and values that it reads, `size` a place, more for many queries, and its
        own. Texts of about the same size are computed together where that costs less than apart.
        """
        own = _CALL_BYTES if self._device.type == "cpu" else _CALL_BYTES_ON_GPU
        alone_I = (self._end_I - first_I) * size * np.maximum(1, self._length_I / _QUERIES) + own

        def cost(texts: list[int], rows: int, copies: bool = False) -> float:
            """Of a call with so many rows that are filled up to the size of some texts."""
            read = rows * size * int(self._end_I[texts].max() - first_I[texts].min())
            queries = max(1, int(self._length_I[texts].max()) / _QUERIES)
            return read * (queries + 2 * copies) + own * (1 + 2 * copies)

        alike: list[list[int]] = []
        kind_I = np.array([64, 1]) @ np.ceil(np.log2([self._length_I, self._end_I]))
        for kind in np.unique(kind_I):
            texts = np.flatnonzero(kind_I == kind).tolist()
            before = alike[-1] if alike else []
            both = before + texts
            if before and cost(both, len(both)) < cost(before, len(before)) + cost(texts, len(texts)):
                texts = alike.pop() + texts
            alike.append(texts)
        found: list[tuple[list[int], bool]] = []
        for texts in alike:
            between = cost(texts, int(np.ptp(self._slot_I[texts])) + 1)  # with all slots from first to last
            copied = cost(texts, len(texts), copies=True)
            if len(texts) > 1 and min(between, copied) < alone_I[texts].sum():
                found.append((sorted(texts), copied < between))
            else:
                found += [([one], False) for one in texts]
        return sorted(found)

    def _index(self, numbers: Ints) -> slice | Tensor:
        """What takes these of an axis, without copying it where they are neighbours."""
        if (np.diff(numbers) == 1).all():
            return slice(int(numbers[0]), int(numbers[-1]) + 1)
        return sent(numbers, self._device)


def attention_to_slots(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    reading: Reading,
    scaling: float | None = None,
    sliding_window: int | None = None,
    dropout: float = 0.0,
    **others: Any,
) -> tuple[Tensor, None]:
    """As transformers calls an attention: [1, heads, N, D] in, [1, N, heads, D] out."""
    unknown = sorted(name for name, what in others.items() if what is not None and name not in _HARMLESS)
    if attention_mask is not None or dropout or unknown:
        raise NotImplementedError(f"attention with a mask, dropout or {unknown}")
    key_NHD, value_NHD = key[0].transpose(0, 1), value[0].transpose(0, 1)
    tokens, heads = key_NHD.shape[:2]
    query_NHGD = query[0].transpose(0, 1).reshape(tokens, heads, -1, query.shape[-1])
    found_NHGD = reading.attend(
        module.layer_idx,
        query_NHGD,
        (key_NHD, value_NHD),
        query.shape[-1] ** -0.5 if scaling is None else scaling,
        sliding_window or sys.maxsize,
    )
    return found_NHGD.flatten(1, 2)[None], None


AttentionInterface.register(NAME, attention_to_slots)
