"""A sharded policy: FSDP2 divides its weights, gradients and optimizer states over the processes.

Sharded layers need all processes at every pass, and processes sample different numbers of tokens. So
sampling uses weights that are gathered before (`gathered`), and every process makes as many
passes with gradients as the others. Importing this module imports torch, and FSDP2 only where it is used.

A state of models and optimizers is whole in the first process and on disk, and empty in the others: another number of
processes can go on with it. All processes call these functions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

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

from sweet_rl.errors import UsageError
from sweet_rl.online.distributed.processes import from_main, is_main, world_size

_OPEN = "_gathered_by_sweet_rl"
"""Set on a model while its weights are gathered."""


def check_sharding() -> None:
    """Whether this process can have a shard of a policy."""
    if world_size() == 1:
        raise UsageError(
            "shard_with=fsdp2 divides the policy over several processes, and this is the only one. Start "
            "them with a launcher, as in: torchrun --nproc-per-node 4 -m sweet_rl run_archer ... (or "
            "accelerate launch --num_processes 4), or leave shard_with out."
        )
    try:
        from torch.distributed.fsdp import FSDPModule  # not in every build of torch
    except ImportError as error:
        raise UsageError(
            f"shard_with=fsdp2: this build of torch ({torch.__version__}) has no FSDP2 ({error}). Install a "
            "build with torch.distributed, or leave shard_with out."
        ) from error
    if not hasattr(FSDPModule, "reset_iter_state"):
        raise UsageError(
            f"shard_with=fsdp2 needs torch 2.13 or newer, and this is {torch.__version__}. Install a newer "
            "one, or leave shard_with out."
        )


def is_sharded(tensor: Tensor) -> bool:
    """Whether this process holds only a part of it."""
    return getattr(tensor, "device_mesh", None) is not None


def shard(model: Any, device: torch.device, compute: torch.dtype | None = None) -> None:
    """Shard a model over the processes; all of them begin with the weights of the first.

    Each layer is a unit, everything else one more. Gradients are added up over processes, not averaged.
    """
    check_sharding()
    from torch.distributed.device_mesh import init_device_mesh  # not in every build of torch
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    if device.type == "cuda":
        torch.cuda.set_device(device)
    whole = dict(model.state_dict()) if is_main() else {}
    mesh = init_device_mesh(device.type, (world_size(),))
    precision = MixedPrecisionPolicy()
    if compute is not None:
        precision = MixedPrecisionPolicy(param_dtype=compute, reduce_dtype=torch.float32)
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
    """Keep the own shard only, and forget passes that no backward pass followed.

    Left in the records, they would have layers fetched in the next backward pass, by some processes only.
    """
    root = units[0]
    root.reset_iter_state()
    for unit in units:
        unit.set_reshard_after_forward(unit is not root, recurse=False)


def first_pass(policy: Any) -> None:
    """The first pass of a sharded policy, the same in every process, so that cached results agree."""
    units = _units(policy.model)
    if not units:
        return
    with torch.no_grad():
        policy.scores(["a"], [policy.utterance("a", "a")])
    _let_go(units)


def clip_gradients(parameters: Sequence[nn.Parameter], max_norm: float) -> Tensor:
    """Clip gradients to the norm of the whole model's, and return that; the same in every process.

    Gradients of parameters that are not sharded must be equal everywhere.
    """
    sharded = [parameter for parameter in parameters if is_sharded(parameter)]
    if not sharded:
        return nn.utils.clip_grad_norm_(parameters, max_norm)
    others = [parameter for parameter in parameters if not is_sharded(parameter)]
    first: Any = _norm(sharded)
    parts = torch.stack([first.full_tensor(), _norm(others).to(first.device, first.dtype)])
    norm: Tensor = torch.linalg.vector_norm(parts)
    for kind in (sharded, others):
        nn.utils.clip_grads_with_norm_(kind, max_norm, norm)
    return norm


def _norm(parameters: Sequence[nn.Parameter]) -> Tensor:
    return nn.utils.get_total_norm([p.grad for p in parameters if p.grad is not None])


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
    """Continue from `optimizer_state`, or from the numbered state that checkpoints had until version 0.1.

    Tensors that are where the optimizer wants them are kept, not copied.
    """
    if from_main(lambda: bool(state.get("state"))):
        named = _named(model, optimizer, state) if state else {}
        set_optimizer_state_dict(model, optimizer, named, options=_loading())


def _loading() -> StateDictOptions:
    return StateDictOptions(full_state_dict=True, broadcast_from_rank0=world_size() > 1, strict=False)


def _named(model: nn.Module, optimizer: torch.optim.Optimizer, state: Mapping[str, Any]) -> dict[str, Any]:
    """The state by names, also where it has the numbers of `Optimizer.state_dict`."""
    known = {id(parameter): name for name, parameter in model.named_parameters()}
    order = [known[id(parameter)] for group in optimizer.param_groups for parameter in group["params"]]
    names = dict(enumerate(order)) | {name: name for name in order}
    return {
        "state": {names[key]: values for key, values in state["state"].items()},
        "param_groups": [
            {**group, "params": [names[key] for key in group["params"]]} for group in state["param_groups"]
        ],
    }
