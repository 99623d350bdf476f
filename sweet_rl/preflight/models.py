"""The size of a model, and estimates of what its training needs: memory of each GPU, free disk."""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from sweet_rl.chat.names import model_path
from sweet_rl.errors import UsageError
from sweet_rl.preflight.findings import Finding, fine, missing, warn

_TRAINED: Final = 16
"""Bytes of a trained parameter: weight, gradient, Adam's two states, and of a half one a float32 copy."""

_OF_A_LAYER: Final = 40
"""Bytes that the layer being computed keeps, for each token and channel; measured orders, not more."""

_BILLIONS: Final = re.compile(r"(?<![\d.])(\d+(?:\.\d+)?)B(?![A-Za-z])")

_TOKENIZER: Final = ("tokenizer.json", "tokenizer.model", "vocab.json", "tokenizer_config.json")


@dataclass(frozen=True, slots=True)
class Size:
    """A model in numbers that memory depends on."""

    parameters: int
    layers: int
    width: int

    @property
    def short(self) -> str:
        """Its parameters, as people say it."""
        billions = self.parameters / 1e9
        return f"{billions:.1f} billion weights" if billions >= 0.1 else f"{self.parameters:,} weights"


@dataclass(frozen=True, slots=True)
class Training:
    """How it is trained.

    Attributes:
        processes: that share the work, a GPU each.
        sharded: what is in parts: 0 nothing, 1 Adam's states, 2 gradients too, 3 weights too.
        half: weights are kept in bfloat16 beside a float32 copy (DeepSpeed with --bf16).
        lora_rank: of an adapter; 0: all weights are trained.
        four_bits: the base is in 4 bits.
        offload: Adam's states are in main memory.
        recompute: activations are computed again.
        tokens: in one forward pass.
        kept: checkpoints on the way that are kept.
    """

    processes: int = 1
    sharded: int = 0
    half: bool = False
    lora_rank: int = 0
    four_bits: bool = False
    offload: bool = False
    recompute: bool = False
    tokens: int = 0
    kept: int = 0


def look_at_model(name: str) -> tuple[Size | None, Finding]:
    """How large a model is, and whether its folder is whole.

    A model that is not on this machine has the size that its name says; None where that says nothing.
    """
    what = "model"
    try:
        folder = Path(model_path(name)).expanduser()
    except UsageError as error:
        return None, missing(what, str(error), f"sweet-rl fetch_model {name}")
    if not folder.is_dir():
        cached = _cached(name)
        if cached is None:
            seen = f"{name!r} is no folder and not in the hub's cache; the first stage would fetch it"
            return _named_size(name), warn(what, seen, f"hf download {name}")
        folder = cached
    if not (folder / "config.json").is_file():
        return None, missing(what, f"{folder} has no config.json", f"hf download {name}, or another folder")
    lacking = _lacking(folder)
    if lacking:
        return None, missing(what, f"{folder} lacks {lacking}", f"hf download {name}, or another folder")
    size = size_of(folder)
    return size, fine(what, f"{folder}: {size.short}")


def size_of(folder: Path) -> Size:
    """Counted in the files of weights, where they say it, else from the configuration."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    config = config.get("text_config") or config
    layers = int(config.get("num_hidden_layers") or config.get("n_layer") or 1)
    width = int(config.get("hidden_size") or config.get("n_embd") or 1)
    counted = sum(map(_count, sorted(folder.glob("*.safetensors"))))
    return Size(counted or _from_config(config, layers, width), layers, width)


def gpu_bytes(size: Size, training: Training) -> float:
    """About what one GPU holds of it: weights, gradients, Adam's states, activations."""
    n, whole = training.processes, size.parameters
    trained = whole
    base = 0.0
    if training.lora_rank:
        trained = 4 * 2 * training.lora_rank * size.width * size.layers
        base = whole * (0.55 if training.four_bits else 2 if training.half else 4)
        base /= n if training.sharded == 3 else 1
    weight = gradient = 2 if training.half else 4
    states = 0 if training.offload else _TRAINED - weight - gradient
    shares = ((weight, 3), (gradient, 2), (states, 1))  # bytes, and from which stage on in parts
    held = sum(trained * part / (n if training.sharded >= stage else 1) for part, stage in shares)
    kept = 2 * size.layers if training.recompute else _OF_A_LAYER * size.layers
    return base + held + training.tokens * size.width * (kept + _OF_A_LAYER)


def main_memory_bytes(size: Size, training: Training) -> float:
    """What all processes of a machine hold outside GPUs: Adam's states, where they are offloaded."""
    trained = 0 if training.lora_rank else size.parameters
    return trained * 12.0 if training.offload else 0.0


def disk_bytes(size: Size, training: Training) -> float:
    """About what a training writes: the model, and the checkpoints that are kept."""
    saved = size.parameters * (2 if training.half else 4)
    checkpoint = 0 if training.lora_rank else size.parameters * _TRAINED
    return saved + training.kept * checkpoint


def _named_size(name: str) -> Size | None:
    """Of names like Llama-3.1-8B, with the usual proportions: a width of 128 for each layer."""
    found = _BILLIONS.search(name)
    if found is None:
        return None
    parameters = int(float(found[1]) * 1e9)
    layers = max(1, round((parameters / (12 * 128**2)) ** (1 / 3)))
    return Size(parameters, layers, 128 * layers)


def _from_config(config: Mapping[str, Any], layers: int, width: int) -> int:
    """Weights of a Llama or its like."""
    heads = int(config.get("num_attention_heads") or config.get("n_head") or 1)
    head = int(config.get("head_dim") or width // heads)
    shared = int(config.get("num_key_value_heads") or heads)
    inner = int(config.get("intermediate_size") or 4 * width)
    matrices = 3 if "intermediate_size" in config else 2
    layer = 2 * width * head * (heads + shared) + matrices * width * inner + 2 * width
    heads_of_words = 1 if config.get("tie_word_embeddings") else 2
    return layers * layer + heads_of_words * int(config.get("vocab_size") or 0) * width + width


def _count(path: Path) -> int:
    """Numbers in a file of tensors, by its header."""
    try:
        with path.open("rb") as file:
            length = struct.unpack("<Q", file.read(8))[0]
            header = json.loads(file.read(length))
    except (OSError, ValueError, struct.error):
        return 0
    shapes = (entry["shape"] for name, entry in header.items() if name != "__metadata__")
    return sum(_product(shape) for shape in shapes)


def _product(shape: list[int]) -> int:
    result = 1
    for length in shape:
        result *= length
    return result


def _lacking(folder: Path) -> str:
    """What a folder that transformers loads has, and this one has not."""
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        shards = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
        gone = sorted(name for name in shards if not (folder / name).is_file())
        if gone:
            return f"{len(gone)} of {len(shards)} files of weights ({gone[0]}, ...)"
    elif not [*folder.glob("*.safetensors"), *folder.glob("*.bin")]:
        return "weights (*.safetensors)"
    if not any((folder / name).is_file() for name in _TOKENIZER):
        return "a tokenizer"
    return ""


def _cached(name: str) -> Path | None:
    try:
        from huggingface_hub import try_to_load_from_cache  # an extra
        from huggingface_hub.errors import HFValidationError
    except ImportError:
        return None
    try:
        found = try_to_load_from_cache(name, "config.json")
    except HFValidationError:
        return None
    return Path(found).parent if isinstance(found, str) else None
