"""DeepSpeed's configuration, made from our flags. No torch, no DeepSpeed."""

from __future__ import annotations

from typing import Any

from sweet_rl.training.settings import OptimizerSettings, ShardSettings


def deepspeed_config(shards: ShardSettings, optimizer: OptimizerSettings, *, bf16: bool) -> dict[str, Any]:
    """The engine's configuration for training; "auto" is filled in by transformers."""
    zero: dict[str, Any] = {
        "stage": shards.zero_stage,
        "overlap_comm": shards.overlap_comm,
        "offload_param": {"device": "none"},
        "offload_optimizer": {"device": "cpu" if shards.adam_offload else "none", "pin_memory": False},
    }
    if shards.zero_stage == 3:
        # A threshold above 0 leaves small tensors whole on every process, which a tiny model consists of.
        zero |= {"stage3_param_persistence_threshold": 0, "stage3_gather_16bit_weights_on_model_save": True}
        zero |= {"zero_hpz_partition_size": shards.zpg}
    config: dict[str, Any] = {
        "zero_optimization": zero,
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False,
        "bf16": {"enabled": bf16},
        "gradient_clipping": optimizer.max_norm,
        "gradient_accumulation_steps": "auto",
        "train_micro_batch_size_per_gpu": "auto",
        "train_batch_size": "auto",
        "steps_per_print": 1_000_000_000,
    }
    if shards.grad_accum_dtype:
        config["data_types"] = {"grad_accum_dtype": shards.grad_accum_dtype}
    return config


def scoring_config(shards: ShardSettings, *, bf16: bool) -> dict[str, Any]:
    """The engine's configuration for a model that is only asked, sharded like the one that is trained."""
    return {
        "zero_optimization": {"stage": shards.zero_stage, "stage3_param_persistence_threshold": 0},
        "bf16": {"enabled": bf16},
        "train_micro_batch_size_per_gpu": 1,
        "steps_per_print": 1_000_000_000,
    }
