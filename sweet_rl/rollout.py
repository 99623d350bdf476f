"""The rollout loop: many episodes at once, each at its own pace.

It joins a policy and a world, and knows neither. An episode never waits for another one; when it is over, its
trajectory is handed to `on_finished`, and only when that returns (the row is on disk) does its place go to
the next episode.

Published behaviour: docs/published/sweet_rl.md#row-order.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from sweet_rl import tracking
from sweet_rl.concurrency import for_each
from sweet_rl.contracts import Env, Policy
from sweet_rl.errors import EpisodeError, ServiceError
from sweet_rl.thoughts import Spoken, split_thoughts
from sweet_rl.types import (
    NO_ANSWER,
    AgentTurn,
    Failure,
    Generation,
    Json,
    Message,
    Observation,
    StopReason,
    Task,
    Trajectory,
    derive_seed,
)


@dataclass(frozen=True, slots=True)
class Episode:
    """One episode to be played: repeat `sample_index` of a task, with a seed of its own.

    Attributes:
        draws: the seed of the agent's draws; None: the episode's own, which is also the world's.
        said: the agent's first turns, which are taken as they are before the agent is asked.
    """

    task: Task
    sample_index: int
    seed: int
    draws: int | None = None
    said: tuple[Generation, ...] = ()


@dataclass(slots=True)
class RolloutStats:
    """Running totals, for a progress bar and for the last line of a run."""

    episodes: int = 0
    turns: int = 0
    tokens: int = 0
    failures: int = 0
    thoughts: int = 0
    """Characters of what thinking models thought."""


def schedule(tasks: Iterable[Task], samples: int, *, seed: int = 0) -> list[Episode]:
    """All episodes in the published row order: row `j * num_tasks + i` is repeat j of task i."""
    tasks = list(tasks)
    return [
        Episode(task, sample, derive_seed(seed, task.task_id, sample))
        for sample in range(samples)
        for task in tasks
    ]


async def rollout(
    episodes: Iterable[Episode],
    *,
    make_env: Callable[[], Env],
    policy: Policy,
    on_finished: Callable[[Trajectory], Awaitable[None]],
    concurrency: int,
    provenance: Mapping[str, Json] | None = None,
    stats: RolloutStats | None = None,
    on_progress: Callable[[], None] = lambda: None,
) -> RolloutStats:
    """Play all episodes in their order, `concurrency` of them at a time, each in a fresh world of `make_env`.

    Args:
        on_finished: receives each trajectory as soon as it is over.
        provenance: written into every trajectory.
        stats: counted up as the run goes, so that a progress bar can read it.
        on_progress: called after every turn and every episode.

    Raises:
        SweetRLError: the run cannot continue (a dead server, a full disk). What is in flight is
            dropped; episodes that had finished were handed over before.
    """
    import asyncio  # which is not loaded for help

    stats = stats if stats is not None else RolloutStats()
    in_flight = too_long = 0
    news = asyncio.Condition()

    async def play_on(episode: Episode) -> None:
        nonlocal in_flight, too_long
        in_flight += 1
        trajectory = await play(episode, make_env(), policy, provenance or {}, stats, on_progress)
        await asyncio.sleep(0)  # the others have begun
        async with news:
            if trajectory.stop_reason is StopReason.CONTEXT_FULL and not (stats.turns or stats.episodes):
                # no agent has spoken yet: is it the task that is too long, or any?
                too_long += 1
                news.notify_all()
                await news.wait_for(lambda: stats.turns or stats.episodes or too_long == in_flight)
                if not (stats.turns or stats.episodes):
                    raise ServiceError(
                        f"The first turn of no episode fits into the agent's context ({trajectory.error}). "
                        "Choose a larger context or a smaller --max_tokens, if they count in it; nothing was written."
                    )
            in_flight -= 1
            news.notify_all()
        await on_finished(trajectory)
        stats.episodes += 1
        on_progress()

    await for_each(episodes, play_on, at_once=concurrency)
    return stats


async def play(
    episode: Episode,
    env: Env,
    policy: Policy,
    provenance: Mapping[str, Json],
    stats: RolloutStats,
    on_progress: Callable[[], None] = lambda: None,
) -> Trajectory:
    """Play one episode to its end. Failures in it are part of the trajectory, not exceptions.

    Raises:
        SweetRLError: the run cannot continue (see `rollout`).
    """
    live = LiveEpisode(episode, env, provenance, stats)
    try:
        observation, said = await live.begin(), list(episode.said)
        while observation is not None:
            if said:
                observation = await live.take(said.pop(0))
                continue
            if episode.draws is not None:
                observation = replace(observation, seed=episode.draws)
            try:
                generation = await policy.act(observation)
            except EpisodeError as error:
                live.fail(error)
                break
            stats.turns += 1
            stats.tokens += len(generation.completion.token_ids or ())
            on_progress()
            observation = await live.take(generation)
    finally:
        await env.close()
    return live.trajectory


class LiveEpisode:
    """An episode while it is played: what was said so far, turn by turn, from whomever the turns come.

    `play` takes them from a policy. Its owner closes the environment. `stats` has its failures and thoughts counted up.
    """

    def __init__(
        self, episode: Episode, env: Env, provenance: Mapping[str, Json], stats: RolloutStats | None = None
    ) -> None:
        run = tracking.current().id
        self._episode, self._env = episode, env
        self._stats = stats if stats is not None else RolloutStats()
        self._history: list[Message] = []
        self._failures: list[Failure] = []
        self._info: dict[str, Json] = {}
        self._observation: Observation | None = None
        made_by = {**provenance, **({} if run is None else {"run": run}), "seed": episode.seed}
        if episode.draws is not None:
            made_by["draws"] = episode.draws
        self._ended = Trajectory(
            episode.task, (), NO_ANSWER, sample_index=episode.sample_index, provenance=made_by
        )

    @property
    def trajectory(self) -> Trajectory:
        """The episode as far as it was played."""
        return replace(
            self._ended,
            dialogue_history=tuple(self._history),
            failures=tuple(self._failures),
            extra=self._info,
        )

    async def begin(self) -> Observation | None:
        """What the agent sees first; None where the world cannot begin."""
        try:
            self._observation = await self._env.reset(self._episode.task, seed=self._episode.seed)
        except EpisodeError as error:
            self.fail(error)
            return None
        self._history.extend(self._observation.messages)
        return self._observation

    async def take(self, generation: Generation) -> Observation | None:
        """The agent's turn; what it sees next, None when the episode is over."""
        history, completion = self._history, generation.completion
        self._note(_of_turn(generation.failures, history))
        text, inside = split_thoughts(completion.text, generation.input)  # by tags, or by its server
        parts = [part for part in (completion.thoughts, inside) if part is not None]
        spoken = Spoken(text, "\n\n".join(parts) if parts else None)
        self._stats.thoughts += len(spoken.thoughts or "")
        history.append(_agent_turn(generation, spoken, content=spoken.text, output=spoken.text))
        try:
            step = await self._env.step(spoken.text)
        except EpisodeError as error:
            self.fail(error)
            return None
        history[-1] = _agent_turn(
            generation, spoken, content=step.content, output=step.output, reward=step.reward
        )
        self._note(step.failures)
        self._info.update(step.info)
        if step.observation is not None:
            self._observation = step.observation
            history.append(step.observation.messages[-1])
        if step.over:
            rewards = [one.reward for one in history if isinstance(one, AgentTurn) and one.reward is not None]
            reward = sum(rewards) if rewards else None  # a world may give none
            self._ended = replace(
                self._ended, answer=step.answer, stop_reason=step.stop_reason, reward=reward
            )
            return None
        return self._observation

    def fail(self, error: EpisodeError) -> None:
        """End the episode: it cannot continue."""
        self._stats.failures += 1
        if not self._history:  # the world could not begin: what was asked is all there is
            self._history = [Message("user", self._episode.task.problem_description)]
        (failure,) = _of_turn([error.failure], self._history)
        self._ended = replace(self._ended, stop_reason=error.stop_reason, error=failure)

    def _note(self, failures: Sequence[Failure]) -> None:
        self._failures.extend(failures)
        self._stats.failures += len(failures)


def _agent_turn(
    generation: Generation, spoken: Spoken, *, content: str, output: str, reward: float | None = None
) -> AgentTurn:
    """The history entry of one generation. Token ids are kept only while they spell the kept text."""
    completion = generation.completion
    whole = output == spoken.text
    return AgentTurn(
        role="assistant",
        content=content,
        input=generation.input,
        output=completion.text if whole else output,
        token_ids=completion.token_ids if whole else None,
        logprobs=completion.logprobs if whole else None,
        finish_reason=completion.finish_reason,
        reward=reward,
        reflection=generation.reflection,
        reflection_input=generation.reflection_input,
        thoughts=spoken.thoughts,
    )


def _of_turn(failures: Sequence[Failure], history: Sequence[Message]) -> list[Failure]:
    """The failures with the number of the turn that is about to be taken."""
    turn = sum(isinstance(entry, AgentTurn) for entry in history)
    return [replace(failure, turn=turn) if failure.turn is None else failure for failure in failures]
