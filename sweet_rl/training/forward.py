"""Forward passes: to sums of log-probabilities, or to a critic's values.

Axes: R rows of tokens, T places in a row, K log-probabilities asked for, O outputs, S sides (chosen, then
rejected), B pairs.
"""

# ruff: noqa: N803, N806 - the names of tensors end in their axes

from __future__ import annotations

import inspect
import math
from typing import Any

import torch
from torch import Tensor

from sweet_rl.training.batches import Batch, Question, Reading
from sweet_rl.training.head import ResponseHead
from sweet_rl.training.losses import PairLogps


class ReadingForward:
    """The outputs of a `Reading` under a causal model.

    Args:
        model: the bare model; calls may go to what wraps it.
        aux_loss: also ask for the router's balance loss.
    """

    def __init__(self, model: Any, *, aux_loss: bool = False) -> None:
        self._bare = model
        self._head = ResponseHead(model)
        self._options = {"output_router_logits": True} if aux_loss else {}

    def __call__(self, model: Any, reading: Reading, outputs: int) -> tuple[Tensor, Tensor | None]:
        """That many outputs [O] in float32; the balance loss if asked for."""
        inputs = inputs_of(self._bare, reading) | self._options
        logps_K, output = self._head.logprobs(model, reading["predictors_K"], reading["targets_K"], inputs)
        weighted_M = logps_K[reading["terms_M"]] * reading["weights_M"]
        sums_O = weighted_M.new_zeros(outputs).index_add(0, reading["outputs_M"], weighted_M)
        return sums_O, getattr(output, "aux_loss", None)


def inputs_of(model: Any, question: Question) -> dict[str, Any]:
    """What a model is called with.

    Where sequences share tokens, that is an attention mask and positions of ours. Where they do not it is
    neither: padding is on the right, so real tokens see neither padding nor wrong positions, and the fast
    causal kernels serve. A mixture of experts gets the padding mask, as its balance loss counts tokens.

    Args:
        model: the bare model.
        question: its tensors are on the model's device.
    """
    inputs: dict[str, Any] = {"input_ids": question["ids_RT"]}
    if "use_cache" in inspect.signature(model.forward).parameters:
        inputs["use_cache"] = False
    if "attention_RT" in question:
        inputs["attention_mask"] = question["attention_RT"]
    if "ends_RT" in question:
        config = model.config.get_text_config()
        additive = model.dtype if attention_of(config) == "eager" else None
        positions_RT = inputs["position_ids"] = question["positions_RT"]
        inputs["attention_mask"] = tree_attention(
            config, positions_RT, question["ends_RT"], additive=additive
        )
    return inputs


def tree_attention(
    config: Any, positions_RT: Tensor, ends_RT: Tensor, *, additive: torch.dtype | None = None
) -> Any:
    """The mask of a tree as transformers wants it: [R, 1, T, T], true where row q may see column k.

    Args:
        config: the model's; knows its sliding windows.
        positions_RT: each token's position in its own sequence.
        ends_RT: see `sweet_rl.training.trees`.
        additive: for attention that adds its mask: 0 and the least number of this type.

    Returns:
        A tensor, or one for each kind of layer where a model has several.
    """
    place_T = torch.arange(ends_RT.shape[1], device=ends_RT.device)
    seen_RTT = place_T[None, None, :] <= place_T[None, :, None]
    seen_RTT = seen_RTT & (place_T[None, :, None] < ends_RT[:, None, :])
    seen_RTT = seen_RTT | torch.eye(len(place_T), dtype=torch.bool, device=ends_RT.device)

    def shaped(mask_RTT: Tensor) -> Tensor:
        mask = mask_RTT[:, None]
        if additive is None:
            return mask
        return torch.zeros(mask.shape, dtype=additive, device=mask.device).masked_fill(
            ~mask, torch.finfo(additive).min
        )

    window = getattr(config, "sliding_window", None)
    kinds = set(getattr(config, "layer_types", None) or ())
    if window is None or (kinds and "sliding_attention" not in kinds):
        return shaped(seen_RTT)
    near_RTT = positions_RT[:, :, None] - positions_RT[:, None, :] < window
    if not kinds:
        return shaped(seen_RTT & near_RTT)
    return {"full_attention": shaped(seen_RTT), "sliding_attention": shaped(seen_RTT & near_RTT)}


def attention_of(config: Any) -> str:
    """The attention that a loaded model computes with: sdpa, eager, flex_attention, flash_attention_2, ..."""
    name: str = config._attn_implementation  # noqa: SLF001 - it has no public name
    return name


_SHAREABLE = {"full_attention", "sliding_attention"}


def attention_span(model: Any) -> float:
    """How much sharing is worth for a model (`sweet_rl.training.trees.grow`); 0 where it is impossible.

    Dense masks are computed whole: a pair of tokens costs 4 x hidden size in each layer, a token about
    24 x hidden size squared. FlexAttention skips blocks that are hidden.
    """
    config = model.config.get_text_config()
    kinds = set(getattr(config, "layer_types", None) or ())
    attention = attention_of(config)
    if "position_ids" not in inspect.signature(model.forward).parameters or not kinds <= _SHAREABLE:
        return 0
    if getattr(model, "is_stateful", False) or getattr(config, "alibi", False):
        return 0
    if attention == "flex_attention":
        return math.inf
    return 6.0 * config.hidden_size if attention in {"sdpa", "eager"} else 0


class PairForward:
    """Both sides of some pairs to one number for each response; arguments as for `ReadingForward`."""

    def __init__(self, model: Any, *, aux_loss: bool = False) -> None:
        self._forward = ReadingForward(model, aux_loss=aux_loss)

    def __call__(self, model: Any, batch: Batch) -> tuple[PairLogps, Tensor | None]:
        """Log-probabilities in float32, and the balance loss if it was asked for."""
        sums_O, aux = self._forward(model, batch, 3 * len(batch["scale_B"]))
        return PairLogps(*sums_O.chunk(3)), aux


class ValueForward:
    """Texts to a regression head's values: at the last real token, or the published mean.

    The mean is over all positions of the batch, padding included (spec §9.5), so it depends on what else is
    in the batch. Padding has position 1, as in the published code (spec §9.3).

    Args:
        model: the bare model, a sequence classifier with one label; calls may go to what wraps it.
        mean: the published mean.
    """

    def __init__(self, model: Any, *, mean: bool = False) -> None:
        self._mean = mean
        self._head = model.score
        self._values: list[Tensor] = []
        self._listens = False

    def __call__(self, model: Any, ids_ST: Tensor, attention_ST: Tensor) -> Tensor:
        """Values in float32, as [S]; ids are padded on the right."""
        if not self._listens:
            # The head's own output: the model takes that before the padding's id, which texts may hold. Not
            # before the first call, as DeepSpeed puts hooks of its own on the head, which must come first.
            self._head.register_forward_hook(lambda _module, _inputs, output: self._values.append(output))
            self._listens = True
        self._values.clear()
        options: dict[str, Tensor] = {}
        if self._mean:
            positions_ST = (attention_ST.cumsum(dim=1) - 1).masked_fill(attention_ST == 0, 1)
            options = {"attention_mask": attention_ST, "position_ids": positions_ST}
        model(input_ids=ids_ST, use_cache=False, **options)
        values_ST = self._values.pop()[..., 0].float()
        if self._mean:
            return values_ST.mean(dim=-1)
        return values_ST.gather(-1, attention_ST.sum(dim=-1, keepdim=True) - 1)[:, 0]
