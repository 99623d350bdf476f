"""Keys and values of texts that a model has read, each text in a slot of its own, and attention to them.

Tokens of many texts are read in one row, without padding: attention alone looks from one token of a row to
another, and here each token is shown the slot of its own text. transformers knows this attention by the name
`NAME`. Importing this module imports torch and transformers.

Axes: S slots, H heads of keys, G heads of queries for each, C places of a slot, D of a head, N tokens that
are read now, n of them of one text, T places of a text up to its last token, I texts that read one token.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface

NAME = "slots"

_CALL_BYTES = 70_000
"""Keys and values that a CPU reads in the time that a call of its own takes; a GPU reads more."""
_CALL_BYTES_ON_GPU = 20_000_000

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
                for target, source in enumerate(kept):
                    new_SHCD[target, :, :filled] = states_SHCD[source, :, :filled]
            self._layers[number] = resized[0], resized[1]
        self.slots, self.places = slots, places

    def copy(self, source: int, target: int, places: int) -> None:
        """The first places of a slot into another one."""
        for layer in self._layers.values():
            for states_SHCD in layer:
                states_SHCD[target, :, :places] = states_SHCD[source, :, :places]

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


class Reading:
    """What one forward pass reads: segments of texts, at most one of each, side by side in a row of N tokens.

    Single tokens are computed together, with all slots between them, where their texts' lengths are similar.
    """

    def __init__(self, slots: Slots, segments: Sequence[Segment], device: torch.device) -> None:
        self._slots, self._device = slots, device
        lengths = [one.end - one.begin for one in segments]
        ends = torch.tensor(lengths).cumsum(0)
        self.last_I = (ends - 1).to(device)
        """The place in the row of each segment's last token."""
        self.places_N = torch.cat([torch.arange(one.begin, one.end) for one in segments]).to(device)
        """The place of each token in its text."""
        numbers_I = torch.tensor([one.slot for one in segments])
        self._slot_N = numbers_I.repeat_interleave(torch.tensor(lengths)).to(device)
        placed = list(zip(segments, ends.tolist(), strict=True))
        self._singles = [(one, end - 1) for one, end in placed if one.end - one.begin == 1]
        self._longer = [(one, end + one.begin - one.end) for one, end in placed if one.end - one.begin > 1]
        numbers = [one.slot for one, _ in self._singles]
        self._lowest, self._above = min(numbers, default=0), max(numbers, default=-1) + 1
        self._longest = max((one.end for one, _ in self._singles), default=0)
        self._masks: dict[tuple[int, ...], Tensor] = {}

    def attend(
        self, layer: int, query_NHGD: Tensor, like_NHD: tuple[Tensor, Tensor], scale: float, window: int
    ) -> Tensor:
        """Keep the tokens' keys and values; return what each token finds in its text [N, H, G, D]."""
        memory = self._slots.of_layer(layer, like_NHD)
        for states_SHCD, states_NHD in zip(memory, like_NHD, strict=True):
            states_SHCD[self._slot_N, :, self.places_N] = states_NHD
        result_NHGD = query_NHGD.new_empty(*query_NHGD.shape[:-1], memory[1].shape[-1])
        for one, at in self._longer:
            until = at + one.end - one.begin
            result_NHGD[at:until] = self._of_segment(memory, query_NHGD[at:until], one, scale, window)
        size = sum(states[0, :, 0].numel() * states.element_size() for states in memory)
        call = _CALL_BYTES if self._device.type == "cpu" else _CALL_BYTES_ON_GPU
        apart = sum(min(one.end, window) * size + call for one, _ in self._singles)
        # reading all that lies between the texts may cost less than a call for each of them
        if len(self._singles) > 1 and self._longest * (self._above - self._lowest) * size < apart:
            self._join(memory, query_NHGD, result_NHGD, scale, window)
        else:
            for one, at in self._singles:
                first = max(0, one.end - window)
                keys, values = (states[one.slot, :, first : one.end][None] for states in memory)
                found_1HGD = scaled_dot_product_attention(query_NHGD[at][None], keys, values, scale=scale)
                result_NHGD[at] = found_1HGD[0]
        return result_NHGD

    def _of_segment(
        self, memory: tuple[Tensor, Tensor], query_nHGD: Tensor, one: Segment, scale: float, window: int
    ) -> Tensor:
        """What several tokens of one text find [n, H, G, D]."""
        heads, groups = query_nHGD.shape[1:3]
        first = max(0, one.begin + 1 - window)
        seen = slice(first, one.end)
        keys, values = (states[one.slot, :, None, seen].expand(heads, groups, -1, -1) for states in memory)
        whole = one.begin == 0 and one.end <= window
        key = (one.begin, one.end, first, window)
        if not whole and key not in self._masks:  # which tokens see which [n, T]; the same for all layers
            distance_nT = torch.arange(one.begin, one.end)[:, None] - torch.arange(first, one.end)
            self._masks[key] = ((distance_nT >= 0) & (distance_nT < window)).to(self._device)
        query_HGnD, mask_nT = query_nHGD.permute(1, 2, 0, 3), None if whole else self._masks[key]
        found_HGnD = scaled_dot_product_attention(
            query_HGnD, keys, values, attn_mask=mask_nT, is_causal=whole, scale=scale
        )
        return found_HGnD.permute(2, 0, 1, 3)

    def _join(
        self,
        memory: tuple[Tensor, Tensor],
        query_NHGD: Tensor,
        result_NHGD: Tensor,
        scale: float,
        window: int,
    ) -> None:
        """Write what single tokens find, in one call over the slots from the first to the last of them."""
        at_I = torch.tensor([at for _, at in self._singles], device=self._device)
        rows_I = self._slot_N[at_I] - self._lowest
        query_SHGD = query_NHGD.new_zeros(self._above - self._lowest, *query_NHGD.shape[1:])
        query_SHGD[rows_I] = query_NHGD[at_I]
        if (window,) not in self._masks:
            ends_S = torch.ones(len(query_SHGD), dtype=torch.long, device=self._device)
            ends_S[rows_I] = self.places_N[at_I] + 1
            behind_ST = ends_S[:, None] - torch.arange(self._longest, device=self._device)
            self._masks[window,] = ((behind_ST > 0) & (behind_ST <= window))[:, None, None]
        keys, values = (states[self._lowest : self._above, :, : self._longest] for states in memory)
        found_SHGD = scaled_dot_product_attention(
            query_SHGD, keys, values, attn_mask=self._masks[window,], scale=scale
        )
        result_NHGD[at_I] = found_SHGD[rows_I]


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
