"""A key-value cache that grows without copying. Imports transformers.

Axes: B rows, H heads, T places, D of a head.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor
from transformers.cache_utils import DynamicLayer

_ROOM = 64
"""Places to spare; when they are used up, everything is copied once."""


def with_room(cache: Any) -> None:
    """Let the layers of a cache that are copied for every token be copied for every 64th one only."""
    cache.layers = [_Roomy(layer) if type(layer) is DynamicLayer else layer for layer in cache.layers]


class _Roomy(DynamicLayer):  # type: ignore[no-untyped-call] # how it registers itself
    """One layer; `keys` and `values` are the beginnings of larger tensors."""

    keys: Tensor
    values: Tensor

    def __init__(self, layer: Any) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.keys, self.values = layer.keys, layer.values
        self.dtype, self.device = layer.keys.dtype, layer.keys.device
        self.is_initialized = True
        self._whole: tuple[Tensor, Tensor] | None = None

    def update(self, key_states: Tensor, value_states: Tensor, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        """All keys and values [B, H, T, D], these behind those before."""
        start = self.keys.shape[-2]
        end = start + key_states.shape[-2]
        if self._whole is None or self._whole[0].shape[-2] < end:
            self._whole = (_longer(self.keys, end + _ROOM), _longer(self.values, end + _ROOM))
        keys, values = self._whole
        keys[..., start:end, :], values[..., start:end, :] = key_states, value_states
        self.keys, self.values = keys[..., :end, :], values[..., :end, :]
        return self.keys, self.values

    def batch_select_indices(self, indices: Tensor) -> None:
        """Keep the rows of the batch with these indices."""
        super().batch_select_indices(indices)
        self._whole = None


def _longer(states_BHTD: Tensor, places: int) -> Tensor:
    """The same in a tensor with so many places."""
    longer = states_BHTD.new_empty(*states_BHTD.shape[:-2], places, states_BHTD.shape[-1])
    longer[..., : states_BHTD.shape[-2], :] = states_BHTD
    return longer
