"""Scores of sampled candidates: from the critic's log-probabilities, beside a reference; the agent that acts by them.

Intended (paper, equation 3): (1/L) * [log critic(a | h, solution) - log reference(a | h, solution)] over the
candidate's own L tokens, its end token included. The released system leaves the solution out on the reference
side and uses the sampler's own log-probabilities there. Models are behind `Scorer`; nothing here runs one.

Published behaviour: docs/published/sweet_rl.md#ranking, #in-sampling-ranking-and-pairs, #in-episodes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import fsum, sqrt
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

from sweet_rl.chat import TokenizerChat, TurnTemplate, load_tokenizer, tokenizer_digest
from sweet_rl.chat.formats import read_back
from sweet_rl.chat.turns import turn_end
from sweet_rl.contracts import Policy, Sampler
from sweet_rl.errors import ServiceError, UsageError
from sweet_rl.preferences.candidates import Candidate, Candidates
from sweet_rl.preferences.pairs import with_solution
from sweet_rl.statistics import other_places
from sweet_rl.types import Completion, Generation, Json, Observation, derive_seed

if TYPE_CHECKING:
    from sweet_rl.openai_client import OpenAIClient


class Scorer(Protocol):
    """Log-probabilities under one model, in token ids; or the values of a critic with a regression head."""

    has_value_head: bool
    context_length: int | None  # how many tokens it reads

    async def score(
        self, contexts: Sequence[Sequence[int]], candidates: Sequence[Sequence[Sequence[int]]]
    ) -> list[list[list[float]]]:
        """Natural log-probability of every token of every candidate after its context, untempered.

        `candidates[r]` continue `contexts[r]`; none is empty.
        """


class Continuation(NamedTuple):
    """A candidate's tokens, and the tokens before it."""

    context: tuple[int, ...]
    tokens: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Encoding:
    """A model's tokenizer, as far as ranking needs it."""

    encode: Callable[[str], list[int]]  # no token added
    encode_with_special: Callable[[str], list[int]]  # with the begin token that an engine adds to a string
    header: str  # what opens an assistant turn
    header_length: int
    end_ids: tuple[int, ...]  # what closes one, of most models a single token
    digest: str  # `sweet_rl.chat.tokenizer_digest`
    decode: Callable[[Sequence[int]], str]  # special tokens included


class Model(NamedTuple):
    """A model that scores, and its tokenizer."""

    scorer: Scorer
    encoding: Encoding


def candidate_tokens(row: Candidates, context: str, encoding: Encoding) -> list[Continuation]:
    """The scored tokens: exactly the candidate's own, with the end token where one was generated."""
    same = row.tokenizer is not None and row.tokenizer == encoding.digest
    context_ids = tuple(encoding.encode(context))
    return [Continuation(context_ids, own_tokens(candidate, encoding, same)) for candidate in row.candidates]


def own_tokens(candidate: Candidate, encoding: Encoding, same_tokenizer: bool) -> tuple[int, ...]:
    """The sampler's own ids where its tokenizer is the same; else those of the text, and of the end token unless it was cut."""
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
    asked: dict[tuple[int, tuple[int, ...]], list[int]] = {}  # places of a row's candidates, by context
    for number, row in enumerate(rows):
        for place, (context, tokens) in enumerate(row):
            if tokens and context and (limit is None or len(context) + len(tokens) <= limit):
                asked.setdefault((number, context), []).append(place)
    result: list[list[list[float] | None]] = [[None] * len(row) for row in rows]
    if asked:
        tokens_of = [
            [rows[number][place].tokens for place in places] for (number, _), places in asked.items()
        ]
        scored = await scorer.score([context for _, context in asked], tokens_of)
        for ((number, _), places), group in zip(asked.items(), scored, strict=True):
            for place, values in zip(places, group, strict=True):
                result[number][place] = values
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


def end_token_of(tokenizer: Any) -> str:
    """The text of the token that ends a turn: the chat template's, or eos_token where it writes none."""
    if not (end := turn_end(tokenizer)):
        raise UsageError(
            f"The end of a turn is unknown under the tokenizer of {tokenizer.name_or_path!r}: no chat "
            "template with an end token, no eos_token. Set eos_token in its tokenizer_config.json."
        )
    return end


def encoding_of(name: str, *, needs_header: bool) -> Encoding:
    """The tokenizer of a folder or of a name on the hub, as ranking needs it; see `encoding_by`."""
    return encoding_by(load_tokenizer(name), needs_header=needs_header)


def encoding_by(tokenizer: Any, *, needs_header: bool = False) -> Encoding:
    """The same of a tokenizer that is loaded.

    `needs_header`: published ranking puts the header of an assistant turn after every candidate, as its chat
    template has it.
    """
    chat = TokenizerChat(tokenizer) if tokenizer.chat_template else None
    header = TurnTemplate(TokenizerChat(tokenizer)).header if needs_header else ""

    def encode(text: str) -> list[int]:
        if (
            chat is not None and (given := read_back(text)) is not None and not given[2]
        ):  # as training writes it, too
            text = given[0] + chat.render(given[1])
        ids: list[int] = tokenizer(text, add_special_tokens=False)["input_ids"]
        return ids

    return Encoding(
        encode,
        lambda text: list(tokenizer(text)["input_ids"]),
        header,
        len(encode(header)),
        tuple(encode(end_token_of(tokenizer))),
        tokenizer_digest(tokenizer),
        lambda ids: str(tokenizer.decode(list(ids), skip_special_tokens=False)),
    )


_IN_FLIGHT = 128


class ServerScorer:
    """Sends context and candidate as token ids, one request for each distinct pair; closes its client.

    Only vLLM has `prompt_logprobs`; its temperature does not touch them, and is sent as 1 all the same.
    """

    has_value_head = False

    def __init__(self, client: OpenAIClient, model: str) -> None:
        import asyncio  # which is not loaded for help

        self._client, self._model = client, model
        self._in_flight = asyncio.Semaphore(_IN_FLIGHT)
        self.context_length: int | None = None

    async def start(self) -> None:
        """Whether the server is vLLM and serves this model, and how many tokens that reads."""
        models = await self._client.models()
        ours = next((model for model in models if model.get("id") == self._model), None)
        if ours is None:
            offered = ", ".join(repr(model.get("id")) for model in models) or "nothing"
            raise UsageError(f"The server does not serve {self._model!r}, but {offered}.")
        if ours.get("owned_by") != "vllm":
            raise UsageError(
                "Ranking needs the log-probabilities of given tokens, which only vLLM's server returns. Use "
                "--engine vllm or --engine transformers."
            )
        length = ours.get("max_model_len")
        if isinstance(length, int):
            self.context_length = length - 1  # vLLM must be asked for one new token

    async def score(
        self, contexts: Sequence[Sequence[int]], candidates: Sequence[Sequence[Sequence[int]]]
    ) -> list[list[list[float]]]:
        """See `Scorer`."""
        import asyncio

        pairs = {
            (tuple(context), tuple(candidate))
            for context, row in zip(contexts, candidates, strict=True)
            for candidate in row
        }
        tasks = {pair: asyncio.create_task(self._ask(*pair)) for pair in sorted(pairs)}
        try:
            await asyncio.gather(*tasks.values())
        finally:
            for task in tasks.values():  # when one has failed, the others are not awaited
                task.cancel()
        return [
            [tasks[tuple(context), tuple(candidate)].result() for candidate in row]
            for context, row in zip(contexts, candidates, strict=True)
        ]

    async def close(self) -> None:
        """Close the client and its connections."""
        await self._client.close()

    async def _ask(self, context: tuple[int, ...], candidate: tuple[int, ...]) -> list[float]:
        from sweet_rl.openai_client import RequestFailed

        ids = [*context, *candidate]
        body = {
            "model": self._model,
            "prompt": ids,
            "max_tokens": 1,
            "temperature": 1.0,
            "prompt_logprobs": 0,
        }
        async with self._in_flight:
            try:
                (choice, *_) = await self._client.complete(body)
            except RequestFailed as error:
                failure = error.failure
                raise ServiceError(
                    f"The server did not score a candidate ({failure.kind}: {failure.detail}). What had "
                    "finished is on disk: --to_continue resumes from there."
                ) from error
        positions: Json = choice.get("prompt_logprobs")  # of the first token there is none
        try:
            found = [
                float(entry[str(token)]["logprob"])
                for entry, token in zip(positions[1:], ids[1:], strict=True)
            ]
        except (TypeError, ValueError, LookupError) as error:
            raise ServiceError(
                "The server's reply lacks the log-probabilities of the prompt's tokens (prompt_logprobs). Use a "
                "current vLLM, or --engine transformers."
            ) from error
        return found[len(context) - 1 :]


SWAPPED = "judge_result_swapped"
"""Field of a row: the candidates' scores with another task's solution."""

_EQUAL = 1e-6
"""Difference of the scores of equals in different batches, at most."""


def with_others_solutions(rows: Sequence[Candidates]) -> list[Candidates]:
    """The same turns, each with the hidden solution of another task.

    One without a line of the task's own, but for lines that all have; where there is none, any other.
    """
    solutions = {row.key[0]: row.ground_truth for row in rows}
    lines = {solution: frozenset(solution.splitlines()) for solution in solutions.values()}
    of_all = frozenset.intersection(*lines.values()) if lines else frozenset()

    def apart(own: str, other: str) -> bool:
        return own != other and lines[own] & lines[other] <= of_all

    texts = list(solutions.values())
    places = (
        far if texts[far] != text else near
        for text, far, near in zip(texts, other_places(texts, apart), other_places(texts), strict=True)
    )
    given = {task: texts[place] for task, place in zip(solutions, places, strict=True)}
    if any(given[task] == own for task, own in solutions.items()):
        raise UsageError(
            "--swap_test needs turns of tasks with different hidden solutions; here all are the same."
        )
    return [replace(row, ground_truth=given[row.key[0]]) for row in rows]


class Moved(NamedTuple):
    """How far values move with another input, within `groups` of at least two that are compared.

    `correlation` is of both values within groups: 1 where the input is not read, None where all are equal.
    `best` is the share of groups in which another one is best then.
    """

    groups: int
    correlation: float | None
    best: float


def moved(groups: Iterable[tuple[Sequence[float], Sequence[float]]]) -> Moved | None:
    """How far the values of groups move from their own input to another; None where no group has two of them."""
    own_all, other_all, changed = list[float](), list[float](), list[bool]()
    for own, other in groups:
        if len(own) < 2:
            continue
        best = max(range(len(own)), key=own.__getitem__)
        changed.append(max(other) - other[best] > _EQUAL)
        own_all += [value - fmean(own) for value in own]
        other_all += [value - fmean(other) for value in other]
    if not changed:
        return None
    spread = sqrt(fsum(value * value for value in own_all) * fsum(value * value for value in other_all))
    products = fsum(own * other for own, other in zip(own_all, other_all, strict=True))
    return Moved(len(changed), products / spread if spread else None, fmean(changed))


def moved_scores(rows: Iterable[Mapping[str, Json]]) -> Moved | None:
    """The same for the candidates of ranked turns that were scored with another task's solution as well."""

    def both(row: Mapping[str, Json]) -> tuple[list[float], list[float]]:
        pairs = [pair for pair in zip(row["judge_result"], row[SWAPPED], strict=True) if None not in pair]
        return [own for own, _ in pairs], [other for _, other in pairs]

    return moved(map(both, rows))


def said_of_scores(found: Moved) -> str:
    """That, for people."""
    how = "no correlation" if found.correlation is None else f"a correlation of {found.correlation:.4f}"
    return (
        f"Swap test: with another task's solution the scores of a turn's candidates have {how} with the "
        "right ones (1: the critic does not read the solution), and another candidate is best in "
        f"{found.best:.1%} of {found.groups} turns."
    )


Turns: TypeAlias = tuple[tuple[int, ...], list[tuple[int, ...]]]
"""A context and what may follow it, as token ids."""
Scores: TypeAlias = list[list[float]]
"""The log-probability of every token of every turn."""
TURNS_AT_ONCE = 32
"""Contexts that are scored together before other calls are looked at."""


class SamplingPolicy(Policy, Sampler, Protocol):
    """An agent with a model behind it."""


class BestOfN:
    """Takes the best of `n` turns of another agent, by a critic. With `n` 1 it is that agent, turn for turn.

    What a critic is worth, whatever becomes of the policy that is trained by it (SWEET-RL, arXiv 2503.15478,
    test-time scaling). A score is the critic's mean log-probability of a turn's tokens minus the sampler's own,
    as in `rank_best_of_n`; a critic with a regression head gives its value.

    Args:
        policy: whose turns they are; closed with this one.
        critic: scores in this process (`sweet_rl.training.scoring.CandidateScorer`).
        tokenizer: digest of the sampler's tokenizer; token ids of the same one are scored as they are.
        solutions: for a critic that is given the hidden solution, that of each task by its name. What such a
            critic reaches is an upper line, not an agent: nobody has the solution at test time.
    """

    def __init__(
        self,
        policy: SamplingPolicy,
        critic: Any,
        encoding: Encoding,
        *,
        tokenizer: str | None,
        n: int,
        solutions: Mapping[str, str] | None = None,
        seed: int = 0,
    ) -> None:
        from sweet_rl.batching import MicroBatcher  # with asyncio, which is not loaded for help

        self.name = policy.name
        self.policy, self._critic, self._encoding = policy, critic, encoding
        self._same_tokenizer = tokenizer is not None and tokenizer == encoding.digest
        self._n, self._solutions, self._seed = n, solutions, seed
        self._batches: MicroBatcher[Turns, Scores] = MicroBatcher(self._scored, max_batch=8 * TURNS_AT_ONCE)

    async def act(self, observation: Observation) -> Generation:
        """The best of `n` turns; the first of them where several are."""
        first = await self.policy.act(observation)
        if self._n == 1:
            return first
        seed = derive_seed(self._seed, observation.seed, observation.turn)
        (others,) = await self.policy.sample([first.input], self._n - 1, seeds=[seed])
        completions = [first.completion, *others]
        scores = await self._scores(observation.task_id, first.input, completions)
        best = max(range(self._n), key=scores.__getitem__)
        about = (first.reflection, first.reflection_input, first.failures)
        return Generation(first.input, completions[best], *about)

    async def close(self) -> None:
        """Stop scoring, and close the agent."""
        await self._batches.close()
        await self.policy.close()

    async def _scores(self, task_id: str, prompt: str, completions: Sequence[Completion]) -> list[float]:
        """One for each; the least there is for a turn without tokens, or too long for the critic."""
        text = prompt if self._solutions is None else with_solution(prompt, self._solutions[task_id])
        context = tuple(self._encoding.encode(text))
        candidates = [Candidate.of(completion.text, completion) for completion in completions]
        tokens = [own_tokens(candidate, self._encoding, self._same_tokenizer) for candidate in candidates]
        room = (self._critic.context_length or math.inf) - len(context)
        places = [place for place, ids in enumerate(tokens) if 0 < len(ids) <= room]
        scores = [-math.inf] * len(completions)
        if places:
            found = await self._batches.submit((context, [tokens[place] for place in places]))
            for place, values in zip(places, found, strict=True):
                sampled = candidates[place].mean
                if self._critic.has_value_head:
                    scores[place] = values[0]
                elif sampled is None:
                    raise UsageError(
                        f"{self.name} gives no log-probabilities, which a critic's are compared with. Use --agent "
                        "transformers or vllm, or a vLLM server by its completions."
                    )
                else:
                    scores[place] = math.fsum(values) / len(values) - sampled
        return scores

    def _scored(self, batch: Sequence[Turns]) -> Generator[Sequence[tuple[int, Scores]], None, None]:
        # like lengths together, so that little is padded
        order = sorted(range(len(batch)), key=lambda place: len(batch[place][0]))
        for start in range(0, len(order), TURNS_AT_ONCE):
            places = order[start : start + TURNS_AT_ONCE]
            scored = self._critic.score([batch[i][0] for i in places], [batch[i][1] for i in places])
            yield list(zip(places, scored, strict=True))
