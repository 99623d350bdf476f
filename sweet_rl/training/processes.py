"""Several processes that compute one update: how they meet, divide rows, exchange gradients and weights, and share a model.

Every process draws the same rows and takes its share; gradients are added up. So an update does not depend on the
number of processes, unlike the published mean, which made gradients P times smaller. All processes call these functions.

Preference training is sharded by DeepSpeed's ZeRO or torch's FSDP2, driven by transformers' Trainer: here is what
accelerate leaves to us. Online training shards its policy itself (`shard`).

Published behaviour: docs/published/archer.md#loop.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import re
import socket
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Final, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_optimizer_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
)

from sweet_rl.errors import ServiceError, SweetRLError, UsageError, first_line, missing_package
from sweet_rl.training.settings import Engine, ShardSettings, TrainSettings

# How long a process waits for the others: the first one plays meanwhile (published: meant as 5 hours).
PATIENCE: Final = timedelta(hours=5)

# Where `accelerate launch` says that it wants an engine, and where accelerate looks whether it is wanted.
_LAUNCHERS: Final = {"deepspeed": "ACCELERATE_USE_DEEPSPEED", "fsdp2": "ACCELERATE_USE_FSDP"}
# How torch says that another process cannot be reached; its classes of errors do not show it.
_LOST = re.compile(r"gloo/|NCCL|closed by peer|reset by peer|timed out|TCPStore|Broken pipe", re.IGNORECASE)

T = TypeVar("T")


def world_size() -> int:
    """Processes that learn together: those that a launcher started; 1 without one."""
    return dist.get_world_size() if dist.is_initialized() else int(os.environ.get("WORLD_SIZE", "1"))


def rank() -> int:
    """Number of this process among them; 0 without a launcher."""
    return dist.get_rank() if dist.is_initialized() else int(os.environ.get("RANK", "0"))


def is_main() -> bool:
    """Whether this process plays, writes and logs."""
    return rank() == 0


def from_main(make: Callable[[], T]) -> T:
    """What `make` returns in the first process, in all of them; each raises what that one does."""
    if world_size() == 1:
        return make()
    box: list[Any] = [None, None]
    if is_main():
        try:
            box[0] = make()
        except BaseException as error:
            ours = isinstance(error, SweetRLError)
            told = error if ours else RuntimeError(f"the first process stopped: {error}")
            dist.broadcast_object_list([None, told])
            raise
    dist.broadcast_object_list(box)
    if box[1] is not None:
        raise box[1]
    return box[0]  # type: ignore[no-any-return]


@contextmanager
def process_group() -> Iterator[None]:
    """Meet the other processes of a launcher (`accelerate launch`, `torchrun`), if any, while the block lasts."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1 or dist.is_initialized():
        yield
        return
    os.environ.pop("ACCELERATE_USE_FSDP", None)  # transformers would load weights in the first process only
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    backends = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    dist.init_process_group(backends, timeout=PATIENCE)
    try:
        yield
    finally:
        dist.destroy_process_group()


def is_sharded(tensor: Tensor) -> bool:
    return getattr(tensor, "device_mesh", None) is not None


def own_rows(count: int) -> list[int]:
    """Numbers of the rows that this process takes."""
    return list(range(rank(), count, world_size()))


def all_reduce_sum(tensor: Tensor) -> Tensor:
    """The sum over all processes, in place; the same on each."""
    if world_size() > 1:
        dist.all_reduce(tensor)
    return tensor


def all_reduce_max(count: int, device: torch.device) -> int:
    """The largest of the counts that the processes give, equal on all of them."""
    if world_size() == 1:
        return count
    box = torch.tensor(count, device=device)
    dist.all_reduce(box, dist.ReduceOp.MAX)
    return int(box)


def all_reduce_gradients(parameters: Sequence[nn.Parameter]) -> None:
    """Add up gradients over all processes; those of sharded parameters were when they were made (`shard`)."""
    if world_size() == 1:
        return
    parameters = [parameter for parameter in parameters if not is_sharded(parameter)]
    for dtype in dict.fromkeys(parameter.dtype for parameter in parameters):  # in the same order everywhere
        same = [parameter for parameter in parameters if parameter.dtype == dtype]
        grads = [p.grad if p.grad is not None else torch.zeros_like(p) for p in same]
        flat = all_reduce_sum(torch.cat([grad.flatten() for grad in grads]))
        parts = torch.split(flat, [parameter.numel() for parameter in same])
        for parameter, part in zip(same, parts, strict=True):
            parameter.grad = part.view_as(parameter)


def clipped_step(
    optimizer: torch.optim.Optimizer,
    parameters: Sequence[nn.Parameter],
    max_norm: float,
    check: Callable[[float], None],
) -> None:
    """Add up gradients over all processes (where there is none, it is 0), clip them, `check` their norm, and step."""
    for parameter in parameters:
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
    all_reduce_gradients(parameters)
    check(float(nn.utils.clip_grad_norm_(parameters, max_norm)))
    optimizer.step()


def broadcast_parameters(modules: Iterable[nn.Module]) -> None:
    """Give every process the weights and buffers of the first; sharded parameters are alike already."""
    if world_size() == 1:
        return
    for module in modules:
        for tensor in [*module.parameters(), *module.buffers()]:
            if not is_sharded(tensor):
                dist.broadcast(tensor.data, src=0)


# Sharded layers need all processes at every pass, and processes sample different numbers of tokens. So sampling uses
# weights that are gathered before (`gathered`), and every process makes as many passes with gradients as the others. A
# state of models and optimizers is whole in the first process and on disk, and empty in the others.

_OPEN = "_gathered_by_sweet_rl"  # set on a model while its weights are gathered


def check_sharding() -> None:
    """Whether this process can have a shard of a policy."""
    if world_size() == 1:
        raise UsageError(
            "shard_with=fsdp2 divides the policy over several processes, and this is the only one. Start them with "
            "a launcher: torchrun --nproc-per-node 4 -m sweet_rl run_archer ..."
        )
    try:
        from torch.distributed.fsdp import FSDPModule  # not in every build of torch
    except ImportError as error:
        raise UsageError(f"shard_with=fsdp2: torch {torch.__version__} has no FSDP2 ({error}).") from error
    if not hasattr(FSDPModule, "reset_iter_state"):
        raise UsageError(f"shard_with=fsdp2 needs torch 2.13 or newer, and this is {torch.__version__}.")


def shard(model: Any, device: torch.device, compute: torch.dtype | None = None) -> None:
    """Shard a model over the processes, from the first one's weights; gradients are added up, not averaged."""
    check_sharding()
    from torch.distributed.device_mesh import init_device_mesh  # not in every build of torch
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    if device.type == "cuda":
        torch.cuda.set_device(device)
    whole = dict(model.state_dict()) if is_main() else {}
    mesh = init_device_mesh(device.type, (world_size(),))
    reduce = torch.float32 if compute is not None else None
    precision = MixedPrecisionPolicy(param_dtype=compute, reduce_dtype=reduce)
    layers = set(getattr(model, "_no_split_modules", None) or ())
    units = [module for module in model.modules() if type(module).__name__ in layers and module is not model]
    for unit in [*reversed(units), model]:  # what is inside comes first
        sharded: Any = fully_shard(unit, mesh=mesh, mp_policy=precision)
        sharded.set_gradient_divide_factor(1.0)
        sharded.set_force_sum_reduction_for_comms(True)  # gloo knows no other
    load_weights(model, whole)
    for buffer in model.buffers():
        dist.broadcast(buffer.data, src=0)


def is_fsdp(model: nn.Module) -> bool:
    """Whether `shard` has sharded the model."""
    return bool(_units(model))


def _units(model: nn.Module) -> list[Any]:
    """What is gathered at once: the model, then its layers; none of an ordinary model."""
    if not hasattr(model, "reset_iter_state"):
        return []
    return [module for module in model.modules() if hasattr(module, "reset_iter_state")]


@contextmanager
def gathered(model: nn.Module) -> Iterator[None]:
    """Every process has all weights while the block lasts, in the precision of computing.

    All processes enter and leave it; inside, each makes as many passes without gradients as it likes. It may
    be entered again inside. Nothing happens to an ordinary model.
    """
    units = _units(model)
    if not units or getattr(model, _OPEN, False):
        yield
        return
    setattr(model, _OPEN, True)
    try:
        for unit in units:
            unit.unshard()
            unit.set_reshard_after_forward(False, recurse=False)
        yield
    finally:
        setattr(model, _OPEN, False)
        _let_go(units)


def _let_go(units: Sequence[Any]) -> None:
    """Keep the own shard only, and forget passes without a backward one: layers would be fetched for them in the next."""
    units[0].reset_iter_state()
    for unit in units:
        unit.set_reshard_after_forward(unit is not units[0], recurse=False)


def first_pass(policy: Any) -> None:
    """The first pass of a sharded policy, the same in every process, so that cached results agree."""
    if units := _units(policy.model):
        with torch.no_grad():
            policy.scores(["a"], [policy.utterance("a", "a")])
        _let_go(units)


def clip_gradients(parameters: Sequence[nn.Parameter], max_norm: float) -> Tensor:
    """Clip to the norm of the whole model's gradients, and return that; those not sharded must be equal everywhere."""
    kinds = [[one for one in parameters if is_sharded(one) == sharded] for sharded in (True, False)]
    if not kinds[0]:
        return nn.utils.clip_grad_norm_(parameters, max_norm)
    grads = [[one.grad for one in kind if one.grad is not None] for kind in kinds]
    sharded, whole = map(nn.utils.get_total_norm, grads)
    norms = [sharded.full_tensor(), whole.to(sharded.device, sharded.dtype)]  # type: ignore[attr-defined]
    norm: Tensor = torch.linalg.vector_norm(torch.stack(norms))
    for kind in kinds:
        nn.utils.clip_grads_with_norm_(kind, max_norm, norm)
    return norm


def full_weights(model: nn.Module, *, trained_only: bool = False) -> dict[str, Tensor]:
    """Parameters by their names, those that have two under the first; `trained_only`: that need gradients."""
    options = StateDictOptions(full_state_dict=True, cpu_offload=True, ignore_frozen_params=trained_only)
    found: dict[str, Any] = get_model_state_dict(model, options=options)
    return {name: found[name] for name, _ in model.named_parameters() if name in found}


def load_weights(model: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Give every process the first one's weights, or its part of them; parameters without any stay."""
    set_model_state_dict(model, dict(weights), options=_loading())


def optimizer_state(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """The optimizer's state by the names of the model's parameters; {} before its first step."""
    if not optimizer.state:  # asked for it all the same, torch would make it, and count a step
        return {}
    options = StateDictOptions(full_state_dict=True, cpu_offload=True)
    return get_optimizer_state_dict(model, optimizer, options=options)


def load_optimizer(model: nn.Module, optimizer: torch.optim.Optimizer, state: Mapping[str, Any]) -> None:
    """Continue from `optimizer_state`; tensors that are where the optimizer wants them are kept, not copied."""
    if from_main(lambda: bool(state)):
        set_optimizer_state_dict(model, optimizer, dict(state), options=_loading())


def _loading() -> StateDictOptions:
    return StateDictOptions(full_state_dict=True, broadcast_from_rank0=world_size() > 1, strict=False)


# ---- the engines of preference training


def engine_of(settings: TrainSettings) -> Engine | None:
    """What shards this run over processes (one needs DeepSpeed to offload states); None: each has the whole model."""
    if settings.shard_with == "fsdp2":
        return "fsdp2" if world_size() > 1 else None
    sharded = settings.adam_offload or (world_size() > 1 and settings.zero_stage > 0)
    return "deepspeed" if sharded else None


def shards_weights(settings: TrainSettings) -> bool:
    """Whether weights are divided, so that no process has all of them."""
    engine = engine_of(settings)
    return engine == "fsdp2" or (engine == "deepspeed" and settings.zero_stage == 3)


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
