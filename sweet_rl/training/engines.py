"""Engines: how several processes train one sharded model.

They are DeepSpeed's ZeRO and torch's FSDP2, driven by transformers' Trainer through accelerate. Here is what
these leave to us: which one a run uses, how processes meet where there is no accelerator, a sharded
model that is only asked, a whole model out of its shards, and words for a process that is gone.
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
from typing import Any, NamedTuple

import torch
from transformers.integrations.deepspeed import unset_hf_deepspeed_config

from sweet_rl.errors import ServiceError, UsageError, first_line, missing_package
from sweet_rl.training import adapters
from sweet_rl.training.settings import Engine, TrainSettings
from sweet_rl.training.sharding import scoring_config

_LAUNCHERS = {"deepspeed": "ACCELERATE_USE_DEEPSPEED", "fsdp2": "ACCELERATE_USE_FSDP"}
"""Where `accelerate launch` says that it wants an engine, and where accelerate looks whether it is wanted."""

_LOST = re.compile(r"gloo/|NCCL|closed by peer|reset by peer|timed out|TCPStore|Broken pipe", re.IGNORECASE)
"""How torch says that another process cannot be reached; its classes of errors do not show it."""


def world_size() -> int:
    """Number of processes that the launcher started."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def rank() -> int:
    """Number of this process among those that train together."""
    return int(os.environ.get("RANK", "0"))


class Processes(NamedTuple):
    """This process among those that share the work."""

    rank: int = 0
    world: int = 1


def engine_of(settings: TrainSettings) -> Engine | None:
    """What shards this run; None: each process has the whole model.

    Sharding is for several processes; one process needs DeepSpeed to keep states in main memory.
    """
    shards = settings.shards
    if shards.shard_with == "fsdp2":
        return "fsdp2" if world_size() > 1 else None
    sharded = shards.adam_offload or (world_size() > 1 and shards.zero_stage > 0)
    return "deepspeed" if sharded else None


def uses_deepspeed(settings: TrainSettings) -> bool:
    """Whether DeepSpeed runs it; it keeps float32 copies of weights in bfloat16, which others do not."""
    return engine_of(settings) == "deepspeed"


def half_weights(settings: TrainSettings) -> bool:
    """Whether models are loaded in bfloat16 whatever `dtype` says."""
    return uses_deepspeed(settings) and settings.model.bf16


def shards_weights(settings: TrainSettings) -> bool:
    """Whether weights are divided, so that no process has all of them."""
    engine = engine_of(settings)
    return engine == "fsdp2" or (engine == "deepspeed" and settings.shards.zero_stage == 3)


def describe(settings: TrainSettings) -> str | None:
    """The engine and its number of processes for people; None on a single process."""
    engine = engine_of(settings)
    names = {"deepspeed": f"DeepSpeed ZeRO-{settings.shards.zero_stage}", "fsdp2": "FSDP2"}
    return f"{names[engine]} over {world_size()} processes" if engine else None


def check_engine(settings: TrainSettings, *, cuda: bool) -> None:
    """Raises UsageError for what the engine of this run does not have; `cuda`: it runs on GPUs."""
    engine = engine_of(settings)
    if engine == "deepspeed" and importlib.util.find_spec("deepspeed") is None:
        raise missing_package(
            "deepspeed",
            "deepspeed",
            needed_for="sharding over processes (--shard_with fsdp2 and --zero_stage 0 need none)",
        )
    if engine == "deepspeed" and settings.model.bf16 and not cuda:
        raise UsageError("--bf16: on CPUs DeepSpeed computes in float32 only; use --shard_with fsdp2.")
    if engine is None and settings.shards.adam_offload:
        raise UsageError("--adam_offload: with one process only --shard_with deepspeed can do that.")
    if settings.model.torch_compile and (engine or world_size() > 1):
        raise UsageError("--torch_compile works with one process only, without an engine: leave it out.")
    if settings.model.load_in_4bit and shards_weights(settings):
        raise UsageError(
            "--load_in_4bit: quantised weights are not sharded here. Use --zero_stage 2, which "
            "leaves them whole on every process."
        )


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
    os.environ["ACCELERATE_MIXED_PRECISION"] = "bf16" if settings.model.bf16 else "no"


def join_on_cpu(settings: TrainSettings) -> None:
    """Let processes without accelerators meet, through gloo.

    Accelerate shards on accelerators only: left alone, each of DeepSpeed's processes takes itself for the
    only one, and FSDP silently does nothing. A state made beforehand is taken as it is.
    """
    from accelerate import DistributedType, PartialState

    engine = engine_of(settings)
    os.environ.pop("ACCELERATE_USE_CPU", None)  # it would forget the engine
    options: dict[str, Any] = {"backend": "gloo", "timeout": timedelta(seconds=settings.shards.timeout_s)}
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
        os.environ |= {"LOCAL_RANK": "0", "RANK": "0", "WORLD_SIZE": "1"}
        os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(_free_port())}
    PartialState(cpu=False, **options)


def _free_port() -> int:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        port: int = server.getsockname()[1]
        return port


def mixed_precision() -> Any:
    """FSDP2 computes in bfloat16; it adds up gradients, and gives log-probabilities, in float32."""
    from torch.distributed.fsdp import MixedPrecisionPolicy  # not in every build of torch

    return MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)


def sharded_for_scoring(model: Any, arguments: Any, settings: TrainSettings) -> Any:
    """A model that is only asked, sharded as the one that is trained will be."""
    if uses_deepspeed(settings):
        import deepspeed

        config = scoring_config(settings.shards, bf16=settings.model.bf16)
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
    bare = adapters.bare_model(trained)
    with torch.device("meta"):
        model = kind(bare.config)
        model.generation_config = getattr(bare, "generation_config", None)
        model = adapters.add_adapter(model, settings.model) if settings.model.lora_rank else model
    model.load_state_dict(weights, assign=True)
    adapters.bare_model(model).tie_weights()
    return model


@contextmanager
def lost_processes_named(settings: TrainSettings) -> Iterator[None]:
    """Say so when the others cannot be reached."""
    try:
        yield
    except RuntimeError as error:
        if world_size() == 1 or not _LOST.search(str(error)):
            raise
        raise ServiceError(
            f"Process {rank()} of {world_size()} cannot reach the others: one has ended (see its own "
            f"output), or has not answered within --timeout_s {settings.shards.timeout_s}. Start all again; "
            f"where --save_steps left checkpoints, --load_checkpoint resumes from the newest. "
            f"({first_line(error)[:200]})"
        ) from error
