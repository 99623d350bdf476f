"""The online loop: play, store, learn from new and replayed episodes.

Processes divide the episodes of an iteration, then know them all, and make the same updates.
Each random choice is made from the run's seed and the number of what it is for, so a run that was stopped and
continued is the run that was not.

Published behaviour: docs/published/reflect_rl.md#online-loop.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import Any, Protocol

import torch.distributed as dist

from sweet_rl.errors import ServiceError
from sweet_rl.online.distributed.collectives import own_rows
from sweet_rl.online.distributed.processes import is_main, world_size
from sweet_rl.online.reflect.models import Checkpoints
from sweet_rl.online.reflect.play import Actor, Played, Reflector, Rules, play
from sweet_rl.online.reflect.playground import Playground, Schedule
from sweet_rl.online.reflect.replay import Replay
from sweet_rl.online.reflect.settings import ReflectSettings
from sweet_rl.online.reflect.trainer import Row, Trainer, episode_of, episode_state
from sweet_rl.types import Json, Task, derive_seed

Entry = dict[str, Json]
"""One iteration in logs.json. Where the world broke episodes, `failed` has their tasks and what happened;
these are in no other number, and nothing is learned from them."""


class Watcher(Protocol):
    """Receives the log entry of every iteration."""

    def log(self, done: int, entry: Mapping[str, Any]) -> None:
        """The numbers of the iteration that was just finished; `done` counts iterations."""
        ...


class Loop:
    """A run: its players, what learns, its world, its folder.

    Args:
        checkpoints: what the first process writes; None in the others.
    """

    def __init__(
        self,
        settings: ReflectSettings,
        trainer: Trainer,
        reflector: Reflector | None,
        ground: Playground,
        checkpoints: Checkpoints | None,
        watchers: Sequence[Watcher] = (),
    ) -> None:
        self._settings, self._trainer, self._reflector = settings, trainer, reflector
        self._ground, self._checkpoints, self._watchers = ground, checkpoints, watchers
        self._replay: Replay[Played] = Replay(settings.replay_buffer_size)
        self._schedule = Schedule(
            [len(level) for level in ground.levels],
            ground.starts,
            batch=settings.per_device_eval_batch_size,
            seed=settings.seed,
            compat=settings.compat,
        )
        self._logs: list[Entry] = []

    def run(self, state: Any = None) -> None:
        """Play and learn until all iterations are done."""
        done = 0
        if state is not None:
            done = self._load(state)
        for iteration in range(done, self._settings.max_steps):
            entry = self._iterate(iteration)
            for watcher in self._watchers:
                watcher.log(iteration + 1, entry)
            self._logs.append(entry)
            if (iteration + 1) % self._settings.save_steps == 0 or iteration + 1 == self._settings.max_steps:
                self._save(iteration + 1)

    def _iterate(self, iteration: int) -> Entry:
        settings = self._settings
        begins, level, items = self._schedule.draw(iteration)
        if begins:
            self._replay.clear()
        tasks = [self._ground.levels[level][item] for item in items]
        seeds = [derive_seed(settings.seed, "episode", iteration, number) for number in range(len(items))]
        self._trainer.keep_play()
        played = play_shared(
            self._ground, tasks, seeds, self._trainer.agent, self._reflector, rules_of(settings)
        )
        whole = [episode for episode in played if episode.failure is None and episode.steps]
        if not whole:
            why = played[0].failure if played else "there is none"
            raise ServiceError(f"Every episode of iteration {iteration + 1} failed. The first: {why}")
        rows = [self._trainer.rows(episode) for episode in whole]
        costs = [episode.cost for episode in whole]
        succeeded = [episode for episode in whole if episode.succeeded]
        if settings.published:  # by what the first step is worth, the bonus for entropy included
            costs = [its[0].q for its in rows]
            succeeded = [
                episode for episode, cost in zip(whole, costs, strict=True) if cost < episode.threshold
            ]
        self._replay.add(succeeded)
        fresh = self._trainer.train(whole)
        rng = random.Random(derive_seed(settings.seed, "replay", iteration))
        again = self._trainer.train(self._replay.sample(settings.per_device_train_batch_size, rng))
        entry: Entry = {
            "iter": iteration,
            "loss": [fresh.loss, again.loss],
            "critic_loss": [fresh.critic_loss, again.critic_loss],
            "cost": fmean(costs),
            "succ": len(succeeded) / len(whole),
            "log": [_logged(number, its) for number, its in enumerate(rows)],
        }
        failed = [f"{one.task_id}: {one.failure}" for one in played if one.failure is not None]
        return entry | ({"failed": failed} if failed else {})

    def state(self, done: int) -> dict[str, Any]:
        """All that later iterations depend on, for an exact continuation."""
        return {
            "done": done,
            "trainer": self._trainer.state(),
            "replay": [episode_state(episode) for episode in self._replay.episodes],
            "place": self._schedule.place.state(),
            "logs": self._logs,
        }

    def _load(self, state: Any) -> int:
        self._trainer.load(state["trainer"])
        self._replay.add(episode_of(episode) for episode in state["replay"])
        self._schedule.restore(state["place"])
        self._logs = list(state["logs"])
        return int(state["done"])

    def _save(self, done: int) -> None:
        """Published: a checkpoint has the logs since the one before."""
        logs, self._logs = self._logs, []
        if self._checkpoints is not None:
            critic, ground = self._trainer.critic, self._ground
            self._checkpoints.save(
                done,
                self._trainer.agent,
                self.state(done),
                summary={"iterations": done, "levels": dict(zip(ground.names, ground.starts, strict=True))},
                logs=logs,
                critic=critic.head if critic else None,
            )


def rules_of(settings: ReflectSettings) -> Rules:
    """How the flags let episodes be played."""
    return Rules(settings.reflect_prob, settings.first_step, one_draw=settings.published)


def play_shared(
    ground: Playground,
    tasks: Sequence[Task],
    seeds: Sequence[int],
    actor: Actor,
    reflector: Reflector | None,
    rules: Rules,
    *,
    at_once: int | None = None,
    tell: Callable[[int], object] = lambda _: None,
) -> list[Played]:
    """Play one episode of each task; every process plays its share and knows all of them."""
    mine = own_rows(len(tasks))
    tell = tell if is_main() else lambda _: None
    played = play(
        ground.make_game,
        [tasks[n] for n in mine],
        [seeds[n] for n in mine],
        actor,
        reflector,
        rules,
        at_once=None if at_once is None else -(-at_once // world_size()),
        tell=tell,
    )
    found = dict(zip(mine, played, strict=True))
    if world_size() > 1:
        shares: list[Any] = [None] * world_size()
        dist.all_gather_object(shares, found)
        found = {number: episode for share in shares for number, episode in share.items()}
    tell(len(tasks) - len(mine))
    return [found[number] for number in range(len(tasks))]


def _logged(number: int, rows: Sequence[Row]) -> dict[str, Json]:
    """An episode as logs.json has it."""
    return {
        "batch": number,
        "detail": [
            {
                "step": at,
                "Q_value": row.q,
                "prob": math.exp(row.step.logprob),
                "entropy": row.step.entropy,
                "cost": row.step.cost,
                "prompt": row.step.prompt,
                "generation": {"role": "assistant", "content": row.step.action},
            }
            for at, row in enumerate(rows)
        ],
    }
