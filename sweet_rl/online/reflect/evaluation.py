"""Evaluation of checkpoints by sampled episodes, level by level.

Published behaviour: docs/published/reflect_rl.md#evaluation.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean

from sweet_rl.contracts import Policy
from sweet_rl.errors import EpisodeError
from sweet_rl.online.reflect.loop import play_shared, rules_of
from sweet_rl.online.reflect.play import Actor, Played, Reflector, Step, told_of
from sweet_rl.online.reflect.playground import Playground
from sweet_rl.online.reflect.settings import ReflectSettings
from sweet_rl.statistics import share_over_tasks
from sweet_rl.text_game import TextGame
from sweet_rl.types import Json, Message, Observation, Task, derive_seed
from sweet_rl.worlds import AgentRequest

Plays = Callable[[Sequence[Task], Sequence[int]], list[Played]]
"""One episode of each task, with its seed."""


def scripted(settings: ReflectSettings, ground: Playground, name: str) -> Plays:
    """How an agent of the world plays: one of its own, by name."""
    tasks = [task for level in ground.levels for task in level]
    wanted = AgentRequest(name=name, tasks=tasks, options=settings.rules, seed=settings.seed)

    async def episodes(tasks: Sequence[Task], seeds: Sequence[int]) -> list[Played]:
        agent = await settings.world.make_agent(wanted)
        try:
            return [
                await _episode(ground.make_game(), task, seed, agent)
                for task, seed in zip(tasks, seeds, strict=True)
            ]
        finally:
            await agent.close()

    return lambda tasks, seeds: asyncio.run(episodes(tasks, seeds))


async def _episode(game: TextGame, task: Task, seed: int, agent: Policy) -> Played:
    steps: list[Step] = []
    messages: tuple[Message, ...] = ()
    threshold, failure, told, over = 0.0, None, None, False
    try:
        text = game.reset(task, seed=seed)
        threshold = game.success_threshold
        while not over:
            messages = (*messages, Message("user", text))
            shown: Observation | None = getattr(game, "observation", None)  # of worlds that are no text games
            said = (await agent.act(shown or Observation(task.task_id, messages, seed))).completion.text
            moved = game.step(said)
            told = told_of(moved)
            steps.append(Step(text, said, (), 0.0, 0.0, moved.cost))
            messages = (*messages, Message("assistant", said))
            text, over = moved.text, moved.over
    except EpisodeError as error:
        failure = str(error)
    finally:
        game.close()
    return Played(task.task_id, seed, threshold, tuple(steps), failure, told)


@dataclass(frozen=True, slots=True)
class LevelResult:
    """The outcomes of a level's episodes; those that the world broke are counted apart.

    `low` and `high` bound the success rate with 95 % confidence (Wilson, over tasks). Where the world broke
    all, nothing was measured: None.
    """

    level: str
    episodes: int
    failed: int
    cost: float | None
    success: float | None
    low: float
    high: float
    steps: float | None
    why: str | None = None
    """What broke the first one that failed."""

    def row(self) -> dict[str, Json]:
        """The result as a JSON object, one key for each field."""
        return asdict(self)

    def line(self) -> str:
        """The result on one line for people: success with its interval, cost, steps, episodes."""
        failed = f", {self.failed} failed (the first: {self.why})" if self.failed else ""
        if self.success is None:
            return f"{self.level}: not measured{failed}"
        return (
            f"{self.level}: success {self.success:.2%} (95 % interval {self.low:.1%} to {self.high:.1%}), "
            f"cost {self.cost:.2f}, {self.steps:.1f} steps, {self.episodes} episodes{failed}"
        )


def measure(
    settings: ReflectSettings,
    ground: Playground,
    actor: Actor | Plays,
    reflector: Reflector | None,
    tell: Callable[[int], object] = lambda _: None,
) -> list[LevelResult]:
    """Play every level's tasks `eval_reps` times.

    Seeds depend on the level, the task and the repetition only, so every checkpoint plays the same games.
    """

    def play(tasks: Sequence[Task], seeds: Sequence[int]) -> list[Played]:
        if not callable(actor):
            rules, at_once = rules_of(settings), settings.per_device_eval_batch_size
            return play_shared(ground, tasks, seeds, actor, reflector, rules, at_once=at_once, tell=tell)
        played = actor(tasks, seeds)
        tell(len(played))
        return played

    results = []
    for name, tasks in zip(ground.names, ground.levels, strict=True):
        turns = [(place, again) for again in range(settings.eval_reps) for place in range(len(tasks))]
        seeds = [derive_seed(settings.seed, "evaluate", name, place, again) for place, again in turns]
        results.append(summary(name, play([tasks[place] for place, _ in turns], seeds)))
    return results


def summary(level: str, played: Sequence[Played]) -> LevelResult:
    """The numbers of one level: means over episodes that the world did not break."""
    whole = [episode for episode in played if episode.failure is None]
    tasks: dict[str, list[float]] = {}
    for episode in whole:
        tasks.setdefault(episode.task_id, []).append(float(episode.succeeded))
    success = share_over_tasks([*tasks.values()])
    return LevelResult(
        level=level,
        episodes=len(whole),
        failed=len(played) - len(whole),
        cost=fmean(episode.cost for episode in whole) if whole else None,
        success=fmean(episode.succeeded for episode in whole) if whole else None,
        low=success.low,
        high=success.high,
        steps=fmean(len(episode.steps) for episode in whole) if whole else None,
        why=next((episode.failure for episode in played if episode.failure is not None), None),
    )
