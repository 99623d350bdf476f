"""Pairs to weights: token ids and masks, log-probabilities, losses, trainer. Submodules import torch."""
