"""Our settings as the arguments of transformers' Trainer."""

from __future__ import annotations

import importlib.util
import os
import socket
import warnings

import torch
from transformers import TrainingArguments

from sweet_rl.errors import missing_package
from sweet_rl.training.settings import TrainSettings
from sweet_rl.training.sharding import deepspeed_config


def training_arguments(settings: TrainSettings, accumulation: int) -> TrainingArguments:
    """Trainer's arguments. Making them also joins the other processes, if there are some.

    Args:
        settings: what the flags say.
        accumulation: micro-batches of one optimizer step on one process.
    """
    options, output, model = settings.optimizer, settings.output, settings.model
    world = world_size()
    sharded = uses_deepspeed(settings)
    if sharded and importlib.util.find_spec("deepspeed") is None:
        raise missing_package(
            "deepspeed", "deepspeed", needed_for="sharding over processes (--zero_stage 0 needs none)"
        )
    cuda = torch.cuda.is_available() and model.device != "cpu"
    if not cuda:
        os.environ.setdefault("DS_ACCELERATOR", "cpu")  # it need not look for one, and say that there is none
    if sharded and not cuda:
        _join_on_cpu()
    arguments = TrainingArguments(
        output_dir=str(output.ckpt_path),
        per_device_train_batch_size=options.micro_train_batch_size,
        gradient_accumulation_steps=accumulation,
        num_train_epochs=options.max_epochs,
        learning_rate=options.learning_rate,
        weight_decay=options.l2,
        adam_beta1=options.adam_betas[0],
        adam_beta2=options.adam_betas[1],
        adam_epsilon=1e-8,
        max_grad_norm=options.max_norm,
        optim="adamw_torch_fused" if cuda and not sharded else "adamw_torch",
        logging_steps=output.logging_steps,
        logging_nan_inf_filter=False,
        save_strategy="steps" if output.save_steps > 0 else "no",
        save_steps=max(1, output.save_steps),
        eval_strategy="steps" if output.eval_steps > 0 else "no",
        eval_steps=max(1, output.eval_steps),
        seed=settings.seed,
        bf16=model.bf16,
        deepspeed=deepspeed_config(settings.shards, options, bf16=model.bf16) if sharded else None,
        ddp_backend="gloo" if world > 1 and not cuda else None,
        ddp_find_unused_parameters=False,
        use_cpu=not cuda and not sharded,
        accelerator_config={"use_configured_state": sharded and not cuda},
        report_to=_trackers(settings),
        run_name=output.wandb_run_name,
        remove_unused_columns=False,
        disable_tqdm=True,
        log_level="error",
        dataloader_pin_memory=cuda,
    )
    arguments._n_gpu = min(1, arguments.n_gpu)  # noqa: SLF001 - several GPUs in one process are not for us
    return arguments


def _join_on_cpu() -> None:
    """Let DeepSpeed's processes meet through gloo.

    Accelerate knows DeepSpeed on accelerators only: left alone it takes each process for the only one, and
    told to use the CPU it forgets DeepSpeed. A state made beforehand is taken as it is.
    """
    from accelerate import PartialState  # noqa: PLC0415 - seconds
    from deepspeed import ops  # noqa: PLC0415 - an extra

    ops.__compatible_ops__["deepspeed_shm_comm"] = False  # would be compiled now, and gloo does the same
    warnings.filterwarnings("ignore", category=FutureWarning, module="torch.distributed")
    os.environ["ACCELERATE_USE_DEEPSPEED"] = "true"
    if "LOCAL_RANK" not in os.environ:  # one process that was not started by a launcher
        os.environ |= {"LOCAL_RANK": "0", "RANK": "0", "WORLD_SIZE": "1"}
        os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(_free_port())}
    PartialState(cpu=False, backend="gloo")


def _free_port() -> int:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        port: int = server.getsockname()[1]
        return port


def world_size() -> int:
    """Number of processes that the launcher started."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def rank() -> int:
    """Number of this process among them."""
    return int(os.environ.get("RANK", "0"))


def uses_deepspeed(settings: TrainSettings) -> bool:
    """Sharding is for several processes; one process needs it to keep states in main memory."""
    return settings.shards.adam_offload or (world_size() > 1 and settings.shards.zero_stage > 0)


def _trackers(settings: TrainSettings) -> list[str]:
    output, chosen = settings.output, []
    for wanted, package in ((output.wandb, "wandb"), (output.tensorboard is not None, "tensorboard")):
        if wanted and importlib.util.find_spec(package) is None:
            raise missing_package(package, package, needed_for=f"--use_{package}")
        if wanted:
            chosen.append(package)
    if output.tensorboard is not None:
        os.environ["TENSORBOARD_LOGGING_DIR"] = output.tensorboard
    return chosen
