"""Rollout policies of the learners: the `Policy` contract over the model in training.

Calls that wait together become one batch. What a turn says depends on the player's seed, the episode's and
the turn's number, whichever turns share its batch. Importing this module imports torch.

Published behaviour: docs/published/archer.md#policy, #online-chai.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import NamedTuple

import torch

from sweet_rl import tracking
from sweet_rl.batching import MicroBatcher
from sweet_rl.chat import ChatFormat
from sweet_rl.errors import ServiceError
from sweet_rl.online.actor import TokenPolicy, Utterance
from sweet_rl.online.critic import DoubleCritic
from sweet_rl.online.critic_updates import best_places
from sweet_rl.types import Completion, FinishReason, Generation, Observation, derive_seed

MAX_TURNS = 256
"""Turns that wait together and become one batch at most; the policy cuts it by tokens."""


class Ask(NamedTuple):
    """One turn to take: the rendered dialogue, and its seed."""

    observation: str
    seed: int


Engine = Callable[[Sequence[Ask]], Generator[Sequence[tuple[int, Utterance]], None, None]]
"""Takes turns, and gives each as soon as it is known, by its place among those asked for."""


class Player:
    """A policy as the rollout loop wants it.

    Args:
        prompt_of: the text that the model was given for an observation, which is recorded.
        count: the tokens of an observation as the model is given it; None where that is unknown.
    """

    def __init__(
        self,
        name: str,
        engine: Engine,
        chat_format: ChatFormat,
        prompt_of: Callable[[str], str],
        seed: int = 0,
        count: Callable[[str], int] | None = None,
    ) -> None:
        self.name = name
        self._usage, self._tokens_of = tracking.meter(name, "agent"), count
        self._format, self._prompt_of, self._seed = chat_format, prompt_of, seed
        self._batcher: MicroBatcher[Ask, Utterance] = MicroBatcher(_guarded(engine), max_batch=MAX_TURNS)

    async def act(self, observation: Observation) -> Generation:
        """One turn."""
        text = self._format.render(observation.messages)
        seed = derive_seed(self._seed, observation.seed, observation.turn)
        self._usage.requests += 1
        utterance = await self._batcher.submit(Ask(text, seed))
        self._usage.add(self._tokens_of(text) if self._tokens_of else None, len(utterance.token_ids) or None)
        reason = FinishReason.STOP if utterance.finished else FinishReason.LENGTH
        completion = Completion(utterance.text, utterance.token_ids, utterance.logprobs, reason)
        if not utterance.logprobs:
            completion = Completion(utterance.text, None, None, reason)
        return Generation(self._prompt_of(text), completion)

    async def close(self) -> None:
        """Stop taking turns. The model stays with its learner."""
        await self._batcher.close()


def sampling(policy: TokenPolicy, *, greedy: bool) -> Engine:
    """Turns as the policy samples them, or its likeliest tokens."""

    def engine(asks: Sequence[Ask]) -> Generator[Sequence[tuple[int, Utterance]], None, None]:
        yield from policy.write([policy.request(ask.observation, ask.seed, greedy=greedy) for ask in asks])

    return engine


def reranking(policy: TokenPolicy, target: DoubleCritic, *, candidates: int, greedy: bool) -> Engine:
    """Of several utterances the one that the target critic likes best (Online CHAI)."""

    def engine(asks: Sequence[Ask]) -> Generator[Sequence[tuple[int, Utterance]], None, None]:
        proposed = proposals(policy, asks, candidates=candidates, greedy=greedy)
        yield list(enumerate(choose(target, asks, proposed, 4 * policy.max_tokens_per_batch)))

    return engine


def proposals(
    policy: TokenPolicy, asks: Sequence[Ask], *, candidates: int, greedy: bool
) -> list[list[Utterance]]:
    """Candidates for each turn; the likeliest tokens are the same each time, so there is one of those."""
    count = 1 if greedy else candidates
    flat = policy.sample(
        [ask.observation for ask in asks for _ in range(count)],
        [derive_seed(ask.seed, number) if count > 1 else ask.seed for ask in asks for number in range(count)],
        greedy=greedy,
    )
    return [flat[start : start + count] for start in range(0, len(flat), count)]


@torch.no_grad()
def choose(
    target: DoubleCritic, asks: Sequence[Ask], proposed: Sequence[Sequence[Utterance]], max_tokens: int
) -> list[Utterance]:
    """For each turn the candidate with the largest min(Q1, Q2); the first of equals."""
    owners = [number for number, utterances in enumerate(proposed) for _ in utterances]
    flat = [utterance for utterances in proposed for utterance in utterances]
    values = target.read(
        [asks[number].observation for number in owners], [utterance.text for utterance in flat], max_tokens
    )
    return [flat[place] for place in best_places(torch.minimum(values.q1_B, values.q2_B), owners)]


def _guarded(engine: Engine) -> Engine:
    """The engine with memory trouble turned into words."""

    def guarded(asks: Sequence[Ask]) -> Generator[Sequence[tuple[int, Utterance]], None, None]:
        try:
            yield from engine(asks)
        except torch.OutOfMemoryError as error:
            raise ServiceError(
                f"Out of GPU memory with {len(asks)} turns waiting. Lower max_tokens_per_batch, and continue."
            ) from error

    return guarded
