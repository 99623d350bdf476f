"""A nested state of tensors and plain data as two files without code: safetensors and JSON.

Pickles run what they say when they are read, and so cannot be shared; these can.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from sweet_rl.errors import UsageError
from sweet_rl.types import Json

TENSORS, PLAIN = "state.safetensors", "state.json"
_TENSOR, _PAIRS, _TUPLE = "$tensor", "$pairs", "$tuple"


def save_state(folder: Path, state: Any) -> None:
    """Write `state` into `folder`, which exists.

    Args:
        folder: gets `state.safetensors` and `state.json`.
        state: dicts (of any plain keys), lists, tuples, tensors, numbers, strings, None.

    Raises:
        TypeError: something else is in it.
    """
    tensors: dict[str, Tensor] = {}
    plain = _pack(state, tensors, "state")
    save_file(tensors, folder / TENSORS)
    (folder / PLAIN).write_text(json.dumps(plain), encoding="utf-8")


def load_state(folder: Path) -> Any:
    """What `save_state` wrote, tensors on the CPU.

    Raises:
        UsageError: the files are missing or broken.
    """
    try:
        tensors = load_file(folder / TENSORS)
        plain = json.loads((folder / PLAIN).read_text(encoding="utf-8"))
    except (OSError, ValueError, SafetensorError) as error:
        raise UsageError(
            f"The checkpoint {str(folder)!r} cannot be read ({error}). Remove that folder: the run then goes "
            "on from the one before, or from the beginning."
        ) from error
    return _unpack(plain, tensors)


def _pack(value: Any, tensors: dict[str, Tensor], name: str) -> Json:
    match value:
        case Tensor():
            tensors[name] = value.detach().to("cpu", copy=True).contiguous()  # copies may not share memory
            return {_TENSOR: name}
        case dict():
            pairs = [[key, _pack(item, tensors, f"{name}.{key}")] for key, item in value.items()]
            return {_PAIRS: pairs}
        case tuple():
            return {_TUPLE: [_pack(item, tensors, f"{name}.{i}") for i, item in enumerate(value)]}
        case list():
            return [_pack(item, tensors, f"{name}.{i}") for i, item in enumerate(value)]
        case None | bool() | int() | float() | str():
            return value
    raise TypeError(f"{name} is a {type(value).__name__}: neither a tensor nor plain data")


def _unpack(value: Json, tensors: dict[str, Tensor]) -> Any:
    match value:
        case {"$tensor": name}:
            return tensors[name]
        case {"$pairs": pairs}:
            return {key: _unpack(item, tensors) for key, item in pairs}
        case {"$tuple": items}:
            return tuple(_unpack(item, tensors) for item in items)
        case list():
            return [_unpack(item, tensors) for item in value]
    return value
