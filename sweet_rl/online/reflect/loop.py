"""The online loop: play, store, learn from new and replayed episodes; and the evaluation of checkpoints by episodes.

Processes divide the episodes of an iteration, then know them all, and make the same updates. Each random choice is made from the
run's seed and the number of what it is for, so a run that was stopped and continued is the run that was not.

Published behaviour: docs/published/reflect_rl.md#online-loop, #evaluation.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import torch.distributed as dist

from sweet_rl.contracts import Policy
from sweet_rl.errors import ServiceError
from sweet_rl.online.reflect.models import Checkpoints
from sweet_rl.online.reflect.play import (
    Actor,
    Chosen,
    Played,
    Playground,
    Playing,
    Reflector,
    Rules,
    Schedule,
    play,
)
from sweet_rl.online.reflect.settings import ReflectSettings
from sweet_rl.online.reflect.trainer import Trainer, episode_of
from sweet_rl.online.replay import Successes
from sweet_rl.statistics import share_over_tasks
from sweet_rl.text_game import TextGame
from sweet_rl.training.processes import is_main, own_rows, world_size
from sweet_rl.types import Json, Message, Observation, Task, derive_seed
from sweet_rl.worlds import AgentRequest

# One iteration in logs.json. Where the world broke episodes, `failed` has their tasks and what happened;
# these are in no other number, and nothing is learned from them.
Entry = dict[str, Json]


class Loop:
    """A run: its players, what learns, its world, its folder."""

    def __init__(
        self, settings: ReflectSettings, trainer: Trainer, reflector: Reflector | None, ground: Playground,
        checkpoints: Checkpoints | None, log: Callable[[int, Entry], object] = lambda _done, _entry: None,
    ) -> None:  # fmt: skip
        self._settings, self._trainer, self._reflector = settings, trainer, reflector
        self._ground, self._checkpoints, self._log = ground, checkpoints, log
        self._replay: Successes[Played] = Successes(maxlen=settings.replay_buffer_size)
        how: Any = {
            "batch": settings.per_device_eval_batch_size,
            "seed": settings.seed,
            "compat": settings.compat,
        }
        self._schedule = Schedule([len(level) for level in ground.levels], ground.starts, **how)
        self._logs: list[Entry] = []

    def run(self, state: Any = None) -> None:
        """Play and learn until all iterations are done."""
        done = 0
        if state is not None:
            self._trainer.load(state["trainer"])
            self._replay.extend(map(episode_of, state["replay"]))
            self._schedule.place = dict(state["place"])
            self._logs = list(state["logs"])
            done = int(state["done"])
        for iteration in range(done, self._settings.max_steps):
            entry, done = self._iterate(iteration), iteration + 1
            self._log(done, entry)
            self._logs.append(entry)
            if done % self._settings.save_steps and done != self._settings.max_steps:
                continue
            logs, self._logs = self._logs, []  # published: a checkpoint has the logs since the one before
            if self._checkpoints is not None:
                critic, ground = self._trainer.critic, self._ground
                levels = dict(zip(ground.names, ground.starts, strict=True))
                self._checkpoints.save(
                    done, self._trainer.agent, self.state(done), summary={"iterations": done, "levels": levels},
                    logs=logs, critic=critic.head if critic else None,
                )  # fmt: skip

    def _iterate(self, iteration: int) -> Entry:
        settings = self._settings
        begins, level, items = self._schedule.draw(iteration)
        if begins:
            self._replay.clear()
        tasks = [self._ground.levels[level][item] for item in items]
        seeds = [derive_seed(settings.seed, "episode", iteration, number) for number in range(len(items))]
        self._trainer.keep_play()
        played = play_shared(settings, self._ground, tasks, seeds, self._trainer.agent, self._reflector)
        whole = [episode for episode in played if episode.failure is None and episode.steps]
        if not whole:
            why = played[0].failure if played else "there is none"
            raise ServiceError(f"Every episode of iteration {iteration + 1} failed. The first: {why}")
        rows = [self._trainer.rows(episode) for episode in whole]
        costs = [episode.cost for episode in whole]
        succeeded = [episode for episode in whole if episode.succeeded]
        if settings.published:  # by what the first step is worth, the bonus for entropy included
            costs = [its[0].q for its in rows]
            succeeded = [one for one, cost in zip(whole, costs, strict=True) if cost < one.threshold]
        self._replay.extend(succeeded)
        fresh = self._trainer.train(whole)
        rng = random.Random(derive_seed(settings.seed, "replay", iteration))
        again = self._trainer.train(self._replay.sample(settings.per_device_train_batch_size, rng))
        entry: Entry = {
            "iter": iteration,
            "loss": [fresh.loss, again.loss],
            "critic_loss": [fresh.critic_loss, again.critic_loss],
            "cost": fmean(costs),
            "succ": len(succeeded) / len(whole),
            "log": [
                {
                    "batch": number,
                    "detail": [
                        {
                            "step": at, "Q_value": q, "prob": math.exp(step.logprob), "entropy": step.entropy,
                            "cost": step.cost, "prompt": step.prompt,
                            "generation": {"role": "assistant", "content": step.action},
                        }
                        for at, (step, q) in enumerate(its)
                    ],
                }
                for number, its in enumerate(rows)
            ],
        }  # fmt: skip
        failed = [f"{one.task_id}: {one.failure}" for one in played if one.failure is not None]
        return entry | ({"failed": failed} if failed else {})

    def state(self, done: int) -> dict[str, Any]:
        """All that later iterations depend on, for an exact continuation."""
        replay, trainer = list(self._replay), self._trainer.state()
        of_the_loop = {"replay": replay, "place": self._schedule.place, "logs": self._logs}
        return {"done": done, "trainer": trainer, **of_the_loop}


def play_shared(
    settings: ReflectSettings, ground: Playground, tasks: Sequence[Task], seeds: Sequence[int], actor: Actor,
    reflector: Reflector | None, *, at_once: int | None = None, tell: Callable[[int], object] = lambda _: None,
) -> list[Played]:  # fmt: skip
    """Play one episode of each task; every process plays its share and knows all of them."""
    mine = own_rows(len(tasks))
    tell = tell if is_main() else lambda _: None
    rules = Rules(settings.reflect_prob, settings.first_step, one_draw=settings.published)
    own_tasks, own_seeds = [tasks[n] for n in mine], [seeds[n] for n in mine]
    few = None if at_once is None else -(-at_once // world_size())
    played = play(ground.make_game, own_tasks, own_seeds, actor, reflector, rules, at_once=few, tell=tell)
    found = dict(zip(mine, played, strict=True))
    if world_size() > 1:
        shares: list[Any] = [None] * world_size()
        dist.all_gather_object(shares, found)
        found = {number: episode for share in shares for number, episode in share.items()}
    tell(len(tasks) - len(mine))
    return [found[number] for number in range(len(tasks))]


Plays = Callable[[Sequence[Task], Sequence[int]], list[Played]]  # one episode of each task, with its seed


def scripted(settings: ReflectSettings, ground: Playground, name: str) -> Plays:
    """How an agent of the world plays: one of its own, by name."""
    every = [task for level in ground.levels for task in level]
    wanted = AgentRequest(name=name, tasks=every, options=settings.rules, seed=settings.seed)

    async def episode(agent: Policy, game: TextGame, task: Task, seed: int) -> Played:
        messages: tuple[Message, ...] = ()
        try:
            one = Playing(game, task, seed)
            while not one.over:
                messages = (*messages, Message("user", one.text))
                shown: Any = getattr(game, "observation", None)  # of worlds that are no text games
                with one.guarded():
                    said = await agent.act(shown or Observation(task.task_id, messages, seed))
                    one.take(one.text, Chosen(said.completion.text))
                    messages = (*messages, Message("assistant", said.completion.text))
        finally:
            game.close()
        return one.played()

    async def episodes(tasks: Sequence[Task], seeds: Sequence[int]) -> list[Played]:
        agent = await settings.world.make_agent(wanted)
        try:
            each = zip(tasks, seeds, strict=True)
            return [await episode(agent, ground.make_game(), task, seed) for task, seed in each]
        finally:
            await agent.close()

    return lambda tasks, seeds: asyncio.run(episodes(tasks, seeds))


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
    why: str | None = None  # what broke the first one that failed

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
    settings: ReflectSettings, ground: Playground, actor: Actor | Plays, reflector: Reflector | None,
    tell: Callable[[int], object] = lambda _: None,
) -> list[LevelResult]:  # fmt: skip
    """Play every level's tasks `eval_reps` times.

    Seeds depend on the level, the task and the repetition only, so every checkpoint plays the same games.
    """

    def play(tasks: Sequence[Task], seeds: Sequence[int]) -> list[Played]:
        if not callable(actor):
            most = settings.per_device_eval_batch_size
            return play_shared(settings, ground, tasks, seeds, actor, reflector, at_once=most, tell=tell)
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
    share = share_over_tasks([*tasks.values()])
    return LevelResult(
        level=level, episodes=len(whole), failed=len(played) - len(whole), low=share.low, high=share.high,
        cost=fmean(episode.cost for episode in whole) if whole else None,
        success=fmean(episode.succeeded for episode in whole) if whole else None,
        steps=fmean(len(episode.steps) for episode in whole) if whole else None,
        why=next((episode.failure for episode in played if episode.failure is not None), None),
    )  # fmt: skip
