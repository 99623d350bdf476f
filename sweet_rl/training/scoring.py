"""Candidates under a model in this process: their tokens' log-probabilities, or a regression head's value.

Many candidates continue one long context: it is read once, its keys and values are kept, and the candidates
are read after copies of those. Logits are computed for the candidates' positions only. Importing this module
imports torch.

Axes: C contexts, R candidates, T positions, V vocabulary, H hidden.
"""

# ruff: noqa: N803, N806 - the names of tensors end in their axes

from __future__ import annotations

import copy
import inspect
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sweet_rl.chat import model_path
from sweet_rl.errors import ServiceError, UsageError

Ids = tuple[int, ...]
Pair = tuple[Ids, Ids]
"""A context and a candidate after it."""

MAX_BATCH_TOKENS = 32768
"""Positions, of contexts and candidates together, that one forward pass may keep."""


class CandidateScorer:
    """Scores candidates with one model.

    A checkpoint that is a sequence classifier with one label is a critic with a regression head: its
    candidates have one value each, the head's at their last token. A critic whose configuration says
    `critic_value: mean` was trained on the mean over all positions (published), and gives that mean.

    Args:
        model: a folder, or a name on the hub.
        device: "auto" (a GPU if there is one), "cpu", "cuda", "cuda:1", ...
        dtype: "auto" (that of the checkpoint), "float32", "bfloat16", "float16".
        max_batch_tokens: positions in one forward pass at most; memory grows with it.

    Raises:
        UsageError: no such model, or unknown settings.
    """

    def __init__(
        self,
        model: str | Path,
        *,
        device: str = "auto",
        dtype: str = "auto",
        max_batch_tokens: int = MAX_BATCH_TOKENS,
    ) -> None:
        if max_batch_tokens < 1:
            raise UsageError(f"--max_batch_tokens must be at least 1, got {max_batch_tokens}.")
        self._model = load_model(model, device=device, dtype=dtype)
        self.has_value_head = is_value_model(self._model.config)
        length = getattr(self._model.config.get_text_config(), "max_position_embeddings", None)
        self.context_length: int | None = length
        self._budget = max_batch_tokens
        self._stopped = threading.Event()
        parameters = inspect.signature(self._model.forward).parameters
        self._takes_positions = "position_ids" in parameters
        self._last_only = {"logits_to_keep": 1} if "logits_to_keep" in parameters else {}

    def score(
        self, contexts: Sequence[Sequence[int]], candidates: Sequence[Sequence[Sequence[int]]]
    ) -> list[list[list[float]]]:
        """Natural log-probability of every token of every candidate after its context, untempered.

        `candidates[r]` continue `contexts[r]`. Equal contexts are read once, equal candidates of a context
        scored once. With a regression head each candidate has a list of one value instead.

        Raises:
            ValueError: a context or a candidate without tokens.
            ServiceError: out of GPU memory.
        """
        groups: dict[Ids, dict[Ids, list[float]]] = {}
        for context, row in zip(contexts, candidates, strict=True):
            group = groups.setdefault(tuple(context), {})
            for candidate in row:
                group.setdefault(tuple(candidate), [])
        if not all(context and all(group) for context, group in groups.items()):
            raise ValueError("a context or a candidate has no tokens")
        try:
            for batch in self._context_batches(groups):
                for pair, values in self._values(batch) if self.has_value_head else self._logprobs(batch):
                    groups[pair[0]][pair[1]] = values
                    if self._stopped.is_set():
                        raise RuntimeError("the scorer was stopped")
        except torch.OutOfMemoryError as error:
            raise ServiceError(
                f"Out of GPU memory with {self._budget} tokens in a batch. Lower --max_batch_tokens and run "
                "the same command with --to_continue."
            ) from error
        return [
            [groups[tuple(context)][tuple(candidate)] for candidate in row]
            for context, row in zip(contexts, candidates, strict=True)
        ]

    def stop(self) -> None:
        """End a `score` that runs in another thread after the batch at hand; nobody wants its result."""
        self._stopped.set()

    def _context_batches(self, groups: dict[Ids, dict[Ids, list[float]]]) -> Iterator[dict[Ids, list[Ids]]]:
        """Contexts of like length, as many together as the budget allows with all their candidates."""
        batch: dict[Ids, list[Ids]] = {}
        rows = longest = 0
        for context in sorted(groups, key=len, reverse=True):  # the first batch needs the most memory
            tokens = list(groups[context])
            width = max(map(len, tokens), default=0)
            size = (rows + len(tokens)) * (max(map(len, [*batch, context])) + max(longest, width))
            if batch and size > self._budget:
                yield batch
                batch, rows, longest = {}, 0, 0
            batch[context] = tokens
            rows, longest = rows + len(tokens), max(longest, width)
        if batch:
            yield batch

    @torch.inference_mode()
    def _logprobs(self, batch: dict[Ids, list[Ids]]) -> Iterator[tuple[Pair, list[float]]]:
        contexts = list(batch)
        ids_CT, mask_CT = self._padded(contexts, left=True)
        logits_CV, cache = self._read(ids_CT, mask_CT, None, self._last_only)
        logits_CV = logits_CV[:, -1]
        pairs = [(i, candidate) for i, context in enumerate(contexts) for candidate in batch[context]]
        pairs.sort(key=lambda pair: len(pair[1]), reverse=True)
        chunks = list(_chunks(pairs, ids_CT.shape[1], self._budget))
        for number, chunk in enumerate(chunks):
            last = number == len(chunks) - 1
            rows_R = torch.tensor([i for i, _ in chunk], device=ids_CT.device)
            tokens_RT, kept_RT = self._padded([candidate for _, candidate in chunk], left=False)
            logps_RT = _gathered(logits_CV[rows_R][:, None], tokens_RT[:, :1])
            if tokens_RT.shape[1] > 1:
                own = cache if last else copy.deepcopy(cache)
                own.batch_select_indices(rows_R)
                mask_RT = torch.cat([mask_CT[rows_R], kept_RT[:, :-1]], dim=1)
                logits_RTV, _ = self._read(tokens_RT[:, :-1], mask_RT, own, {})
                logps_RT = torch.cat([logps_RT, _gathered(logits_RTV, tokens_RT[:, 1:])], dim=1)
            for (i, candidate), values in zip(chunk, logps_RT.tolist(), strict=True):
                yield (contexts[i], candidate), values[: len(candidate)]

    @torch.inference_mode()
    def _values(self, batch: dict[Ids, list[Ids]]) -> Iterator[tuple[Pair, list[float]]]:
        """The head's value at the last token of context and candidate, or its mean over both."""
        mean = getattr(self._model.config, "critic_value", "last") == "mean"
        pairs = [(context, candidate) for context, tokens in batch.items() for candidate in tokens]
        for chunk in _chunks([(0, context + tokens) for context, tokens in pairs], 0, self._budget):
            ids_RT, mask_RT = self._padded([ids for _, ids in chunk], left=True)
            hidden_RTH = self._model.base_model(
                input_ids=ids_RT, attention_mask=mask_RT, **self._positions(ids_RT, mask_RT)
            ).last_hidden_state
            if mean:
                values_RT = self._model.score(hidden_RTH)[..., 0].float() * mask_RT
                values_R = values_RT.sum(dim=1) / mask_RT.sum(dim=1)
            else:
                values_R = self._model.score(hidden_RTH[:, -1])[:, 0].float()
            now, pairs = pairs[: len(chunk)], pairs[len(chunk) :]
            yield from zip(now, ([value] for value in values_R.tolist()), strict=True)

    def _read(
        self, ids_BT: Tensor, mask_BT: Tensor, cache: Any, options: dict[str, int]
    ) -> tuple[Tensor, Any]:
        output = self._model(
            input_ids=ids_BT,
            attention_mask=mask_BT,
            past_key_values=cache,
            use_cache=True,
            **self._positions(ids_BT, mask_BT),
            **options,
        )
        return output.logits, output.past_key_values

    def _positions(self, ids_BT: Tensor, mask_BT: Tensor) -> dict[str, Tensor]:
        if not self._takes_positions:
            return {}
        positions_BT = (mask_BT.cumsum(dim=1) - 1).clamp(min=0)
        return {"position_ids": positions_BT[:, -ids_BT.shape[1] :]}

    def _padded(self, sequences: Sequence[Ids], *, left: bool) -> tuple[Tensor, Tensor]:
        """Ids and mask of one length; what stands at masked places does not matter."""
        width = max(map(len, sequences))
        ids, mask = [], []
        for sequence in sequences:
            empty, full = [0] * (width - len(sequence)), [1] * len(sequence)
            ids.append([*empty, *sequence] if left else [*sequence, *empty])
            mask.append([*empty, *full] if left else [*full, *empty])
        device = self._model.device
        return torch.tensor(ids, device=device), torch.tensor(mask, device=device)


def _gathered(logits_RTV: Tensor, ids_RT: Tensor) -> Tensor:
    """Log-probability of each id under the logits of the position before it, in float32, as [R, T]."""
    logits_RTV = logits_RTV.float()
    return logits_RTV.gather(-1, ids_RT[..., None])[..., 0] - logits_RTV.logsumexp(dim=-1)


def _chunks(pairs: Sequence[tuple[int, Ids]], before: int, budget: int) -> Iterator[list[tuple[int, Ids]]]:
    """Pieces of a list of candidates whose padded positions, `before` each included, fit the budget."""
    chunk: list[tuple[int, Ids]] = []
    width = 0
    for pair in pairs:
        wider = max(width, len(pair[1]))
        if chunk and (len(chunk) + 1) * (before + wider) > budget:
            yield chunk
            chunk, wider = [], len(pair[1])
        chunk.append(pair)
        width = wider
    if chunk:
        yield chunk


def is_value_model(config: Any) -> bool:
    """Whether a checkpoint is a critic with a regression head: a sequence classifier with one label."""
    architectures = getattr(config, "architectures", None) or []
    classifier = any(name.endswith("ForSequenceClassification") for name in architectures)
    return classifier and config.num_labels == 1


def load_model(model: str | Path, *, device: str, dtype: str) -> Any:
    """The causal model, or the critic with a regression head, of a folder or of a name on the hub.

    Raises:
        UsageError: it is not a checkpoint, or an unknown device or dtype.
    """
    from transformers import (  # noqa: PLC0415 - seconds, and only for those who load a model
        AutoConfig,
        AutoModelForCausalLM,
        AutoModelForSequenceClassification,
    )
    from transformers.utils.logging import disable_progress_bar  # noqa: PLC0415

    disable_progress_bar()  # type: ignore[no-untyped-call]

    if dtype != "auto" and not isinstance(getattr(torch, dtype, None), torch.dtype):
        raise UsageError(f"--dtype must be auto, float32, bfloat16 or float16, got {dtype!r}.")
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        config = AutoConfig.from_pretrained(model_path(model))
        kind = AutoModelForSequenceClassification if is_value_model(config) else AutoModelForCausalLM
        loaded: Any = kind.from_pretrained(model_path(model), dtype=dtype)
    except (OSError, ValueError) as error:
        first = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
        raise UsageError(
            f"No model could be loaded from {str(model)!r}: {first} Name a folder with config.json and "
            "model.safetensors, as training writes it, or a model on the hub."
        ) from error
    try:
        return loaded.to(device).eval()
    except (RuntimeError, AssertionError) as error:
        raise UsageError(f"The model cannot be put on the device {device!r}: {error}") from error
