"""Model calls in which sequences that share tokens do not see each other; attention under masks.

Axes: R rows of tokens, T places in a row, N blocks of B places, H heads, D of a head.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from sweet_rl.training.batches import Question

QUERIES = 512  # Queries of a block under a dense mask; fewer save more and start more kernels
BLOCK = 128  # Queries, and keys, of a block of flex_attention

BY_BLOCKS = "sdpa_by_blocks"  # the name that transformers knows `attention_by_blocks` by

_SHAREABLE = {"full_attention", "sliding_attention"}


def attention_of(config: Any) -> str:
    """The attention that a loaded model computes with: sdpa, eager, flex_attention, flash_attention_2, ..."""
    name: str = config._attn_implementation  # it has no public name
    return "sdpa" if name == BY_BLOCKS else name


def attention_span(model: Any) -> float:
    """How much sharing is worth for a model (`sweet_rl.training.batches.grow`); 0 where it is impossible.

    Dense masks are computed whole, or in blocks of queries: a pair of tokens costs at most 4 x hidden size in
    each layer, a token about 24 x hidden size squared. FlexAttention skips what is hidden.
    """
    config = model.config.get_text_config()
    kinds = set(getattr(config, "layer_types", None) or ())
    attention = attention_of(config)
    if "position_ids" not in _parameters(type(model).forward) or not kinds <= _SHAREABLE:
        return 0
    if getattr(model, "is_stateful", False) or getattr(config, "alibi", False):
        return 0
    if attention == "flex_attention":
        return math.inf
    return 6.0 * config.hidden_size if attention in {"sdpa", "eager"} else 0


def inputs_of(model: Any, question: Question) -> dict[str, Any]:
    """What a bare model is called with; the question's tensors are on its device.

    Where sequences share tokens, that is an attention mask and positions of ours. Where they do not it is
    neither: padding is on the right, so real tokens see neither padding nor wrong positions, and the fast
    causal kernels serve. A mixture of experts gets the padding mask, as its balance loss counts tokens.
    """
    inputs: dict[str, Any] = {"input_ids": question["ids_RT"]}
    if "use_cache" in _parameters(type(model).forward):
        inputs["use_cache"] = False
    if "attention_RT" in question:
        inputs["attention_mask"] = question["attention_RT"]
    if "ends_RT" in question:
        inputs["position_ids"] = question["positions_RT"]
        inputs["attention_mask"] = _tree_attention(model, question["positions_RT"], question["ends_RT"])
        config = model.config.get_text_config()
        if config._attn_implementation == "sdpa":
            config._attn_implementation = BY_BLOCKS  # from now on; what it computes is the same
    return inputs


@cache
def _parameters(forward: Any) -> frozenset[str]:
    """What a kind of model can be called with; asked for every batch."""
    return frozenset(inspect.signature(forward).parameters)


def sees(positions_RT: Tensor, ends_RT: Tensor, window: int | None = None) -> Callable[..., Tensor]:
    """Whether place q of row r sees place k, as a function of (r, head, q, k), any of them tensors.

    Every place sees itself, padding (whose end is 0) too: a kernel has no number for one that sees nothing.
    With a window a token sees so many positions of its own sequence, itself included.
    """

    def mask(r: Tensor, _head: Any, q: Tensor, k: Tensor) -> Tensor:
        seen = (k <= q) & (q < ends_RT[r, k])
        if window is not None:
            seen = seen & (positions_RT[r, q] - positions_RT[r, k] < window)
        return seen | (q == k)

    return mask


def _tree_attention(model: Any, positions_RT: Tensor, ends_RT: Tensor) -> Any:
    """The mask as transformers wants it; one for each kind of layer where a model has several."""
    config = model.config.get_text_config()
    attention = attention_of(config)

    def mask(window: int | None) -> Any:
        if attention == "flex_attention":
            return block_mask(positions_RT, ends_RT, window)
        return dense_mask(
            positions_RT, ends_RT, window, added_to=None if attention == "sdpa" else model.dtype
        )

    window = getattr(config, "sliding_window", None)
    kinds = set(getattr(config, "layer_types", None) or ())
    if window is None or (kinds and "sliding_attention" not in kinds):
        return mask(None)
    if not kinds:
        return mask(window)
    return {"full_attention": mask(None), "sliding_attention": mask(window)}


def dense_mask(
    positions_RT: Tensor, ends_RT: Tensor, window: int | None = None, *, added_to: torch.dtype | None = None
) -> Tensor:
    """The mask of `sees` for all pairs, as [R, 1, T, T]: boolean, or what is `added_to` scores of a type."""
    rows, length = ends_RT.shape
    r, q, k = (
        torch.arange(n, device=ends_RT.device).view(shape)
        for n, shape in ((rows, (-1, 1, 1)), (length, (1, -1, 1)), (length, (1, 1, -1)))
    )
    seen_R1TT = sees(positions_RT, ends_RT, window)(r, None, q, k)[:, None]
    if added_to is None:
        return seen_R1TT
    added_R1TT = torch.zeros(seen_R1TT.shape, dtype=added_to, device=ends_RT.device)
    return added_R1TT.masked_fill(~seen_R1TT, torch.finfo(added_to).min)


def block_mask(positions_RT: Tensor, ends_RT: Tensor, window: int | None = None) -> Any:
    """The mask of `sees` in blocks, for flex_attention; those in which nothing is seen are skipped.

    Made from the extremes of each block, as a mask of all pairs [T, T] would take more memory than a model
    with long histories. With a window some blocks may be kept in which nothing is seen.
    """
    from torch.nn.attention.flex_attention import BlockMask  # for those who use it

    length = ends_RT.shape[1]
    lacking = -length % BLOCK
    padded = [torch.nn.functional.pad(one, (0, lacking)) for one in (positions_RT, ends_RT)]
    positions_RNB, ends_RNB = (one.reshape(len(one), -1, BLOCK) for one in padded)
    blocks_N = torch.arange(ends_RNB.shape[1], device=ends_RT.device)
    first_N1 = BLOCK * blocks_N[:, None]
    before_NN = blocks_N < blocks_N[:, None]
    some_RNN = before_NN & (ends_RNB.amax(-1)[:, None] > first_N1)
    all_RNN = before_NN & (ends_RNB.amin(-1)[:, None] >= first_N1 + BLOCK)
    if window is not None:
        least_RN, most_RN = positions_RNB.amin(-1), positions_RNB.amax(-1)
        some_RNN &= least_RN[:, :, None] - most_RN[:, None] < window
        all_RNN &= most_RN[:, :, None] - least_RN[:, None] < window
    some_RNN |= blocks_N == blocks_N[:, None]

    def ordered(shown_RNN: Tensor) -> tuple[Tensor, Tensor]:
        """How many blocks each block of queries is shown, and which, those first."""
        shown_R1NN = shown_RNN[:, None]
        numbers = shown_R1NN.int().argsort(dim=-1, descending=True, stable=True)
        return shown_R1NN.sum(-1, dtype=torch.int32), numbers.int().contiguous()

    return BlockMask.from_kv_blocks(
        *ordered(some_RNN & ~all_RNN),
        *ordered(all_RNN),
        BLOCK_SIZE=BLOCK,
        mask_mod=sees(positions_RT, ends_RT, window),
        seq_lengths=(length, length),
    )


def attention_by_blocks(
    module: Any,
    query_RHTD: Tensor,
    key_RHTD: Tensor,
    value_RHTD: Tensor,
    attention_mask: Tensor | None,
    **options: Any,
) -> tuple[Tensor, None]:
    """Attention to the keys that the mask [R, 1, T, T] shows, as [R, T, H, D]; for causal models only.

    torch's fused attention under a mask computes every pair of a query and a key, hidden or not. No query
    sees a key behind it, in a prefix tree neither. So a block of queries is given the keys up to its own end
    only: the same result for little more than half of the work.
    """

    def attend(start: int, end: int, mask: Tensor | None) -> Tensor:
        given = query_RHTD[:, :, start:end], key_RHTD[:, :, :end], value_RHTD[:, :, :end], mask
        found: Tensor = sdpa_attention_forward(module, *given, **options)[0]
        return found

    places, keys = query_RHTD.shape[2], key_RHTD.shape[2]
    # Compiled it is done whole: every number of blocks would be compiled anew.
    if torch.compiler.is_compiling() or places <= QUERIES or attention_mask is None or places != keys:
        return attend(0, max(places, keys), attention_mask), None
    stops = [(start, min(start + QUERIES, places)) for start in range(0, places, QUERIES)]
    blocks = [attend(start, end, attention_mask[:, :, start:end, :end]) for start, end in stops]
    return torch.cat(blocks, dim=1), None


AttentionInterface.register(BY_BLOCKS, attention_by_blocks)
AttentionMaskInterface.register(BY_BLOCKS, sdpa_mask)
