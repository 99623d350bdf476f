"""Our settings as the arguments of transformers' Trainer."""

from __future__ import annotations

import os
from typing import Any

import torch
from transformers import TrainingArguments

from sweet_rl.training import engines
from sweet_rl.training.settings import TrainSettings
from sweet_rl.training.sharding import deepspeed_config, fsdp_config


def training_arguments(settings: TrainSettings, accumulation: int) -> TrainingArguments:
    """Trainer's arguments. Making them also joins the other processes, if there are some."""
    options, output, model = settings.optimizer, settings.output, settings.model
    engine = engines.engine_of(settings)
    cuda = torch.cuda.is_available() and model.device != "cpu"
    engines.check_engine(settings, cuda=cuda)
    engines.claim(settings)
    several = engines.world_size() > 1 or engine is not None
    if not cuda:
        os.environ.setdefault("DS_ACCELERATOR", "cpu")  # it need not look for one, and say that there is none
    if several and not cuda:
        engines.join_on_cpu(settings)
    arguments = TrainingArguments(
        output_dir=str(output.ckpt_path if output.save_steps > 0 else output.save_path),  # it is made at once
        per_device_train_batch_size=options.micro_train_batch_size or 1,  # our own batches come
        gradient_accumulation_steps=accumulation,
        num_train_epochs=options.max_epochs,
        learning_rate=options.learning_rate,
        weight_decay=options.l2,
        adam_beta1=options.adam_betas[0],
        adam_beta2=options.adam_betas[1],
        adam_epsilon=1e-8,
        max_grad_norm=options.max_norm,
        optim="adamw_torch_fused" if cuda and engine != "deepspeed" else "adamw_torch",
        logging_steps=output.logging_steps,
        logging_nan_inf_filter=False,
        save_strategy="steps" if output.save_steps > 0 else "no",
        save_steps=max(1, output.save_steps),
        eval_strategy="steps" if output.eval_steps > 0 else "no",
        eval_steps=max(1, output.eval_steps),
        seed=settings.seed,
        bf16=model.bf16 and (cuda or engine is None),  # not known for engines on CPUs; accelerate decides
        ddp_find_unused_parameters=False,
        ddp_timeout=settings.shards.timeout_s,
        use_cpu=not cuda and engine is None,
        accelerator_config={
            "use_configured_state": several and not cuda,
            # A gradient that waits whole for its step's other micro-batches would undo the sharding.
            "gradient_accumulation_kwargs": {"sync_each_batch": True} if engine == "fsdp2" else None,
        },
        **_sharding(settings, cuda=cuda),
        report_to=[],  # numbers go where the metrics do (`sweet_rl.training.metrics`)
        remove_unused_columns=False,
        disable_tqdm=True,
        log_level="error",
        dataloader_pin_memory=cuda,
    )
    if engine == "fsdp2" and model.bf16:
        arguments.fsdp_plugin_args["mixed_precision_policy"] = engines.mixed_precision()
    arguments._n_gpu = min(1, arguments.n_gpu)  # several GPUs in one process are not for us
    return arguments


def _sharding(settings: TrainSettings, *, cuda: bool) -> dict[str, Any]:
    engine = engines.engine_of(settings)
    if engine == "deepspeed":
        config = deepspeed_config(settings.shards, settings.optimizer, bf16=settings.model.bf16)
        return {"deepspeed": config}
    if engine == "fsdp2":
        backend = "cuda:nccl,cpu:gloo" if cuda else "gloo"  # states may lie in main memory
        config = fsdp_config(settings.shards, os.environ, cuda=cuda)
        return {"fsdp": True, "fsdp_config": config, "ddp_backend": backend}
    return {}
