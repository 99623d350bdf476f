"""The engines' configurations, made from our flags. No torch, no DeepSpeed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sweet_rl.errors import UsageError
from sweet_rl.training.settings import OptimizerSettings, ShardSettings

_OURS = ("optimizer", "scheduler", "fp16")
"""Sections of DeepSpeed's configuration for which there are flags instead."""


def read_deepspeed_config(path: str) -> dict[str, Any]:
    """DeepSpeed's configuration from a file, as `--deepspeed_config` takes it."""
    try:
        config = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"--deepspeed_config {path!r} is not a readable JSON file: {error}.") from error
    zero = config.get("zero_optimization") if isinstance(config, dict) else None
    if not isinstance(zero, dict) or zero.get("stage") not in {0, 1, 2, 3}:
        raise UsageError(
            f"--deepspeed_config {path!r} must be an object with a section zero_optimization whose stage is "
            "0, 1, 2 or 3 (see configs/engines)."
        )
    if not zero.get("compute_grad_norm", True):
        raise UsageError(
            f"--deepspeed_config {path!r}: leave compute_grad_norm out; without it, gradients that are not "
            "finite would reach the weights."
        )
    for section in _OURS:
        if section in config:
            raise UsageError(
                f"--deepspeed_config {path!r} has a section {section!r}; remove it. The optimizer is AdamW; "
                "--learning_rate, --lr_scheduler and --bf16 say the rest."
            )
    return dict(config)


def offloads(config: Mapping[str, Any]) -> bool:
    """Whether DeepSpeed's configuration keeps something outside the accelerator."""
    zero = config["zero_optimization"]
    parts = (zero.get(name) or {} for name in ("offload_optimizer", "offload_param"))
    return any(part.get("device", "none") != "none" for part in parts)


def deepspeed_config(shards: ShardSettings, optimizer: OptimizerSettings, *, bf16: bool) -> dict[str, Any]:
    """The engine's configuration for training; "auto" is filled in by transformers."""
    given = dict(shards.deepspeed_config or {})
    zero: dict[str, Any] = dict(given.pop("zero_optimization", None) or _zero(shards))
    if zero["stage"] == 3:
        zero["stage3_gather_16bit_weights_on_model_save"] = True
    flags: dict[str, Any] = {
        "bf16": {"enabled": bf16},
        "gradient_clipping": optimizer.max_norm,
        "gradient_accumulation_steps": "auto",
        "train_micro_batch_size_per_gpu": "auto",
        "train_batch_size": "auto",
    }
    for name, value in flags.items():
        other = given.pop(name, "auto")
        if other not in ("auto", value, {"enabled": "auto"}):
            raise UsageError(
                f'--deepspeed_config says {name}: {other!r}, and the flags say otherwise. Write "auto": '
                "precision, clipping and batch sizes have flags."
            )
    config: dict[str, Any] = {
        "zero_optimization": zero,
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False,
        "steps_per_print": 1_000_000_000,
        **flags,
        **given,
    }
    if shards.grad_accum_dtype:
        config["data_types"] = {"grad_accum_dtype": shards.grad_accum_dtype}
    return config


def _zero(shards: ShardSettings) -> dict[str, Any]:
    zero: dict[str, Any] = {
        "stage": shards.zero_stage,
        "overlap_comm": shards.overlap_comm,
        "offload_param": {"device": "none"},
        "offload_optimizer": {"device": "cpu" if shards.adam_offload else "none", "pin_memory": False},
    }
    if shards.zero_stage == 3:
        # A threshold above 0 leaves small tensors whole on every process, which a tiny model consists of.
        zero |= {"stage3_param_persistence_threshold": 0, "zero_hpz_partition_size": shards.zpg}
    return zero


def scoring_config(shards: ShardSettings, *, bf16: bool) -> dict[str, Any]:
    """DeepSpeed's configuration for a model that is only asked, sharded like the one that is trained."""
    given = (shards.deepspeed_config or {}).get("zero_optimization", {})
    zero = {name: value for name, value in given.items() if name == "offload_param"}
    return {
        "zero_optimization": zero | {"stage": shards.zero_stage, "stage3_param_persistence_threshold": 0},
        "bf16": {"enabled": bf16},
        "train_micro_batch_size_per_gpu": 1,
        "steps_per_print": 1_000_000_000,
    }


def fsdp_config(shards: ShardSettings, environment: Mapping[str, str], *, cuda: bool) -> dict[str, Any]:
    """FSDP2's configuration, as transformers wants it.

    Every transformer layer is a unit, gathered for its own pass only. Weights are read by the first process
    of a machine and handed to the others; checkpoints are written by all processes, each its part.
    """
    return {
        "version": 2,
        "auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
        "reshard_after_forward": environment.get("FSDP_RESHARD_AFTER_FORWARD", "true").lower(),
        "cpu_offload": shards.adam_offload and cuda,
        "cpu_ram_efficient_loading": True,
        "state_dict_type": "SHARDED_STATE_DICT",
    }
