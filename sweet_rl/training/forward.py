"""Forward passes: to the log-probabilities of scored tokens, of whole responses, or to a critic's values.

Axes: S sides (chosen, then rejected), T positions, K positions whose token is scored, V vocabulary, B pairs,
H hidden.
"""

# ruff: noqa: N803, N806 - the names of tensors end in their axes

from __future__ import annotations

import inspect
from typing import Any

from torch import Tensor

from sweet_rl.training.batches import Batch
from sweet_rl.training.logprobs import next_logprobs
from sweet_rl.training.losses import PairLogps


class TokenForward:
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

    def __call__(
        self, model: Any, ids_ST: Tensor, attention_ST: Tensor, scored_K: Tensor
    ) -> tuple[Tensor, Tensor | None]:
        """Log-probabilities [S, K] in float32 of the tokens at `scored_K`; the balance loss if asked for."""
        options: dict[str, Any] = {**self._cache, **self._aux}
        if self._aux:
            options["attention_mask"] = attention_ST
        if self._keeps:
            output = model(input_ids=ids_ST, logits_to_keep=scored_K - 1, **options)
            logits_SKV = output.logits
        else:
            output = model(input_ids=ids_ST, **options)
            logits_SKV = output.logits[:, scored_K - 1]
        return next_logprobs(logits_SKV, ids_ST[:, scored_K]), getattr(output, "aux_loss", None)


class PairForward:
    """Both sides of some pairs to one log-probability for each response; arguments as for `TokenForward`."""

    def __init__(self, model: Any, *, aux_loss: bool = False) -> None:
        self._tokens = TokenForward(model, aux_loss=aux_loss)

    def __call__(self, model: Any, batch: Batch) -> tuple[PairLogps, Tensor | None]:
        """Log-probabilities in float32, and the balance loss if it was asked for."""
        weights_ST, nll_BT = batch["weights_ST"], batch["nll_weights_BT"]
        pairs = nll_BT.shape[0]
        scored_K = (weights_ST.ne(0).any(dim=0) | nll_BT.ne(0).any(dim=0)).nonzero()[:, 0]
        logps_SK, aux = self._tokens(model, batch["ids_ST"], batch["attention_ST"], scored_K)
        sums_S = (logps_SK * weights_ST[:, scored_K]).sum(dim=-1)
        nll_B = -(logps_SK[:pairs] * nll_BT[:, scored_K]).sum(dim=-1)
        return PairLogps(sums_S[:pairs], sums_S[pairs:], nll_B), aux


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
