"""Models for training: loaded with clear errors, and saved whole.

Published behaviour: docs/published/sweet_rl.md#in-training, #reward-models.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import Any

import torch
from torch.nn.init import normal_
from transformers import AutoModelForSequenceClassification
from transformers.modeling_layers import GradientCheckpointingLayer

from sweet_rl.chat import load_tokenizer, tokenizer_digest
from sweet_rl.errors import UsageError, missing_package
from sweet_rl.policies.weights import causal_kind, pretrained
from sweet_rl.training import checkpoints
from sweet_rl.training.settings import ModelSettings
from sweet_rl.training.vision import Vision

_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def load_tokenizers(settings: ModelSettings) -> Any:
    """The tokenizer of the policy, after a check that the reference has the same one."""
    tokenizer = load_tokenizer(settings.pretrain)
    if settings.ref_pretrain and Path(settings.ref_pretrain) != Path(settings.pretrain):
        other = None
        with suppress(UsageError):  # a reference saved without one
            other = load_tokenizer(settings.ref_pretrain)
        if other is not None and tokenizer_digest(other) != tokenizer_digest(tokenizer):
            raise UsageError(
                "Their log-probabilities cannot be compared: the tokenizers of --pretrain "
                f"{settings.pretrain!r} and --ref_pretrain {settings.ref_pretrain!r} differ. Take one of the "
                "same family."
            )
    return tokenizer


def load_model(name: str, settings: ModelSettings, *, half: bool = False) -> Any:
    """A causal model in evaluation mode, on the CPU; it may also see, as its configuration says.

    `half`: weights in bfloat16 whatever `dtype` says, as DeepSpeed keeps float32 copies of its own.
    """
    return _loaded(causal_kind, name, settings, half=half)[0]


def critic_kind(config: Any) -> Any:
    """The class that loads models with this configuration and a head `score`."""
    from sweet_rl.training import vision_critics  # for those who train or read one

    return vision_critics.KINDS.get(type(config), AutoModelForSequenceClassification)


def load_critic(name: str, settings: ModelSettings, *, half: bool = False) -> Any:
    """The same with a regression head; one that is new is drawn with deviation 1/(hidden + 1)."""
    model, missing = _loaded(critic_kind, name, settings, half=half, num_labels=1)
    head = getattr(model, "score", None)
    if head is None:
        raise UsageError(f"{name!r} is not a causal language model with a head `score`; name one that is.")
    if "score.weight" in missing:
        with _whole(head.weight):
            normal_(head.weight, std=1 / (model.config.get_text_config().hidden_size + 1))
    return model


def _loaded(
    kind_of: Callable[[Any], Any], name: str, settings: ModelSettings, *, half: bool, **more: Any
) -> tuple[Any, Collection[str]]:
    """The model, and the names of weights that its checkpoint lacks."""
    options: dict[str, Any] = {
        "dtype": torch.bfloat16 if half else _DTYPES.get(settings.dtype, torch.float32)
    }
    if (attention := _attention(settings)) != "auto":
        options["attn_implementation"] = attention
    if settings.load_in_4bit:
        options["quantization_config"] = quantization(
            "--load_in_4bit",
            load_in_4bit=True,
            bnb_4bit_compute_dtype=torch.bfloat16,
            bnb_4bit_use_double_quant=True,
            bnb_4bit_quant_type="nf4",
        )
    return pretrained(name, kind_of, **options, **more)


def _whole(weight: torch.Tensor) -> AbstractContextManager[Any]:
    """ZeRO-3 shards the weight from the beginning; here it is gathered."""
    if not hasattr(weight, "ds_id"):
        return nullcontext()
    import deepspeed

    gathered: AbstractContextManager[Any] = deepspeed.zero.GatheredParameters([weight], modifier_rank=0)
    return gathered


def recompute_activations(model: Any, settings: ModelSettings) -> None:
    """Keep no activations of a layer but its input; they are computed again in the backward pass."""
    enable = getattr(model, "activation_checkpointing_enable", None) or model.gradient_checkpointing_enable
    enable({"use_reentrant": settings.gradient_checkpointing_use_reentrant})
    if settings.lora_rank:
        model.enable_input_require_grads()


def compile_layers(model: Any, settings: ModelSettings) -> None:
    """Let torch compile the model's layers, one kernel for what would be many; adapters are there already.

    Layers of the same kind share what is compiled. That is done up to eight times at first: for one row and
    for several, for sizes that change, with gradients and without.
    """
    layers = [module for module in model.modules() if isinstance(module, GradientCheckpointingLayer)]
    if not layers:
        raise UsageError(f"--torch_compile: {settings.pretrain!r} does not say what its layers are.")
    torch._dynamo.config.cache_size_limit = max(16, torch._dynamo.config.cache_size_limit)
    for layer in layers:
        layer.compile()


def save_whole(model: Any, tokenizer: Any, folder: Path, vision: Vision | None = None) -> None:
    """A folder that transformers and vLLM load; files get their names when all are written."""
    partial = folder / checkpoints.PARTIAL
    model.save_pretrained(partial)
    tokenizer.save_pretrained(partial)
    if vision is not None:
        vision.save(partial)
    new = {path.name for path in partial.iterdir()}
    for pattern in ("*.safetensors", "*.bin", "*.index.json"):
        for old in folder.glob(pattern):  # with other shards, one of another model would be loaded for ours
            if old.name not in new:
                old.unlink()
    for name in sorted(new):
        (partial / name).replace(folder / name)
    partial.rmdir()


def _attention(settings: ModelSettings) -> str:
    """What is asked for; --flash_attn, which computes the same, gives way where it cannot be had."""
    from transformers.utils.import_utils import is_flash_attn_2_available

    if settings.attention != "flash_attention_2" and not settings.flash_attn:
        return settings.attention
    if is_flash_attn_2_available():
        return "flash_attention_2"
    lacks = "needs a CUDA device and the package flash-attn"
    if settings.attention == "flash_attention_2":
        raise UsageError(f"--attention flash_attention_2 {lacks}; auto is about as fast.")
    print(f"Note: --flash_attn {lacks}; torch's own fused attention takes its place.", file=sys.stderr)
    return settings.attention


def quantization(flags: str, **options: Any) -> Any:
    """How weights are stored in 8 or 4 bits: transformers' `BitsAndBytesConfig` of the options."""
    from transformers import BitsAndBytesConfig
    from transformers.utils.import_utils import is_bitsandbytes_available

    if not is_bitsandbytes_available():
        raise missing_package("bitsandbytes", "quantization", needed_for=flags)
    return BitsAndBytesConfig(**options)  # type: ignore[no-untyped-call]
