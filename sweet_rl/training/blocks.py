"""Fused attention under a dense causal mask, computed in blocks of queries.

torch's fused attention under a mask computes every pair of a query and a key, hidden or not. No query sees a
key behind it, in a prefix tree neither. So a block of queries is given the keys up to its own end only: the
same result for little more than half of the work. transformers knows it by the name `NAME`.

Axes: R rows, H heads, T places, D of a head.
"""

# ruff: noqa: N803 - the names of tensors end in their axes

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

NAME = "sdpa_by_blocks"

BLOCK = 512
"""Queries of a block; fewer save more and start more kernels."""


def attention_by_blocks(
    module: Any,
    query_RHTD: Tensor,
    key_RHTD: Tensor,
    value_RHTD: Tensor,
    attention_mask: Tensor | None,
    **options: Any,
) -> tuple[Tensor, None]:
    """Attention to the keys that the mask [R, 1, T, T] shows, as [R, T, H, D]; for causal models only."""
    places = query_RHTD.shape[2]
    attend: Any = sdpa_attention_forward
    compiling = torch.compiler.is_compiling()  # then whole: every number of blocks would be compiled anew
    if compiling or attention_mask is None or places <= BLOCK or places != key_RHTD.shape[2]:
        result: tuple[Tensor, None] = attend(
            module, query_RHTD, key_RHTD, value_RHTD, attention_mask, **options
        )
        return result
    blocks = []
    for start in range(0, places, BLOCK):
        end = min(start + BLOCK, places)
        keys, values = key_RHTD[:, :, :end], value_RHTD[:, :, :end]
        mask = attention_mask[:, :, start:end, :end]
        blocks.append(attend(module, query_RHTD[:, :, start:end], keys, values, mask, **options)[0])
    return torch.cat(blocks, dim=1), None


AttentionInterface.register(NAME, attention_by_blocks)
AttentionMaskInterface.register(NAME, sdpa_mask)
