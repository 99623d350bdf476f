"""Adapters: put on a model that is to be trained, and merged into the model that they were trained on."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from sweet_rl.chat import load_tokenizer
from sweet_rl.errors import UsageError, first_line, missing_package
from sweet_rl.flags import listed
from sweet_rl.training import models
from sweet_rl.training.settings import ModelSettings
from sweet_rl.training.vision import Vision


def add_adapter(model: Any, settings: ModelSettings, *, seed: int | None = None) -> Any:
    """The model with a fresh LoRA adapter, which changes nothing before the first update.

    Its first weights are drawn with `seed`, or from torch's own state.
    """
    try:
        from peft import LoraConfig, get_peft_model
        from transformers.pytorch_utils import Conv1D

        from sweet_rl.training.folding import fold_where_it_pays
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
            adapted = get_peft_model(model, config)
    except ValueError as error:
        raise UsageError(
            f"--target_modules {settings.target_modules!r} does not fit {settings.pretrain!r}: {error} "
            "all-linear fits every model."
        ) from error
    fold_where_it_pays(adapted)
    return adapted


def bare_model(model: Any) -> Any:
    """The transformers model inside a peft model, adapters in place; any other model as it is."""
    return model.get_base_model() if hasattr(model, "get_base_model") else model


def load_adapter(model: Any, folder: Path, *, flag: str, trains: bool = False, **changes: Any) -> Any:
    """The model, named by `flag`, with the adapter of a folder, whose configuration has some `changes`."""
    try:
        from peft import PeftConfig, PeftModel

        from sweet_rl.training.folding import fold_where_it_pays
    except ImportError as error:
        raise missing_package("peft", "lora", needed_for=f"the adapter {str(folder)!r}") from error
    try:
        with _older_names():
            config = PeftConfig.from_pretrained(str(folder))
            config.inference_mode = not trains
            for name, value in changes.items():
                setattr(config, name, value)
            adapted = PeftModel.from_pretrained(model, str(folder), config=config, is_trainable=trains)
    except (ValueError, RuntimeError, OSError, KeyError) as error:
        raise UsageError(
            f"The adapter {str(folder)!r} does not fit the model: {first_line(error)} Name the model "
            f"that it was trained on with {flag}."
        ) from error
    fold_where_it_pays(adapted)
    return adapted


def merge_adapter(adapter: Path, output: Path, settings: ModelSettings) -> None:
    """Write the model with the adapter merged into its weights, and its tokenizer (and image processor).

    `settings.pretrain` is the model below the adapter; empty: the one that the adapter names.
    """
    config = _adapter_config(adapter)
    base = settings.pretrain or config.get("base_model_name_or_path") or ""
    if not base:
        raise UsageError(f"{str(adapter)!r} does not name the model it belongs to; name it with --pretrain.")
    load = models.load_critic if config.get("task_type") == "SEQ_CLS" else models.load_model
    model = load(base, replace(settings, pretrain=base))
    merged = load_adapter(model, adapter, flag="--pretrain").merge_and_unload(safe_merge=True)
    has_tokenizer = (adapter / "tokenizer_config.json").exists()
    output.mkdir(parents=True, exist_ok=True)
    tokenizer = load_tokenizer(str(adapter) if has_tokenizer else base)
    models.save_whole(merged, tokenizer, output, Vision.find(base, tokenizer))


@contextmanager
def _older_names() -> Iterator[None]:
    """Peft asks transformers by names that it warns of."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        yield


def _adapter_config(adapter: Path) -> Mapping[str, Any]:
    path = adapter / "adapter_config.json"
    try:
        config: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise UsageError(
            f"{str(adapter)!r} holds no adapter: it has no adapter_config.json. Name a folder that peft or a "
            "training stage with --lora_rank wrote, such as CKPT_PATH/checkpoint-100."
        ) from error
    except (OSError, ValueError) as error:
        raise UsageError(f"{str(path)!r} cannot be read: {error}") from error
    return config
