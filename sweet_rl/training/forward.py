"""One forward pass over both sides of some pairs, to one log-probability for each response.

Axes: S sides (chosen, then rejected), T positions, K positions whose token is scored, V vocabulary, B pairs.
"""

# ruff: noqa: N806 - the names of tensors end in their axes

from __future__ import annotations

import inspect
from typing import Any

from torch import Tensor

from sweet_rl.training.batches import Batch
from sweet_rl.training.logprobs import next_logprobs
from sweet_rl.training.losses import PairLogps


class PairForward:
    """Computes logits only where a token is scored, when the model can (nearly all can).

    Padding is on the right and the model causal, so real tokens see neither padding nor wrong positions: no
    attention mask is made, which keeps the fast attention kernels. A mixture of experts does get one, as its
    balance loss counts tokens.

    Args:
        model: the bare model; calls may go to what wraps it.
        aux_loss: also ask for the router's balance loss.
    """

    def __init__(self, model: Any, *, aux_loss: bool = False) -> None:
        parameters = inspect.signature(model.forward).parameters
        self._keeps = "logits_to_keep" in parameters
        self._cache = {"use_cache": False} if "use_cache" in parameters else {}
        self._aux = {"output_router_logits": True} if aux_loss else {}

    def __call__(self, model: Any, batch: Batch) -> tuple[PairLogps, Tensor | None]:
        """Log-probabilities in float32, and the balance loss if it was asked for."""
        ids_ST, weights_ST, nll_BT = batch["ids_ST"], batch["weights_ST"], batch["nll_weights_BT"]
        pairs = nll_BT.shape[0]
        scored_K = (weights_ST.ne(0).any(dim=0) | nll_BT.ne(0).any(dim=0)).nonzero()[:, 0]
        options: dict[str, Any] = {**self._cache, **self._aux}
        if self._aux:
            options["attention_mask"] = batch["attention_ST"]
        if self._keeps:
            output = model(input_ids=ids_ST, logits_to_keep=scored_K - 1, **options)
            logits_SKV = output.logits
        else:
            output = model(input_ids=ids_ST, **options)
            logits_SKV = output.logits[:, scored_K - 1]
        logps_SK = next_logprobs(logits_SKV, ids_ST[:, scored_K])
        sums_S = (logps_SK * weights_ST[:, scored_K]).sum(dim=-1)
        nll_B = -(logps_SK[:pairs] * nll_BT[:, scored_K]).sum(dim=-1)
        return PairLogps(sums_S[:pairs], sums_S[pairs:], nll_B), getattr(output, "aux_loss", None)
