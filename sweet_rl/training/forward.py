"""A batch under a model: its inputs and masks, log-probabilities of given tokens, a critic's values, rows' losses.

A causal model's own head makes one logit for each token of the vocabulary at every place; with 32,000 tokens
and more that is the memory peak of training. Here only the places that predict a response reach the head, in
chunks, whose logits are made again in the backward pass. So memory depends neither on the length of the
history nor on vocabulary times responses.

Axes: R rows of tokens, T places in a row, H hidden, K log-probabilities asked for, V vocabulary, O outputs,
S sides (chosen, then rejected), B rows of a batch. Of attention: N blocks of B places, H heads, D of a head.

Published behaviour: docs/published/sweet_rl.md#in-training, #reward-models, #preference-training.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from sweet_rl.training.batches import Batch, Question, Shown, ValueBatch
from sweet_rl.training.losses import PairLogps, pair_losses, value_losses
from sweet_rl.training.settings import LossSettings, TrainSettings

CHUNK_LOGITS = 2**22  # Logits made at once: 16 MiB in float32
# The same on a GPU, 256 MiB: each chunk reads the whole head, and adds to the gradients of all of it.
CHUNK_LOGITS_ON_GPU = 2**26

QUERIES = 512  # Queries of a block under a dense mask; fewer save more and start more kernels
BLOCK = 128  # Queries, and keys, of a block of flex_attention
BY_BLOCKS = "sdpa_by_blocks"  # the name that transformers knows `attention_by_blocks` by

Outputs = Callable[[Tensor], Tensor]  # What a head makes of hidden states


class RowLosses(NamedTuple):
    """Sums over each row's units, so that any batching gives the same means.

    A unit is what counts alike in a step's mean: a pair, or a token of a text (`Encoded.weight`).
    """

    total_B: Tensor  # What is minimised
    weight_B: Tensor  # Units of each row
    numbers: Mapping[str, Tensor]  # What is logged, as [B] each; `loss` among them
    aux: Tensor | None = None  # A further loss of the whole batch, for each of its units


class Objective(Protocol):
    """A model and a micro-batch to its rows' losses."""

    by_row: bool  # Whether what a row gives does not depend on the others of its micro-batch, beyond rounding

    def __call__(self, model: Any, batch: Any) -> RowLosses:
        """`model` may be wrapped for several processes."""


class ImitationObjective:
    """Negative log-likelihood of the agent's tokens; each token is a unit. `model` is a bare causal one."""

    def __init__(self, model: Any, settings: LossSettings) -> None:
        self._settings, self.by_row = settings, not settings.aux_loss_coef
        self._head = ResponseHead(model)

    def __call__(self, model: Any, batch: Batch) -> RowLosses:
        logps_B, aux = self.sums(model, batch, 1)
        return RowLosses(-logps_B, batch["weight_B"], {"loss": -logps_B}, aux)

    def sums(self, model: Any, batch: Batch, of_row: int) -> tuple[Tensor, Tensor | None]:
        """The batch's outputs [O] in float32, so many of each row; a router's weighted balance loss, where that counts."""
        coefficient = self._settings.aux_loss_coef
        options = {"output_router_logits": True} if coefficient else {}
        logps_K, output = self._head.logprobs(model, batch, **options)
        weighted_M = logps_K[batch["terms_M"]] * batch["weights_M"]
        zeros_O = weighted_M.new_zeros(of_row * len(batch["scale_B"]))
        sums_O = zeros_O.index_add(0, batch["outputs_M"], weighted_M)
        aux = getattr(output, "aux_loss", None) if coefficient else None
        return sums_O, None if aux is None else coefficient * aux


class PreferenceObjective(ImitationObjective):
    """A preference loss, named by the settings; the batch knows the reference's log-probabilities. A pair is a unit."""

    def logps(self, model: Any, batch: Batch) -> tuple[PairLogps, Tensor | None]:
        """Both sides' log-probabilities, reduced to one number for each response, and the balance loss."""
        sums_O, aux = self.sums(model, batch, 3)
        return PairLogps(*sums_O.chunk(3)), aux

    def __call__(self, model: Any, batch: Batch) -> RowLosses:
        logps, aux = self.logps(model, batch)
        chosen_B, rejected_B = batch["reference_SB"]
        losses = pair_losses(logps, chosen_B, rejected_B, self._settings)
        numbers = {
            "total_loss": losses.total_B,
            "loss": losses.preference_B,
            "acc": losses.accuracy_B,
            "chosen_reward": losses.chosen_reward_B,
            "reject_reward": losses.rejected_reward_B,
            "reward_margin": losses.margin_B,
        }
        if self._settings.nll_loss_coef:
            numbers["nll_loss"] = losses.nll_B
        return RowLosses(losses.total_B, batch["weight_B"], numbers, aux)


class CriticObjective:
    """A regression head that is to give the chosen side the larger value. A pair is a unit.

    `model` is a bare sequence classifier with one label. Values are at the last real token, or (published) means
    over all positions of the batch, padding included, so they depend on what else is in the batch. Padding has
    position 1 there, but not beside pictures, whose positions the model finds by itself.
    """

    def __init__(self, model: Any, settings: TrainSettings) -> None:
        self._bare, self._settings, self.by_row = model, settings, not settings.published
        self._values: list[Tensor] = []
        self._listens = False

    def __call__(self, model: Any, batch: ValueBatch) -> RowLosses:
        chosen_B, rejected_B = self.values(model, batch).chunk(2)
        loss_B = value_losses(chosen_B, rejected_B, self._settings)
        numbers = {
            "loss": loss_B,
            "acc": (chosen_B > rejected_B).float(),
            "chosen_reward": chosen_B,
            "reject_reward": rejected_B,
            "reward_margin": chosen_B - rejected_B,
        }
        return RowLosses(loss_B, torch.ones_like(loss_B), numbers)

    def values(self, model: Any, batch: ValueBatch) -> Tensor:
        """Values in float32, as [S]."""
        if not self._listens:
            # The head's own output: the model takes that before the padding's id, which texts may hold. Not
            # before the first call, as DeepSpeed puts hooks of its own on the head, which must come first.
            self._bare.score.register_forward_hook(lambda _head, _inputs, output: self._values.append(output))
            self._listens = True
        self._values.clear()
        mask_ST, options = batch["attention_ST"], picture_inputs(self._bare, batch["ids_ST"], batch)
        if self._settings.published:
            options["attention_mask"] = mask_ST
            if "pixel_values" not in options:
                options["position_ids"] = (mask_ST.cumsum(dim=1) - 1).masked_fill(mask_ST == 0, 1)
        model(input_ids=batch["ids_ST"], use_cache=False, **options)
        values_ST = self._values.pop()[..., 0].float()
        if self._settings.published:
            return values_ST.mean(dim=-1)
        return values_ST.gather(-1, mask_ST.sum(dim=-1, keepdim=True) - 1)[:, 0]


def next_logprobs(logits_KV: Tensor, next_ids_K: Tensor) -> Tensor:
    """Log-probabilities of the tokens that follow, in float32, without the full table: logit minus log-sum-exp."""
    logits_KV = logits_KV.float()
    return logits_KV.gather(-1, next_ids_K[..., None])[..., 0] - logits_KV.logsumexp(dim=-1)


@contextmanager
def asked_at(
    head: Any, places_K: Tensor, of: Callable[[Outputs, Tensor], Tensor] = lambda head, hidden: head(hidden)
) -> Iterator[None]:
    """A model's head is asked at some flat places (row x T + place) only, while the block lasts: `of` its hidden states."""
    outputs = head.forward
    head.forward = lambda hidden_RTH, *_, **__: of(outputs, hidden_RTH.flatten(0, 1)[places_K])
    try:
        yield
    finally:
        head.forward = outputs


class ResponseHead:
    """Takes the place of a bare model's head during one call: hidden states in, log-probabilities out.

    Within the call, so that whatever wraps the model (DeepSpeed, FSDP, DDP, adapters) sees an ordinary
    forward pass of all its modules. `logprobs_of` makes of logits [K, V] and tokens [K] what is asked for.
    """

    def __init__(self, model: Any, logprobs_of: Callable[[Tensor, Tensor], Tensor] = next_logprobs) -> None:
        self._bare, self._module, self._logprobs_of = model, model.get_output_embeddings(), logprobs_of
        # Whether the model gives its head's output as it is; not known before the first call.
        self._plain: bool | None = None

    def logprobs(self, model: Any, question: Question, **options: Any) -> tuple[Tensor, Any]:
        """The log-probabilities [K] in float32 that are asked for, and the (wrapped) model's output."""
        inputs, made = inputs_of(self._bare, question) | options, list[Tensor]()

        def logprobs_of(logits_of: Outputs, hidden_KH: Tensor) -> Tensor:
            made.append(self._chunked(logits_of, hidden_KH, question["targets_K"]))
            return made[0]

        if self._plain is not False:
            with asked_at(self._module, question["predictors_K"], logprobs_of):
                output = model(**inputs)
            if self._plain is None:  # a model may scale or cap its logits, which are log-probabilities here
                self._plain = len(made) == 1 and torch.equal(output.logits.detach(), made[0].detach())
            if self._plain:
                return output.logits, output
        output = model(**inputs)
        logits_KV = output.logits.flatten(0, 1)[question["predictors_K"]]
        return self._logprobs_of(logits_KV, question["targets_K"]), output

    def _chunked(self, logits_of: Outputs, hidden_KH: Tensor, targets_K: Tensor) -> Tensor:
        def logprobs(hidden_KH: Tensor, targets_K: Tensor) -> Tensor:
            return self._logprobs_of(logits_of(hidden_KH), targets_K)

        logits = CHUNK_LOGITS if hidden_KH.device.type == "cpu" else CHUNK_LOGITS_ON_GPU
        size = max(1, logits // self._bare.config.get_text_config().vocab_size)
        if len(targets_K) <= size:
            return logprobs(hidden_KH, targets_K)
        chunks = zip(torch.split(hidden_KH, size), torch.split(targets_K, size), strict=True)
        if torch.is_grad_enabled():
            return torch.cat([checkpoint(logprobs, *chunk, use_reentrant=False) for chunk in chunks])
        return torch.cat([logprobs(*chunk) for chunk in chunks])


def picture_inputs(model: Any, ids_RT: Tensor, shown: Shown) -> dict[str, Any]:
    """The further inputs of a vision-language model, which finds positions on its three axes by itself."""
    if "pixels_PD" not in shown:
        return {}
    return {
        "pixel_values": shown["pixels_PD"],
        "image_grid_thw": shown["grids_I3"],
        "mm_token_type_ids": (ids_RT == model.config.image_token_id).int(),
    }


def attention_of(config: Any) -> str:
    """The attention that a loaded model computes with: sdpa, eager, flex_attention, flash_attention_2, ..."""
    name: str = config._attn_implementation  # it has no public name
    return "sdpa" if name == BY_BLOCKS else name


def attention_span(model: Any) -> float:
    """How much sharing is worth for a model (`sweet_rl.training.batches.lay_out`); 0 where it is impossible.

    Dense masks are computed whole, or in blocks of queries: a pair of tokens costs at most 4 x hidden size in
    each layer, a token about 24 x hidden size squared. FlexAttention skips what is hidden.
    """
    config = model.config.get_text_config()
    kinds = set(getattr(config, "layer_types", None) or ())
    attention = attention_of(config)
    if "position_ids" not in _parameters(type(model).forward) or kinds - {
        "full_attention",
        "sliding_attention",
    }:
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
    inputs |= picture_inputs(model, question["ids_RT"], question)
    if "use_cache" in _parameters(type(model).forward):
        inputs["use_cache"] = False
    if "attention_RT" in question:
        inputs["attention_mask"] = question["attention_RT"]
    if "ends_RT" not in question:
        return inputs
    positions_RT, ends_RT = question["positions_RT"], question["ends_RT"]
    config = model.config.get_text_config()
    attention = attention_of(config)

    def mask(window: int | None) -> Any:
        if attention == "flex_attention":
            return block_mask(positions_RT, ends_RT, window)
        added_to = None if attention == "sdpa" else model.dtype
        return dense_mask(positions_RT, ends_RT, window, added_to=added_to)

    inputs["position_ids"], window = positions_RT, getattr(config, "sliding_window", None)
    kinds = set(getattr(config, "layer_types", None) or ())
    if window is None or (kinds and "sliding_attention" not in kinds):
        inputs["attention_mask"] = mask(None)
    elif not kinds:
        inputs["attention_mask"] = mask(window)
    else:  # one for each kind of layer
        inputs["attention_mask"] = {"full_attention": mask(None), "sliding_attention": mask(window)}
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
