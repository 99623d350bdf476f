"""States of models and optimizers over several processes, through torch's distributed checkpoints.

A state is whole in the first process and on disk, and empty in the others: another number of processes can go
on with it. All processes call these functions. Importing this module imports torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_optimizer_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
)

from sweet_rl.algorithms.distributed.processes import from_main, world_size


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
