"""A batch under a model: log-probabilities of given tokens, their sums, a critic's values, rows' losses.

A causal model's own head makes one logit for each token of the vocabulary at every place; with 32,000 tokens
and more that is the memory peak of training. Here only the places that predict a response reach the head, in
chunks, whose logits are made again in the backward pass. So memory depends neither on the length of the
history nor on vocabulary times responses.

Axes: R rows of tokens, T places in a row, H hidden, K log-probabilities asked for, V vocabulary, O outputs,
S sides (chosen, then rejected), B rows of a batch.

Published behaviour: docs/published/sweet_rl.md#in-training, #reward-models, #preference-training.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol, TypeVar

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from sweet_rl.errors import ServiceError, first_line
from sweet_rl.training.attention import inputs_of
from sweet_rl.training.batches import Batch, Reading, Shown, ValueBatch
from sweet_rl.training.encoding import Encoded
from sweet_rl.training.losses import PairLogps, pair_losses, value_losses
from sweet_rl.training.settings import LossSettings, TrainSettings

CHUNK_LOGITS = 2**22  # Logits made at once: 16 MiB in float32
# The same on a GPU, 256 MiB: each chunk reads the whole head, and adds to the gradients of all of it.
CHUNK_LOGITS_ON_GPU = 2**26

Outputs = Callable[[Tensor], Tensor]  # What a head makes of hidden states


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
        self._module = model.get_output_embeddings()
        self._logprobs_of = logprobs_of
        self._vocabulary = model.config.get_text_config().vocab_size
        # Whether the model gives its head's output as it is; not known before the first call.
        self._plain: bool | None = None

    def logprobs(
        self, model: Any, predictors_K: Tensor, targets_K: Tensor, inputs: dict[str, Any]
    ) -> tuple[Tensor, Any]:
        """Log-probabilities [K] in float32 of the targets, predicted at flat places; and the (wrapped) model's output."""
        made: list[Tensor] = []

        def logprobs_of(logits_of: Outputs, hidden_KH: Tensor) -> Tensor:
            made.append(self._chunked(logits_of, hidden_KH, targets_K))
            return made[0]

        if self._plain is not False:
            with asked_at(self._module, predictors_K, logprobs_of):
                output = model(**inputs)
            if self._plain is None:  # a model may scale or cap its logits, which are log-probabilities here
                self._plain = len(made) == 1 and torch.equal(output.logits.detach(), made[0].detach())
            if self._plain:
                return output.logits, output
        output = model(**inputs)
        return self._logprobs_of(output.logits.flatten(0, 1)[predictors_K], targets_K), output

    def _chunked(self, logits_of: Any, hidden_KH: Tensor, targets_K: Tensor) -> Tensor:
        def logprobs(hidden_KH: Tensor, targets_K: Tensor) -> Tensor:
            return self._logprobs_of(logits_of(hidden_KH), targets_K)

        logits = CHUNK_LOGITS if hidden_KH.device.type == "cpu" else CHUNK_LOGITS_ON_GPU
        size = max(1, logits // self._vocabulary)
        if len(targets_K) <= size:
            return logprobs(hidden_KH, targets_K)
        chunks = [
            (hidden_KH[start : start + size], targets_K[start : start + size])
            for start in range(0, len(targets_K), size)
        ]
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


class ReadingForward:
    """The outputs of a `Reading` under a bare causal model, and its router's balance loss where that counts."""

    def __init__(self, model: Any, *, aux_loss_coef: float = 0.0) -> None:
        self._bare, self._aux = model, aux_loss_coef
        self._head = ResponseHead(model)

    def __call__(self, model: Any, reading: Reading, outputs: int) -> tuple[Tensor, Tensor | None]:
        """That many outputs [O] in float32, and the weighted balance loss."""
        inputs = inputs_of(self._bare, reading) | ({"output_router_logits": True} if self._aux else {})
        inputs |= picture_inputs(self._bare, reading["ids_RT"], reading)
        logps_K, output = self._head.logprobs(model, reading["predictors_K"], reading["targets_K"], inputs)
        weighted_M = logps_K[reading["terms_M"]] * reading["weights_M"]
        sums_O = weighted_M.new_zeros(outputs).index_add(0, reading["outputs_M"], weighted_M)
        aux = getattr(output, "aux_loss", None) if self._aux else None
        return sums_O, None if aux is None else self._aux * aux


class PairForward(ReadingForward):
    """Both sides of some pairs to one number for each response; see `ReadingForward`."""

    def __call__(self, model: Any, batch: Batch) -> tuple[PairLogps, Tensor | None]:  # type: ignore[override]
        """Log-probabilities in float32, and the balance loss."""
        sums_O, aux = super().__call__(model, batch, 3 * len(batch["scale_B"]))
        return PairLogps(*sums_O.chunk(3)), aux


class ValueForward:
    """Texts to a regression head's values: at the last real token, or (published) their `mean`.

    The mean is over all positions of the batch, padding included, so it depends on what else is
    in the batch. Padding has position 1, as in the published code, but not beside pictures, whose
    positions the model finds by itself. `model` is a bare sequence classifier with one label.
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


class PreferenceObjective:
    """A preference loss, named by the settings; the batch knows the reference's log-probabilities. A pair is a unit."""

    def __init__(self, model: Any, settings: LossSettings) -> None:
        self._settings, self.by_row = settings, not settings.aux_loss_coef
        self._forward = PairForward(model, aux_loss_coef=settings.aux_loss_coef)

    def __call__(self, model: Any, batch: Batch) -> RowLosses:
        logps, aux = self._forward(model, batch)
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


class ImitationObjective:
    """Negative log-likelihood of the agent's tokens; each token is a unit."""

    def __init__(self, model: Any, settings: LossSettings) -> None:
        self.by_row = not settings.aux_loss_coef
        self._forward = ReadingForward(model, aux_loss_coef=settings.aux_loss_coef)

    def __call__(self, model: Any, batch: Batch) -> RowLosses:
        logps_B, aux = self._forward(model, batch, len(batch["scale_B"]))
        return RowLosses(-logps_B, batch["weight_B"], {"loss": -logps_B}, aux)


class CriticObjective:
    """A regression head that is to give the chosen side the larger value. A pair is a unit."""

    def __init__(self, model: Any, settings: TrainSettings) -> None:
        self._settings, self.by_row = settings, not settings.published
        self._forward = ValueForward(model, mean=settings.published)

    def __call__(self, model: Any, batch: ValueBatch) -> RowLosses:
        values_S = self._forward(model, batch["ids_ST"], batch["attention_ST"], batch)
        chosen_B, rejected_B = values_S.chunk(2)
        loss_B = value_losses(chosen_B, rejected_B, self._settings)
        numbers = {
            "loss": loss_B,
            "acc": (chosen_B > rejected_B).float(),
            "chosen_reward": chosen_B,
            "reject_reward": rejected_B,
            "reward_margin": chosen_B - rejected_B,
        }
        return RowLosses(loss_B, torch.ones_like(loss_B), numbers)


Item = TypeVar("Item")
Result = TypeVar("Result")

MOST_TOKENS = 32_768  # No more than that, whatever is free: other programs may want it
# Share of a GPU's memory that stays free: it comes in pieces, and other programs use the same GPU.
MARGIN = 0.1
PADDING = 0.2  # Share of a micro-batch's places that are left for padding, which packs do not count
CARD = "cuda"  # The kind of device whose memory is measured
REPAIR = (
    "Use --gradient_checkpointing True or --bf16 True, lower --max_tokens_per_batch, "
    "--micro_train_batch_size or --max_len, or end what else uses the memory."
)

_EXHAUSTED = re.compile(r"out of memory|can't allocate memory|not enough memory|ALLOC_FAILED", re.IGNORECASE)


def exhausted(error: BaseException) -> bool:
    """Whether an error is torch's way of saying that memory, of a GPU or the machine's, does not suffice."""
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return True
    return isinstance(error, RuntimeError) and _EXHAUSTED.search(str(error)) is not None


@contextmanager
def explained(repair: str) -> Iterator[None]:
    """Raises ServiceError, with what to do about it, where memory does not suffice."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not exhausted(error):
            raise
        raise ServiceError(f"Out of memory: {first_line(error)[:200]} {repair}") from error


def by_halves(items: Sequence[Item], work: Callable[[Sequence[Item]], Result]) -> Iterator[Result]:
    """What `work` gives for all items, or, where memory does not suffice, for parts of them one by one."""
    waiting = [items]
    while waiting:
        part = waiting.pop()
        try:
            result = work(part)
        except (RuntimeError, MemoryError) as error:
            if len(part) == 1 or not exhausted(error):
                raise
        else:
            yield result
            continue
        free_cache()  # here the error is gone, and with it what the pass had made
        waiting += [part[len(part) // 2 :], part[: len(part) // 2]]


def places(batch: Mapping[str, Any]) -> int:
    """Tokens of a batch of `sweet_rl.training.batches`, padding included: what its memory goes by."""
    number: int = (batch["ids_RT"] if "ids_RT" in batch else batch["ids_ST"]).numel()
    return number


def free_cache() -> None:
    """Give back what torch keeps for later; nothing without a GPU."""
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def tokens_that_fit(
    rows: Sequence[Encoded], work: Callable[[Sequence[Encoded]], int], *, reserve: int, device: torch.device
) -> int:
    """Tokens of a micro-batch for which a GPU, with the model on it, has room beside `reserve` bytes.

    `work` is a forward and backward pass over some rows, and gives its `places`. Passes over the longest rows
    show what a further token takes. Raises torch's error where the longest row alone is too large.
    """

    def measured(count: int) -> tuple[int, int]:
        torch.cuda.reset_peak_memory_stats(device)
        return work(longest[:count]), torch.cuda.max_memory_allocated(device)

    longest = sorted(rows, key=lambda row: -row.length)
    work(longest[:1])  # gradients are there from now on, and what kernels keep
    held = torch.cuda.memory_allocated(device)
    few, least = measured(1)
    needed = max(few, longest[0].length)
    many, most, count = few, least, 1
    try:
        while many < 2 * few and count < len(longest):
            count = min(2 * count, len(longest))
            many, most = measured(count)
    except RuntimeError as error:
        if not exhausted(error):
            raise
        return needed
    a_place = (most - least) / (many - few) if most > least and many > few else (least - held) / few
    free_cache()
    free, whole = torch.cuda.mem_get_info(device)
    kept = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    room = free + kept - reserve - MARGIN * whole - (least - held)
    return max(needed, min(MOST_TOKENS, few + int(room / max(a_place, 1.0))))
