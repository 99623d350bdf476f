"""States of learners that several processes hold together: put together to be written, divided when read.

On disk a state is whole, so that other numbers of processes can go on with it. In memory only the first
process has all of it; the others hold tensors without numbers (on torch's device `meta`) in its place.
Importing this module imports torch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from sweet_rl.algorithms.distributed.fsdp import fill, in_pieces
from sweet_rl.algorithms.distributed.processes import is_main, world_size


def mapped(state: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """The same nest of dicts, lists and tuples with every tensor changed, in the same order everywhere."""
    match state:
        case Tensor():
            return change(state)
        case dict():
            return {key: mapped(value, change) for key, value in state.items()}
        case list():
            return [mapped(value, change) for value in state]
        case tuple():
            return tuple(mapped(value, change) for value in state)
    return state


def outline(state: Any) -> Any:
    """What a state holds, without the numbers."""
    return mapped(state, lambda tensor: torch.empty_like(tensor, device="meta"))


def whole_state(state: Any) -> Any:
    """The state with tensors in pieces put together: in the first process on the CPU, elsewhere in outline.

    All processes call it. What is not in pieces stays as it is.
    """
    return mapped(state, _whole)


def _whole(tensor: Tensor) -> Tensor:
    if not in_pieces(tensor):
        return tensor
    pieces: Any = tensor
    whole: Tensor = pieces.detach().full_tensor()  # one at a time on the device
    return whole.cpu() if is_main() else torch.empty_like(whole, device="meta")


def whole_weights(model: nn.Module) -> dict[str, Tensor]:
    """Weights of a divided model by their names, those that have two names put together once.

    Only those that are trained, where the others are frozen below an adapter.
    """
    state = model.state_dict(keep_vars=True)
    if hasattr(model, "peft_config"):
        state = {name: value for name, value in state.items() if value.requires_grad}
    found: dict[int, Tensor] = {}
    for value in state.values():
        if id(value) not in found:
            found[id(value)] = _whole(value)
    return {name: found[id(value)] for name, value in state.items()}


def from_first(state: Any, device: torch.device) -> Any:
    """The first process's state in every process; elsewhere an outline of it is enough.

    Args:
        state: tensors on the CPU, and plain data.
        device: where tensors are sent from and to.
    """
    if world_size() == 1:
        return state

    def sent(tensor: Tensor) -> Tensor:
        box = torch.empty_like(tensor, device=device)
        if is_main():
            box.copy_(tensor)
        dist.broadcast(box, src=0)
        return box.cpu()

    return mapped(state, sent)


@torch.no_grad()
def load_parameter(parameter: Tensor, whole: Tensor) -> None:
    """Put the first process's numbers into a parameter of every process, or into their parts of it."""
    if in_pieces(parameter):
        fill(parameter, whole)
    else:
        parameter.copy_(from_first(whole, parameter.device))


def load_optimizer(optimizer: torch.optim.Optimizer, state: Mapping[str, Any]) -> None:
    """Go on from a whole state; each process takes its parts.

    Args:
        optimizer: of parameters that may be in pieces.
        state: what the optimizer of the whole model would give; elsewhere than in the first process an
            outline is enough.
    """
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    divided = {
        number: {name: _divided(value, parameters[number]) for name, value in values.items()}
        for number, values in state["state"].items()
    }
    optimizer.load_state_dict({**state, "state": divided})


def _divided(value: Any, parameter: Tensor) -> Any:
    """A value of one parameter's state; what has a number for each of the weights is cut as they are."""
    if isinstance(value, Tensor) and in_pieces(parameter) and value.shape == parameter.shape:
        pieces = torch.zeros_like(parameter, requires_grad=False)
        fill(pieces, value)
        return pieces
    return from_first(value, parameter.device)
