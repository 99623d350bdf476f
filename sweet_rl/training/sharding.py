"""DeepSpeed's ZeRO and torch's FSDP2, driven by transformers' Trainer: one model, sharded over several processes.

Here is what accelerate leaves to us: which engine a run uses and its configuration, how processes meet where there is
no accelerator, a sharded model that is only asked, a whole model out of its shards, and words for a process that is gone.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import re
import socket
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import torch
from transformers import TrainingArguments
from transformers.integrations.deepspeed import unset_hf_deepspeed_config

from sweet_rl.errors import ServiceError, UsageError, first_line, missing_package
from sweet_rl.training import models
from sweet_rl.training.processes import rank, world_size
from sweet_rl.training.settings import Engine, ShardSettings, TrainSettings

# Where `accelerate launch` says that it wants an engine, and where accelerate looks whether it is wanted.
_LAUNCHERS = {"deepspeed": "ACCELERATE_USE_DEEPSPEED", "fsdp2": "ACCELERATE_USE_FSDP"}
# How torch says that another process cannot be reached; its classes of errors do not show it.
_LOST = re.compile(r"gloo/|NCCL|closed by peer|reset by peer|timed out|TCPStore|Broken pipe", re.IGNORECASE)


def engine_of(settings: TrainSettings) -> Engine | None:
    """What shards this run over processes (one needs DeepSpeed to offload states); None: each has the whole model."""
    if settings.shard_with == "fsdp2":
        return "fsdp2" if world_size() > 1 else None
    sharded = settings.adam_offload or (world_size() > 1 and settings.zero_stage > 0)
    return "deepspeed" if sharded else None


def half_weights(settings: TrainSettings) -> bool:
    """Whether models are loaded in bfloat16 whatever `dtype` says: DeepSpeed keeps float32 copies of its own."""
    return engine_of(settings) == "deepspeed" and settings.bf16


def shards_weights(settings: TrainSettings) -> bool:
    """Whether weights are divided, so that no process has all of them."""
    engine = engine_of(settings)
    return engine == "fsdp2" or (engine == "deepspeed" and settings.zero_stage == 3)


def describe(settings: TrainSettings) -> str | None:
    """The engine and its number of processes for people; None on a single process."""
    engine = engine_of(settings)
    names = {"deepspeed": f"DeepSpeed ZeRO-{settings.zero_stage}", "fsdp2": "FSDP2"}
    return f"{names[engine]} over {world_size()} processes" if engine else None


def check_engine(settings: TrainSettings, *, cuda: bool) -> None:
    """Raises UsageError for what the engine of this run does not have; `cuda`: it runs on GPUs."""
    engine = engine_of(settings)
    if engine == "deepspeed" and importlib.util.find_spec("deepspeed") is None:
        needs = "sharding over processes (--shard_with fsdp2 and --zero_stage 0 need none)"
        raise missing_package("deepspeed", "deepspeed", needed_for=needs)
    if engine == "deepspeed" and settings.bf16 and not cuda:
        raise UsageError("--bf16: on CPUs DeepSpeed computes in float32 only; use --shard_with fsdp2.")
    if engine is None and settings.adam_offload:
        raise UsageError("--adam_offload: with one process only --shard_with deepspeed can do that.")
    if settings.torch_compile and (engine or world_size() > 1):
        raise UsageError("--torch_compile works with one process only, without an engine: leave it out.")
    if settings.load_in_4bit and shards_weights(settings):
        raise UsageError("--load_in_4bit: quantised weights are not sharded here. Use --zero_stage 2.")


def deepspeed_config(settings: TrainSettings) -> dict[str, Any]:
    """The engine's configuration for training; "auto" is filled in by transformers."""
    given = dict(settings.deepspeed or {})
    zero: dict[str, Any] = dict(given.pop("zero_optimization", None) or {})
    if not zero:
        zero = {
            "stage": settings.zero_stage,
            "overlap_comm": settings.overlap_comm,
            "offload_param": {"device": "none"},
            "offload_optimizer": {"device": "cpu" if settings.adam_offload else "none", "pin_memory": False},
        }
        if settings.zero_stage == 3:  # above 0, small tensors stay whole, which a tiny model consists of
            zero |= {"stage3_param_persistence_threshold": 0, "zero_hpz_partition_size": settings.zpg}
    if zero["stage"] == 3:
        zero["stage3_gather_16bit_weights_on_model_save"] = True
    flags: dict[str, Any] = {
        "bf16": {"enabled": settings.bf16},
        "gradient_clipping": settings.max_norm,
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
    if settings.grad_accum_dtype:
        config["data_types"] = {"grad_accum_dtype": settings.grad_accum_dtype}
    return config


def scoring_config(settings: TrainSettings) -> dict[str, Any]:
    """DeepSpeed's configuration for a model that is only asked, sharded like the one that is trained."""
    given = (settings.deepspeed or {}).get("zero_optimization", {})
    zero = {name: value for name, value in given.items() if name == "offload_param"}
    return {
        "zero_optimization": zero | {"stage": settings.zero_stage, "stage3_param_persistence_threshold": 0},
        "bf16": {"enabled": settings.bf16},
        "train_micro_batch_size_per_gpu": 1,
        "steps_per_print": 1_000_000_000,
    }


def fsdp_config(settings: ShardSettings, environment: Mapping[str, str], *, cuda: bool) -> dict[str, Any]:
    """FSDP2's configuration, as transformers wants it: each layer is a unit, gathered for its own pass only."""
    return {
        "version": 2,
        "auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
        "reshard_after_forward": environment.get("FSDP_RESHARD_AFTER_FORWARD", "true").lower(),
        "cpu_offload": settings.adam_offload and cuda,
        "cpu_ram_efficient_loading": True,
        "state_dict_type": "SHARDED_STATE_DICT",
    }


def claim(settings: TrainSettings) -> None:
    """Set accelerate's engine and precision by the flags, whatever its own configuration says."""
    engine = engine_of(settings)
    for name, variable in _LAUNCHERS.items():
        if name == engine:
            os.environ[variable] = "true"
        else:
            os.environ.pop(variable, None)
    if engine == "deepspeed":  # accelerate warns that it does not accumulate gradients; Trainer does
        logging.getLogger("accelerate.accelerator").setLevel(logging.ERROR)
    os.environ["ACCELERATE_MIXED_PRECISION"] = "bf16" if settings.bf16 else "no"


def join_on_cpu(settings: TrainSettings) -> None:
    """Let processes without accelerators meet, through gloo.

    Accelerate shards on accelerators only: left alone, each of DeepSpeed's processes takes itself for the
    only one, and FSDP silently does nothing. A state made beforehand is taken as it is.
    """
    from accelerate import DistributedType, PartialState

    engine = engine_of(settings)
    os.environ.pop("ACCELERATE_USE_CPU", None)  # it would forget the engine
    options: dict[str, Any] = {"backend": "gloo", "timeout": timedelta(seconds=settings.timeout_s)}
    warnings.filterwarnings("ignore", message="OMP_NUM_THREADS")  # as many threads as there are cores
    if engine != "deepspeed":
        state = PartialState(cpu=True, **options)
        if engine == "fsdp2":
            state.distributed_type = DistributedType.MULTI_GPU  # from which it makes FSDP; the device stays
        return
    from deepspeed import ops

    ops.__compatible_ops__["deepspeed_shm_comm"] = False  # would be compiled now, and gloo does the same
    warnings.filterwarnings("ignore", category=FutureWarning, module="torch.distributed")
    if "LOCAL_RANK" not in os.environ:  # one process that was not started by a launcher
        with socket.socket() as server:
            server.bind(("127.0.0.1", 0))
            port = server.getsockname()[1]
        os.environ |= {"LOCAL_RANK": "0", "RANK": "0", "WORLD_SIZE": "1"}
        os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    PartialState(cpu=False, **options)


@contextmanager
def lost_processes_named(settings: TrainSettings) -> Iterator[None]:
    """Say so when the others cannot be reached."""
    try:
        yield
    except RuntimeError as error:
        if world_size() == 1 or not _LOST.search(str(error)):
            raise
        raise ServiceError(
            f"Process {rank()} of {world_size()} cannot reach the others: one has ended (see its own output), or "
            f"has not answered within --timeout_s {settings.timeout_s}. Start all again; --load_checkpoint resumes "
            f"from the newest checkpoint. ({first_line(error)[:200]})"
        ) from error


def training_arguments(settings: TrainSettings, accumulation: int) -> TrainingArguments:
    """Trainer's arguments. Making them also joins the other processes, if there are some."""
    engine = engine_of(settings)
    cuda = torch.cuda.is_available() and settings.device != "cpu"
    check_engine(settings, cuda=cuda)
    claim(settings)
    several = world_size() > 1 or engine is not None
    if not cuda:
        os.environ.setdefault("DS_ACCELERATOR", "cpu")  # it need not look for one, and say that there is none
    if several and not cuda:
        join_on_cpu(settings)
    engines: dict[str, Any] = {}
    if engine == "deepspeed":
        engines["deepspeed"] = deepspeed_config(settings)
    elif engine == "fsdp2":
        config = fsdp_config(settings, os.environ, cuda=cuda)
        backend = "cuda:nccl,cpu:gloo" if cuda else "gloo"  # states may lie in main memory
        engines |= {"fsdp": True, "fsdp_config": config, "ddp_backend": backend}
    arguments = TrainingArguments(
        output_dir=str(
            settings.ckpt_path if settings.save_steps > 0 else settings.save_path
        ),  # it is made at once
        per_device_train_batch_size=settings.micro_train_batch_size or 1,  # our own batches come
        gradient_accumulation_steps=accumulation,
        num_train_epochs=settings.max_epochs,
        learning_rate=settings.learning_rate,
        weight_decay=settings.l2,
        adam_beta1=settings.betas[0],
        adam_beta2=settings.betas[1],
        adam_epsilon=1e-8,
        max_grad_norm=settings.max_norm,
        optim="adamw_torch_fused" if cuda and engine != "deepspeed" else "adamw_torch",
        logging_steps=settings.logging_steps,
        logging_nan_inf_filter=False,
        save_strategy="steps" if settings.save_steps > 0 else "no",
        save_steps=max(1, settings.save_steps),
        eval_strategy="steps" if settings.eval_steps > 0 else "no",
        eval_steps=max(1, settings.eval_steps),
        seed=settings.seed,
        bf16=settings.bf16 and (cuda or engine is None),  # not known for engines on CPUs; accelerate decides
        ddp_find_unused_parameters=False,
        ddp_timeout=settings.timeout_s,
        use_cpu=not cuda and engine is None,
        accelerator_config={
            "use_configured_state": several and not cuda,
            # A gradient that waits whole for its step's other micro-batches would undo the
            "gradient_accumulation_kwargs": {"sync_each_batch": True} if engine == "fsdp2" else None,
        },
        **engines,
        report_to=[],  # numbers go where the metrics do (`sweet_rl.training.checkpoints.MetricsLog`)
        remove_unused_columns=False,
        disable_tqdm=True,
        log_level="error",
        dataloader_pin_memory=cuda,
    )
    if engine == "fsdp2" and settings.bf16:
        from torch.distributed.fsdp import MixedPrecisionPolicy  # not in every build of torch

        # It computes in bfloat16; it adds up gradients, and gives log-probabilities, in float32.
        policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
        arguments.fsdp_plugin_args["mixed_precision_policy"] = policy
    arguments._n_gpu = min(1, arguments.n_gpu)  # several GPUs in one process are not for us
    return arguments


def sharded_for_scoring(model: Any, arguments: Any, settings: TrainSettings) -> Any:
    """A model that is only asked, sharded as the one that is trained will be."""
    if engine_of(settings) == "deepspeed":
        import deepspeed

        config = scoring_config(settings)
        return deepspeed.initialize(model=model, config=config)[0]
    from accelerate import Accelerator
    from accelerate.utils import FullyShardedDataParallelPlugin, fsdp2_prepare_model

    plugin = FullyShardedDataParallelPlugin(**arguments.fsdp_plugin_args)
    accelerator = Accelerator(mixed_precision=arguments.mixed_precision, fsdp_plugin=plugin)
    return fsdp2_prepare_model(accelerator, model)


def reshard(model: Any) -> None:
    """Drop the weights that FSDP2 holds ready for a backward pass, when none will come."""
    for module in model.modules():
        if hasattr(module, "reshard"):
            module.reshard()


def whole_model(kind: type, trained: Any, weights: Mapping[str, Any], settings: TrainSettings) -> Any:
    """A model that has all of `weights`, with its adapter if there is one; the trained one has shards."""
    unset_hf_deepspeed_config()  # type: ignore[no-untyped-call]  # this one is not to be sharded
    bare = models.bare_model(trained)
    with torch.device("meta"):
        model = kind(bare.config)
        model.generation_config = getattr(bare, "generation_config", None)
        model = models.add_adapter(model, settings) if settings.lora_rank else model
    model.load_state_dict(weights, assign=True)
    models.bare_model(model).tie_weights()
    return model
