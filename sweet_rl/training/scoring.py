"""Candidates under a model in this process: their tokens' log-probabilities, or a regression head's value.

Many candidates continue one long context, and many contexts one dialogue: all are read as trees, what they
share once (`sweet_rl.training.batches`), and only the candidates reach the output head. Importing this module
imports torch.

Axes: R rows, T places in a row, K log-probabilities or values, H hidden.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sweet_rl import tracking
from sweet_rl.errors import UsageError
from sweet_rl.policies.weights import causal_kind, context_length, loaded_on
from sweet_rl.training.batches import Reader, neighbours, to_device
from sweet_rl.training.forward import ResponseHead, attention_span, inputs_of
from sweet_rl.training.models import critic_kind
from sweet_rl.training.steps import by_halves, explained, shared_batches

Ids = tuple[int, ...]
Pair = tuple[Ids, Ids]  # A context and a candidate after it

MAX_BATCH_TOKENS = 32768  # Tokens of one forward pass, those that are shared counted once


class CandidateScorer:
    """Scores candidates with one model.

    A checkpoint that is a sequence classifier with one label is a critic with a regression head: its
    candidates have one value each, the head's at their last token. A critic whose configuration says
    `critic_value: mean` was trained on the mean over all positions (published), and gives that mean.
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
        self._model = loaded_on(
            str(model),
            lambda config: critic_kind(config) if is_value_model(config) else causal_kind(config),
            device=device,
            dtype=dtype,
        )
        self.has_value_head = is_value_model(self._model.config)
        self.context_length = context_length(self._model)
        self._budget = max_batch_tokens
        self._stopped = threading.Event()
        self._reader = Reader(pad_id=0, attention_span=attention_span(self._model))
        if not self.has_value_head:
            self._head = ResponseHead(self._model)

    def score(
        self, contexts: Sequence[Sequence[int]], candidates: Sequence[Sequence[Sequence[int]]]
    ) -> list[list[list[float]]]:
        """Natural log-probability of every token of every candidate after its context, untempered.

        `candidates[r]` continue `contexts[r]`. What they begin with in common is read once. With a regression
        head each candidate has a list of one value instead. ServiceError: memory does not suffice.
        """
        rows = [
            [(tuple(context), tuple(candidate)) for candidate in row]
            for context, row in zip(contexts, candidates, strict=True)
        ]
        pairs = list(dict.fromkeys(chain.from_iterable(rows)))
        if not all(context and candidate for context, candidate in pairs):
            raise ValueError("a context or a candidate has no tokens")
        sequences = [np.array([*context, *candidate], dtype=np.uint32) for context, candidate in pairs]
        order, shared = neighbours(sequences)  # those with a common prefix together; shared tokens count once
        if not self._reader.attention_span:
            shared = [0] * len(order)
        lengths, found = [len(ids) for ids in sequences], dict[Pair, list[float]]()

        @torch.inference_mode()
        def work(numbers: Sequence[int]) -> list[list[float]]:
            return self._values([(sequences[number], len(pairs[number][0])) for number in numbers])

        with explained("Lower --max_batch_tokens, and run the same command with --to_continue."):
            for batch in shared_batches(order, lengths, shared, self._budget):
                values = chain.from_iterable(by_halves(batch, work))
                found.update(zip([pairs[number] for number in batch], values, strict=True))
                if self._stopped.is_set():
                    raise RuntimeError("the scorer was stopped")
        return [[found[pair] for pair in row] for row in rows]

    def stop(self) -> None:
        """End a `score` that runs in another thread after the batch at hand; its result is not used."""
        self._stopped.set()

    def _values(self, batch: Sequence[tuple[np.ndarray, int]]) -> list[list[float]]:
        """Of sequences and where their candidates begin: log-probabilities of these, or the head's value.

        A head's value is that at the last token, or its mean over the sequence.
        """
        sequences = [ids for ids, _ in batch]
        if self.has_value_head:  # what would follow a token is asked for, so that the token itself is read
            sequences = [np.append(ids, np.uint32(0)) for ids in sequences]
        starts = [1 if self.has_value_head else start for _, start in batch]
        asked = [(i, np.arange(start, len(sequences[i]))) for i, start in enumerate(starts)]
        question, places = self._reader.ask(sequences, asked)
        question = to_device(question, self._model.device)
        if not self.has_value_head:
            logps_K = self._head.logprobs(self._model, question)[0].cpu().numpy()
            return [logps_K[at].tolist() for at in places]
        body = self._model.base_model
        hidden_KH = body(**inputs_of(body, question)).last_hidden_state.flatten(0, 1)[
            question["predictors_K"]
        ]
        values_K = self._model.score(hidden_KH)[:, 0].float().cpu().numpy()
        mean = getattr(self._model.config, "critic_value", "last") == "mean"
        return [[float(values_K[at].mean() if mean else values_K[at[-1]])] for at in places]


class ScorerInThread:
    """A scorer to be awaited: it works in a thread, so that Ctrl-C is heard, and counts its tokens."""

    def __init__(self, scorer: CandidateScorer, model: str) -> None:
        self._scorer = scorer
        self._usage = tracking.meter(model, "critic")
        self.has_value_head = scorer.has_value_head
        self.context_length = scorer.context_length

    async def score(
        self, contexts: Sequence[Sequence[int]], candidates: Sequence[Sequence[Sequence[int]]]
    ) -> list[list[list[float]]]:
        """As `CandidateScorer.score`."""
        self._usage.requests += len(contexts)
        for context, texts in zip(contexts, candidates, strict=True):
            self._usage.add(len(context) + sum(map(len, texts)), 0)
        try:
            return await asyncio.to_thread(self._scorer.score, contexts, candidates)
        except asyncio.CancelledError:
            self._scorer.stop()
            raise


def is_value_model(config: Any) -> bool:
    """Whether a checkpoint is a critic with a regression head: a sequence classifier with one label."""
    architectures = getattr(config, "architectures", None) or []
    classifier = any(name.endswith("ForSequenceClassification") for name in architectures)
    return classifier and config.num_labels == 1
