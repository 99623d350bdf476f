"""A preference loss."""

from torch import Tensor
from torch.nn.functional import relu

from sweet_rl.training.losses import ScoredPairs
from sweet_rl.training.settings import LossSettings


def squared_hinge(pairs: ScoredPairs, settings: LossSettings) -> Tensor:
    """max(0, 1 - beta h)^2: pairs below h = 1 / beta pull, the harder the further they are from it."""
    return relu(1 - settings.beta * pairs.h_B) ** 2
