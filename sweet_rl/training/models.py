"""Models and adapters for training: loaded with clear errors, put on, merged, and saved whole.

Published behaviour: docs/published/sweet_rl.md#in-training, #reward-models.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch.nn.init import normal_
from transformers import AutoModelForSequenceClassification
from transformers.modeling_layers import GenericForSequenceClassification, GradientCheckpointingLayer

from sweet_rl.chat import load_tokenizer, tokenizer_digest
from sweet_rl.errors import UsageError, first_line, missing_package
from sweet_rl.flags import listed
from sweet_rl.policies.weights import causal_kind, pretrained
from sweet_rl.training import checkpoints
from sweet_rl.training.settings import ModelSettings
from sweet_rl.training.vision import Vision


def load_tokenizers(settings: ModelSettings) -> Any:
    """The tokenizer of the policy, after a check that the reference has the same one."""
    tokenizer = load_tokenizer(settings.pretrain, "--pretrain")
    if settings.ref_pretrain and Path(settings.ref_pretrain) != Path(settings.pretrain):
        other = None
        with suppress(UsageError):  # a reference saved without one
            other = load_tokenizer(settings.ref_pretrain, "--ref_pretrain")
        if other is not None and tokenizer_digest(other) != tokenizer_digest(tokenizer):
            raise UsageError(
                f"They cannot be compared: the tokenizers of --pretrain {settings.pretrain!r} and --ref_pretrain "
                f"{settings.ref_pretrain!r} differ."
            )
    return tokenizer


def load_model(name: str, settings: ModelSettings) -> Any:
    """A causal model in evaluation mode, on the CPU, which may see."""
    return _loaded(causal_kind, name, settings)[0]


def load_critic(name: str, settings: ModelSettings) -> Any:
    """The same with a regression head; one that is new is drawn with deviation 1/(hidden + 1)."""
    model, missing = _loaded(critic_kind, name, settings, num_labels=1)
    head = getattr(model, "score", None)
    if head is None:
        raise UsageError(f"{name!r} is not a causal language model with a head `score`; name one that is.")
    if "score.weight" in missing:
        gathered: Any = nullcontext()
        if hasattr(head.weight, "ds_id"):  # ZeRO-3 shards the weight from the beginning
            import deepspeed

            gathered = deepspeed.zero.GatheredParameters([head.weight], modifier_rank=0)
        with gathered:
            normal_(head.weight, std=1 / (model.config.get_text_config().hidden_size + 1))
    return model


@cache
def _vision_critics() -> dict[str, Any]:
    """Vision-language models with a regression head, which transformers has no classes for."""
    from transformers.models.qwen2_5_vl.modeling_qwen2_5_vl import Qwen2_5_VLPreTrainedModel
    from transformers.models.qwen2_vl.modeling_qwen2_vl import Qwen2VLPreTrainedModel

    bases = {"Qwen2VL": Qwen2VLPreTrainedModel, "Qwen2_5_VL": Qwen2_5_VLPreTrainedModel}
    made = (
        type(f"{name}ForSequenceClassification", (GenericForSequenceClassification, base), {})
        for name, base in bases.items()
    )
    return dict(zip(("qwen2_vl", "qwen2_5_vl"), made, strict=True))


def critic_kind(config: Any) -> Any:
    """The class that loads models with this configuration and a head `score`."""
    if config.model_type in {"qwen2_vl", "qwen2_5_vl"}:
        return _vision_critics()[config.model_type]
    return AutoModelForSequenceClassification


def _loaded(
    kind_of: Callable[[Any], Any], name: str, settings: ModelSettings, **more: Any
) -> tuple[Any, Collection[str]]:
    """The model, and the names of weights that its checkpoint lacks.

    --flash_attn computes the same as torch's own attention, and gives way where it cannot be had.
    """
    from transformers.utils.import_utils import is_flash_attn_2_available

    attention, demanded = settings.attention, settings.attention == "flash_attention_2"
    if (demanded or settings.flash_attn) and is_flash_attn_2_available():
        attention = "flash_attention_2"
    elif demanded or settings.flash_attn:
        lacks = "needs a CUDA device and the package flash-attn"
        if demanded:
            raise UsageError(f"--attention flash_attention_2 {lacks}; auto is about as fast.")
        print(f"Note: --flash_attn {lacks}; torch's own fused attention takes its place.", file=sys.stderr)
    options: dict[str, Any] = {
        "dtype": torch.bfloat16 if settings.dtype == "bfloat16" else torch.float32,
        **({} if attention == "auto" else {"attn_implementation": attention}),
    }
    if settings.load_in_4bit:
        kind = {"bnb_4bit_use_double_quant": True, "bnb_4bit_quant_type": "nf4"}
        kind |= {"bnb_4bit_compute_dtype": torch.bfloat16, "load_in_4bit": True}
        options["quantization_config"] = quantization("--load_in_4bit", **kind)
    return pretrained(name, kind_of, **options, **more)


def quantization(flags: str, **options: Any) -> Any:
    """How weights are stored in 8 or 4 bits: transformers' `BitsAndBytesConfig` of the options."""
    from transformers import BitsAndBytesConfig
    from transformers.utils.import_utils import is_bitsandbytes_available

    if not is_bitsandbytes_available():
        raise missing_package("bitsandbytes", "quantization", needed_for=flags)
    return BitsAndBytesConfig(**options)  # type: ignore[no-untyped-call]


def recompute_activations(model: Any, settings: ModelSettings) -> None:
    """Keep no activations of a layer but its input; they are computed again in the backward pass."""
    enable = getattr(model, "activation_checkpointing_enable", None) or model.gradient_checkpointing_enable
    enable({"use_reentrant": settings.gradient_checkpointing_use_reentrant})
    if settings.lora_rank:
        model.enable_input_require_grads()


def trainable(model: Any, settings: ModelSettings) -> Any:
    """The model as it is trained: recomputing activations, with an adapter, compiled, if the flags say so.

    Layers of the same kind share what torch compiles. That is done up to eight times at first: for one row and
    for several, for sizes that change, with gradients and without.
    """
    if settings.gradient_checkpointing:
        recompute_activations(model, settings)
    if settings.lora_rank:
        model = add_adapter(model, settings)
    if settings.torch_compile:
        layers = [module for module in model.modules() if isinstance(module, GradientCheckpointingLayer)]
        if not layers:
            raise UsageError(f"--torch_compile: {settings.pretrain!r} does not say what its layers are.")
        torch._dynamo.config.cache_size_limit = max(16, torch._dynamo.config.cache_size_limit)
        for layer in layers:
            layer.compile()
    return model


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


def add_adapter(model: Any, settings: ModelSettings, *, seed: int | None = None) -> Any:
    """The model with a fresh LoRA adapter, its first weights drawn with `seed`, or from torch's own state."""
    try:
        from peft import LoraConfig, get_peft_model
        from transformers.pytorch_utils import Conv1D
    except ImportError as error:
        raise missing_package("peft", "lora", needed_for="--lora_rank") from error
    names = listed(settings.target_modules.replace(" ", ","))
    config = LoraConfig(
        task_type="SEQ_CLS" if hasattr(model, "score") else "CAUSAL_LM",  # a head is trained whole
        r=settings.lora_rank,
        lora_alpha=settings.lora_alpha,
        lora_dropout=settings.lora_dropout,
        target_modules="all-linear" if names == ["all-linear"] else names,
        fan_in_fan_out=any(isinstance(module, Conv1D) for module in model.modules()),  # GPT-2's layers
    )
    try:
        with _older_names(), torch.random.fork_rng(devices=[], enabled=seed is not None):
            if seed is not None:
                torch.manual_seed(seed)
            return get_peft_model(model, config)
    except ValueError as error:
        raise UsageError(
            f"--target_modules {settings.target_modules!r} does not fit {settings.pretrain!r}: {error} "
            "all-linear fits every model."
        ) from error


def bare_model(model: Any) -> Any:
    """The transformers model inside a peft model, adapters in place; any other model as it is."""
    return model.get_base_model() if hasattr(model, "get_base_model") else model


def load_adapter(model: Any, folder: Path, *, flag: str, trains: bool = False, **changes: Any) -> Any:
    """The model, named by `flag`, with the adapter of a folder, whose configuration has some `changes`."""
    try:
        from peft import PeftConfig, PeftModel
    except ImportError as error:
        raise missing_package("peft", "lora", needed_for=f"the adapter {str(folder)!r}") from error
    try:
        with _older_names():
            config = PeftConfig.from_pretrained(str(folder))
            config.inference_mode = not trains
            for name, value in changes.items():
                setattr(config, name, value)
            return PeftModel.from_pretrained(model, str(folder), config=config, is_trainable=trains)
    except (ValueError, RuntimeError, OSError, KeyError) as error:
        raise UsageError(
            f"The adapter {str(folder)!r} does not fit the model: {first_line(error)} Name the model "
            f"that it was trained on with {flag}."
        ) from error


def merge_adapter(adapter: Path, output: Path, settings: ModelSettings) -> None:
    """Write the model with the adapter merged into its weights, and its tokenizer (and image processor).

    `settings.pretrain` is the model below the adapter; empty: the one that the adapter names.
    """
    path = adapter / "adapter_config.json"
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise UsageError(f"{str(adapter)!r} holds no adapter: it has no adapter_config.json.") from error
    except (OSError, ValueError) as error:
        raise UsageError(f"{str(path)!r} cannot be read: {error}") from error
    base = settings.pretrain or config.get("base_model_name_or_path") or ""
    if not base:
        raise UsageError(f"{str(adapter)!r} does not name the model it belongs to; name it with --pretrain.")
    load = load_critic if config.get("task_type") == "SEQ_CLS" else load_model
    model = load(base, replace(settings, pretrain=base))
    merged = load_adapter(model, adapter, flag="--pretrain").merge_and_unload(safe_merge=True)
    has_tokenizer = (adapter / "tokenizer_config.json").exists()
    output.mkdir(parents=True, exist_ok=True)
    tokenizer = load_tokenizer(str(adapter) if has_tokenizer else base)
    save_whole(merged, tokenizer, output, Vision.find(base, tokenizer))


@contextmanager
def _older_names() -> Iterator[None]:
    """Peft asks transformers by names that it warns of."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        yield
