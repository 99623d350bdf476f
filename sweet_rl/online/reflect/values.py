"""The critic: a small head on hidden states that predicts the remaining cost; trained alone.

Published behaviour: docs/published/reflect_rl.md#models, #losses, #deviations.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from sweet_rl.errors import no_such
from sweet_rl.online.reflect.agent import Agent
from sweet_rl.training.adapters import bare_model
from sweet_rl.types import Compat

LAYER_TYPES = ("linear", "mlp")

PUBLISHED_TOKENS = 20
"""How many tokens of a text the published critic reads: a default of the configuration."""


class ValueHead(nn.Module):
    """Hidden states [S, H] to values [S], in float32.

    Args:
        layer_type: linear, or mlp (a layer, LayerNorm, ReLU, a layer).
    """

    def __init__(self, hidden_size: int, layer_type: str = "linear") -> None:
        super().__init__()
        out = nn.Linear(hidden_size, 1)
        nn.init.xavier_uniform_(out.weight)
        nn.init.zeros_(out.bias)
        layers: list[nn.Module] = [out]
        if layer_type not in LAYER_TYPES:
            raise no_such("critic's layer", layer_type, LAYER_TYPES)
        if layer_type == "mlp":
            layers = [nn.Linear(hidden_size, hidden_size), nn.LayerNorm(hidden_size), nn.ReLU(), out]
        self.score = nn.Sequential(*layers)

    def forward(self, hidden_SH: Tensor) -> Tensor:
        """Values [S] of hidden states [S, H], computed in float32."""
        values_S1: Tensor = self.score(hidden_SH.float())
        return values_S1[:, 0]


class Critic:
    """Predicts the remaining cost from the policy's input.

    Args:
        shared: read with the policy's adapter, which changes; else with the model as it was before any.
        compat: "published": read the last 20 tokens in a batch without positions.
    """

    def __init__(
        self, agent: Agent, head: ValueHead, *, shared: bool = True, compat: Compat = "fixed"
    ) -> None:
        self.agent, self.head = agent, head.to(agent.device)
        self.shared, self._compat = shared, compat

    def features(self, prompts: Sequence[str]) -> Tensor:
        """What the head reads [S, H]; without gradients."""
        model: Any = self.agent.model
        apart = (
            nullcontext() if self.shared or not hasattr(model, "disable_adapter") else model.disable_adapter()
        )
        with apart:
            return self._published(prompts) if self._compat == "published" else self.agent.hidden(prompts)

    def values(self, prompts: Sequence[str]) -> Tensor:
        """V of each prompt [S], without gradients."""
        with torch.no_grad():
            found_S: Tensor = self.head(self.features(prompts))
        return found_S

    def _published(self, prompts: Sequence[str]) -> Tensor:
        """Padded on the left; read out before the first end token, the last place where there is none."""
        tokenizer, bare = self.agent.tokenizer, bare_model(self.agent.model)
        pad = tokenizer.eos_token_id
        rows = [list(tokenizer(prompt)["input_ids"])[-PUBLISHED_TOKENS:] for prompt in prompts]
        width = max(map(len, rows))
        ids_ST = torch.tensor([[pad] * (width - len(ids)) + ids for ids in rows], device=self.agent.device)
        mask_ST = torch.tensor(
            [[0] * (width - len(ids)) + [1] * len(ids) for ids in rows], device=self.agent.device
        )
        with torch.no_grad():
            hidden_STH = bare.base_model(input_ids=ids_ST, attention_mask=mask_ST).last_hidden_state
        first_pad_S = (ids_ST == pad).int().argmax(dim=1)  # 0 where there is none: the last place
        read_SH: Tensor = hidden_STH[torch.arange(len(rows)), first_pad_S - 1].float()
        return read_SH
