"""Scores of sampled candidates: from the critic's log-probabilities, beside a reference.

Intended (paper, equation 3): (1/L) * [log critic(a | h, solution) - log reference(a | h, solution)] over the
candidate's own L tokens, its end token included. The released system leaves the solution out on the reference
side and uses the sampler's own log-probabilities there. Models are behind `Scorer`; nothing here runs one.

Published behaviour: docs/published/sweet_rl.md#ranking, #in-sampling-ranking-and-pairs, #in-episodes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple, Protocol

from sweet_rl.preferences.candidates import Candidate, Candidates
from sweet_rl.preferences.trajectory_pairs import with_solution


class Scorer(Protocol):
    """Log-probabilities under one model, in token ids."""

    async def score(
        self, contexts: Sequence[Sequence[int]], candidates: Sequence[Sequence[Sequence[int]]]
    ) -> list[list[list[float]]]:
        """Natural log-probability of every token of every candidate after its context, untempered.

        `candidates[r]` continue `contexts[r]`; none is empty.
        """
        ...


class LoadedScorer(Scorer, Protocol):
    """A scorer with what it knows of its model: whether it gives values, and how many tokens it reads."""

    has_value_head: bool
    context_length: int | None


class Continuation(NamedTuple):
    """A candidate's tokens, and the tokens before it."""

    context: tuple[int, ...]
    tokens: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Encoding:
    """A model's tokenizer, as far as ranking needs it.

    Args:
        encode: text to ids, no token added.
        encode_with_special: text to ids, with the begin token that an engine adds to a string.
        header: what opens an assistant turn, as text.
        header_length: its tokens.
        end_ids: what closes one, of most models a single token.
        digest: `sweet_rl.chat.tokenizer_digest`.
        decode: ids to text, special tokens included.
    """

    encode: Callable[[str], list[int]]
    encode_with_special: Callable[[str], list[int]]
    header: str
    header_length: int
    end_ids: tuple[int, ...]
    digest: str
    decode: Callable[[Sequence[int]], str]


class Model(NamedTuple):
    """A model that scores, and its tokenizer."""

    scorer: LoadedScorer
    encoding: Encoding


def candidate_tokens(row: Candidates, context: str, encoding: Encoding) -> list[Continuation]:
    """The scored tokens: exactly the candidate's own, with the end token where one was generated.

    The sampler's ids are kept when they are of the same tokenizer; else the text is tokenised again and the
    end token put after it, unless the candidate was cut.
    """
    context_ids = tuple(encoding.encode(context))
    same = row.tokenizer is not None and row.tokenizer == encoding.digest
    return [Continuation(context_ids, own_tokens(candidate, encoding, same)) for candidate in row.candidates]


def own_tokens(candidate: Candidate, encoding: Encoding, same_tokenizer: bool) -> tuple[int, ...]:
    """A candidate's tokens; the sampler's own ids only where its tokenizer is the same."""
    if same_tokenizer and candidate.token_ids is not None:
        return candidate.token_ids
    return (*encoding.encode(candidate.text), *(() if candidate.cut else encoding.end_ids))


def published_request(context: str, text: str, encoding: Encoding) -> str:
    """The string that the published ranking sends for one candidate."""
    return context + text + encoding.header


def published_tokens(row: Candidates, context: str, encoding: Encoding) -> list[Continuation]:
    """What the published ranking averages over: the last turn's header and the candidate.

    That is everything after the last end token, without the header that was put after the candidate. The
    begin token that the engine adds, a second one, stays in the context.
    """
    found = []
    for candidate in row.candidates:
        request = published_request(context, candidate.text, encoding)
        ids = encoding.encode_with_special(request)[: -encoding.header_length]
        last_end = max((i for i, token in enumerate(ids) if token == encoding.end_ids[-1] and i), default=0)
        found.append(Continuation(tuple(ids[: last_end + 1]), tuple(ids[last_end + 1 :])))
    return found


def context_of(row: Candidates, *, with_ground_truth: bool) -> str:
    """The text before a candidate: the prompt, after the hidden solution for whom may know it."""
    return with_solution(row.prompt, row.ground_truth) if with_ground_truth else row.prompt


async def logprobs_of(
    scorer: Scorer, rows: Sequence[Sequence[Continuation]], limit: int | None = None
) -> list[list[list[float] | None]]:
    """The tokens' log-probabilities of every candidate of every row.

    A candidate has None when it has no tokens, or with its context more than `limit`, the model's context.
    """
    contexts: list[tuple[int, ...]] = []
    tokens: list[list[tuple[int, ...]]] = []
    places: list[tuple[int, int]] = []
    for i, row in enumerate(rows):
        numbered = [
            (place, one)
            for place, one in enumerate(row)
            if one.tokens and one.context and (limit is None or len(one.context) + len(one.tokens) <= limit)
        ]
        for context, group in groupby(numbered, key=lambda item: item[1].context):
            members = list(group)
            contexts.append(context)
            tokens.append([one.tokens for _, one in members])
            places += [(i, place) for place, _ in members]
    result: list[list[list[float] | None]] = [[None] * len(row) for row in rows]
    if contexts:
        scored = await scorer.score(contexts, tokens)
        for (i, place), values in zip(places, (v for group in scored for v in group), strict=True):
            result[i][place] = values
    return result


def reduce(logprobs: Sequence[float] | None, *, use_sum: bool) -> float | None:
    """Mean or sum; None where there is nothing."""
    if not logprobs:
        return None
    total = math.fsum(logprobs)
    return total if use_sum else total / len(logprobs)


async def reduced(
    rows: Sequence[Candidates],
    model: Model,
    *,
    with_ground_truth: bool,
    use_sum: bool = False,
    published: bool = False,
) -> list[list[float | None]]:
    """Mean or sum of the log-probabilities of each row's candidates; None where there is nothing to score."""
    tokens_of = published_tokens if published else candidate_tokens
    continuations = [
        tokens_of(row, context_of(row, with_ground_truth=with_ground_truth), model.encoding) for row in rows
    ]
    logprobs = await logprobs_of(model.scorer, continuations, model.scorer.context_length)
    return [[reduce(values, use_sum=use_sum) for values in row] for row in logprobs]


def stored_reference(candidate: Candidate, *, use_sum: bool) -> float | None:
    """The sampler's own mean or sum of the candidate's log-probabilities."""
    return candidate.total if use_sum else candidate.mean


def advantage(critic: float | None, reference: float | None) -> float | None:
    """Critic minus reference; None where one of them is missing."""
    return None if critic is None or reference is None else critic - reference
