"""Comparing what runs left behind."""

import torch
from torch import Tensor


def same_state(one, other):
    """Whether two states are equal to the last bit."""
    match one, other:
        case Tensor(), Tensor():
            return one.dtype == other.dtype and torch.equal(one.cpu(), other.cpu())
        case dict(), dict():
            return one.keys() == other.keys() and all(same_state(one[key], other[key]) for key in one)
        case ((list() | tuple()), (list() | tuple())):
            return len(one) == len(other) and all(map(same_state, one, other))
    return bool(one == other)
