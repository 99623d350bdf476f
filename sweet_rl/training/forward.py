"""Forward passes: to sums of log-probabilities, or to a critic's values.

Axes: R rows of tokens, T places in a row, K log-probabilities asked for, O outputs, S sides (chosen, then
rejected), B pairs.

Published behaviour: docs/published/sweet_rl.md#in-training, #reward-models, #preference-training.
"""

# ruff: noqa: N803, N806 - the names of tensors end in their axes

from __future__ import annotations

from typing import Any

from torch import Tensor

from sweet_rl.training.attention import inputs_of
from sweet_rl.training.batches import Batch, Reading, Shown
from sweet_rl.training.head import ResponseHead
from sweet_rl.training.losses import PairLogps


def picture_inputs(model: Any, ids_RT: Tensor, shown: Shown) -> dict[str, Any]:
    """The further inputs of a vision-language model: patches, and their placeholder tokens.

    No positions: the model finds those on its three axes by itself.
    """
    if "pixels_PD" not in shown:
        return {}
    return {
        "pixel_values": shown["pixels_PD"],
        "image_grid_thw": shown["grids_I3"],
        "mm_token_type_ids": (ids_RT == model.config.image_token_id).int(),
    }


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
        inputs |= picture_inputs(self._bare, reading["ids_RT"], reading)
        logps_K, output = self._head.logprobs(model, reading["predictors_K"], reading["targets_K"], inputs)
        weighted_M = logps_K[reading["terms_M"]] * reading["weights_M"]
        sums_O = weighted_M.new_zeros(outputs).index_add(0, reading["outputs_M"], weighted_M)
        return sums_O, getattr(output, "aux_loss", None)


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

    The mean is over all positions of the batch, padding included, so it depends on what else is
    in the batch. Padding has position 1, as in the published code, but not beside pictures, whose
    positions the model finds by itself.

    Args:
        model: the bare model, a sequence classifier with one label; calls may go to what wraps it.
        mean: the published mean.
    """

    def __init__(self, model: Any, *, mean: bool = False) -> None:
        self._bare, self._mean = model, mean
        self._head = model.score
        self._values: list[Tensor] = []
        self._listens = False

    def __call__(
        self, model: Any, ids_ST: Tensor, attention_ST: Tensor, shown: Shown | None = None
    ) -> Tensor:
        """Values in float32, as [S]; ids are padded on the right."""
        if not self._listens:
            # The head's own output: the model takes that before the padding's id, which texts may hold. Not
            # before the first call, as DeepSpeed puts hooks of its own on the head, which must come first.
            self._head.register_forward_hook(lambda _module, _inputs, output: self._values.append(output))
            self._listens = True
        self._values.clear()
        options = picture_inputs(self._bare, ids_ST, shown or {})
        if self._mean:
            options["attention_mask"] = attention_ST
            if "pixel_values" not in options:
                positions_ST = (attention_ST.cumsum(dim=1) - 1).masked_fill(attention_ST == 0, 1)
                options["position_ids"] = positions_ST
        model(input_ids=ids_ST, use_cache=False, **options)
        values_ST = self._values.pop()[..., 0].float()
        if self._mean:
            return values_ST.mean(dim=-1)
        return values_ST.gather(-1, attention_ST.sum(dim=-1, keepdim=True) - 1)[:, 0]
