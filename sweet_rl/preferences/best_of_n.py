"""An agent that samples several turns and takes the one that a critic scores highest.

What a critic is worth, whatever becomes of the policy that is trained by it (SWEET-RL, arXiv 2503.15478,
test-time scaling). A score is the critic's mean log-probability of a turn's tokens minus the sampler's own,
as in `rank_best_of_n`; a critic with a regression head gives its value.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Protocol, TypeAlias

from sweet_rl.batching import MicroBatcher
from sweet_rl.contracts import Policy, Sampler
from sweet_rl.errors import UsageError
from sweet_rl.preferences.candidates import Candidate
from sweet_rl.preferences.ranking import Encoding, own_tokens
from sweet_rl.preferences.trajectory_pairs import with_solution
from sweet_rl.types import Completion, Generation, Observation, derive_seed

Turns: TypeAlias = tuple[tuple[int, ...], list[tuple[int, ...]]]
"""A context and what may follow it, as token ids."""
Scores: TypeAlias = list[list[float]]
"""The log-probability of every token of every turn."""

TURNS_AT_ONCE = 32
"""Contexts that are scored together before other calls are looked at."""


class SamplingPolicy(Policy, Sampler, Protocol):
    """An agent with a model behind it."""


class Critic(Protocol):
    """A model that scores, in this process (`sweet_rl.training.scoring.CandidateScorer`)."""

    has_value_head: bool
    context_length: int | None

    def score(
        self, contexts: Sequence[Sequence[int]], candidates: Sequence[Sequence[Sequence[int]]]
    ) -> list[Scores]:
        """Log-probabilities of the tokens of candidates after their contexts, natural."""


class BestOfN:
    """Takes the best of `n` turns of another agent. With `n` 1 it is that agent, turn for turn.

    Args:
        policy: whose turns they are; closed with this one.
        tokenizer: digest of the sampler's tokenizer; token ids of the same one are scored as they are.
        solutions: for a critic that is given the hidden solution, that of each task by its name. What such a
            critic reaches is an upper line, not an agent: nobody has the solution at test time.
    """

    def __init__(
        self,
        policy: SamplingPolicy,
        critic: Critic,
        encoding: Encoding,
        *,
        tokenizer: str | None,
        n: int,
        solutions: Mapping[str, str] | None = None,
        seed: int = 0,
    ) -> None:
        self.name = policy.name
        self.policy, self._critic, self._encoding = policy, critic, encoding
        self._same_tokenizer = tokenizer is not None and tokenizer == encoding.digest
        self._n, self._solutions, self._seed = n, solutions, seed
        self._batches = MicroBatcher(_engine(critic.score), max_batch=8 * TURNS_AT_ONCE)

    async def act(self, observation: Observation) -> Generation:
        """The best of `n` turns; the first of them where several are."""
        first = await self.policy.act(observation)
        if self._n == 1:
            return first
        seed = derive_seed(self._seed, observation.seed, observation.turn)
        (others,) = await self.policy.sample([first.input], self._n - 1, seeds=[seed])
        completions = [first.completion, *others]
        scores = await self._scores(observation.task_id, first.input, completions)
        best = max(range(self._n), key=lambda place: scores[place])
        return Generation(
            first.input, completions[best], first.reflection, first.reflection_input, first.failures
        )

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
        room = (self._critic.context_length or float("inf")) - len(context)
        places = [place for place, ids in enumerate(tokens) if 0 < len(ids) <= room]
        scores = [float("-inf")] * len(completions)
        if places:
            found = await self._batches.submit((context, [tokens[place] for place in places]))
            for place, values in zip(places, found, strict=True):
                scores[place] = self._score(candidates[place], values)
        return scores

    def _score(self, candidate: Candidate, values: Sequence[float]) -> float:
        if self._critic.has_value_head:
            return values[0]
        if candidate.mean is None:
            raise UsageError(
                f"{self.name} gives no log-probabilities, which a critic's are compared with. Use --agent "
                "transformers or vllm, or a vLLM server by its completions."
            )
        return math.fsum(values) / len(values) - candidate.mean


def _engine(
    score: Callable[[Sequence[Sequence[int]], Sequence[Sequence[Sequence[int]]]], list[Scores]],
) -> Callable[[Sequence[Turns]], Generator[Sequence[tuple[int, Scores]], None, None]]:
    def work(batch: Sequence[Turns]) -> Generator[Sequence[tuple[int, Scores]], None, None]:
        # like lengths together, so that little is padded
        order = sorted(range(len(batch)), key=lambda place: len(batch[place][0]))
        for start in range(0, len(order), TURNS_AT_ONCE):
            places = order[start : start + TURNS_AT_ONCE]
            scored = score([batch[i][0] for i in places], [batch[i][1] for i in places])
            yield list(zip(places, scored, strict=True))

    return work
