"""The off-policy loop in the published order: play, store, learn.

One process plays and writes; all learn from the same episodes. Every random choice is made from the run's seed and the
number of what it is for (iteration, episode), so a run that was stopped and continued is the run that was not.

Published behaviour: docs/published/archer.md#loop, #configuration, #replay.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from statistics import fmean
from typing import Any, Protocol

import numpy as np

from sweet_rl.chat import ChatFormat
from sweet_rl.contracts import Env
from sweet_rl.errors import ServiceError
from sweet_rl.online.distributed import from_main, is_main
from sweet_rl.online.learner import Learner
from sweet_rl.online.replay import (
    MC_GAMMA,
    Item,
    Place,
    ReplayBuffer,
    Ring,
    Transition,
    TurnAt,
    TurnsOnDisk,
    best_numbers,
    is_learnable,
    rewards_of,
    transitions,
)
from sweet_rl.online.run_folder import EpisodeFile, RunFolder
from sweet_rl.rollout import Episode, rollout
from sweet_rl.types import Compat, Failure, Json, Task, Trajectory, derive_seed

Played = tuple[Place, list[Transition]]  # an episode: its place in the run, and its turns


@dataclass(frozen=True, slots=True)
class LoopSettings:
    """The published settings of the loop.

    `filter_quantile` is None for learners that learn from all episodes; filtered behaviour cloning learns
    from those whose return is at least that quantile of all returns so far (published: 0.9). `on_policy` is
    for learners that learn from the newest iteration only. `gamma` discounts the returns of turns. `compat`
    says how memory is drawn from: "fixed", every turn in it alike, or "published". With `whole_games` turns
    are not drawn one by one.
    """

    iterations: int = 2000
    rollout_size: int = 128
    eval_size: int = 32
    eval_freq: int = 25
    save_freq: int = 25
    warmup_iter: int = 20
    capacity: int = 100_000
    filter_quantile: float | None = None
    on_policy: bool = False
    gamma: float = MC_GAMMA
    whole_games: bool = False
    concurrency: int = 128
    keep_checkpoints: int = 2
    compat: Compat = "fixed"
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Playground:
    """Where episodes are played: a fresh world for each, and the tasks to draw from.

    `transcript` writes a dialogue as the models read it. `grade` gives an episode that is over its reward, in
    worlds that reward no turns. `provenance` is recorded with every episode.
    """

    make_env: Callable[[], Env]
    tasks: Sequence[Task]
    held_out: Sequence[Task]
    transcript: ChatFormat
    grade: Callable[[Trajectory], Awaitable[Trajectory]] | None = None
    provenance: Mapping[str, Json] = field(default_factory=dict)


class Watcher(Protocol):
    """Receives the numbers of every iteration: a progress bar, a dashboard."""

    def say(self, phase: str, done: int, total: int) -> None:
        """`done` of `total` of a phase of the current iteration are over."""

    def log(self, done: int, info: Mapping[str, float]) -> None:
        """The numbers of the iteration that was just finished; `done` counts iterations."""


class OnlineRun:
    """A run: its learner, its world, its folder."""

    def __init__(
        self,
        settings: LoopSettings,
        learner: Learner,
        playground: AbstractAsyncContextManager[Playground] | None,
        folder: RunFolder | None,
        watchers: Sequence[Watcher] = (),
    ) -> None:
        self._settings, self._learner = settings, learner
        self._opening, self._folder, self._watchers = playground, folder, watchers
        self._playground: Playground | None = None
        self._buffer = ReplayBuffer(settings.capacity)
        # Of what it may imitate filtered BC keeps no more: place, length and return of all episodes so far.
        self._catalogue: list[tuple[Place, int, float]] = []
        self._env_steps = 0

    def run(self) -> None:
        """Play and learn until all iterations are done; resume where an earlier run stopped."""
        with asyncio.Runner() as runner, ExitStack() as stack:
            if (opening := self._opening) is not None:
                self._playground = runner.run(opening.__aenter__())
                stack.callback(lambda: runner.run(opening.__aexit__(None, None, None)))
            for iteration in range(self._resume(), self._settings.iterations):
                self._iterate(iteration, runner)

    def _resume(self) -> int:
        """Iterations that are done; models and memory are as they were after them."""
        state: dict[str, Any] = {}

        def read() -> int:
            done, found = (self._folder and self._folder.newest()) or (0, {})
            state.update(found)  # stays here: its tensors go to the others one after the other
            return done

        done = from_main(read)
        if done:
            self._learner.load_state_dict(state)
        for iteration in range(done):
            self._remember(from_main(partial(self._known, iteration)))
        if self._folder is not None:
            self._folder.begin_metrics(done)
        return done

    def _iterate(self, iteration: int, runner: asyncio.Runner) -> None:
        settings = self._settings
        done = iteration + 1
        with self._learner.gathered():
            played = from_main(lambda: self._play(iteration, runner))
            info = _summary("rollout", [steps[0].trajectory_reward for _, steps in played])
            if done % settings.eval_freq == 0:
                returns = from_main(lambda: self._evaluate(iteration, runner))
                info |= _summary("eval_rollout", returns)
                info["eval_rollout.failed"] = settings.eval_size - len(returns)
        info["rollout.failed"] = settings.rollout_size - len(played)
        self._remember(played)
        info |= _summary("rollout.reward", [step.reward for _, steps in played for step in steps])
        info |= self._learner.update(self._draw(iteration), update_actor=iteration >= settings.warmup_iter)
        info["env_steps"] = self._env_steps
        if self._folder is not None:
            self._folder.log(done, info)
        for watcher in self._watchers if is_main() else ():
            watcher.log(done, info)
        if done % settings.save_freq == 0 or done == settings.iterations:
            state = self._learner.state_dict()  # in every process: sharded policies are gathered
            if self._folder is not None:
                self._folder.save(done, state, keep=settings.keep_checkpoints)

    def _remember(self, played: Sequence[Played]) -> None:
        if self._settings.on_policy:
            self._buffer = ReplayBuffer(sum(len(steps) for _, steps in played) or 1)
        for place, steps in played:
            self._env_steps += len(steps)
            if self._settings.filter_quantile is None:
                self._buffer.extend(steps)
            else:
                self._catalogue.append((place, len(steps), steps[0].trajectory_reward))

    def _draw(self, iteration: int) -> Callable[[int], Sequence[Transition]]:
        """Draws with replacement from memory, the same in every process."""
        seed = derive_seed(self._settings.seed, "draw", iteration)
        if self._settings.filter_quantile is None:
            return self._sampler(self._buffer, seed)
        returns = [reward for _, _, reward in self._catalogue]
        kept = [self._catalogue[number] for number in best_numbers(returns, self._settings.filter_quantile)]
        lengths = [length for _, length, _ in kept]
        best = TurnsOnDisk([place for place, _, _ in kept], lengths, self._settings.capacity)
        sample = self._sampler(best, seed)

        def draw(count: int) -> Sequence[Transition]:
            turns = sample(count)
            return from_main(lambda: self._read(turns))

        return draw

    def _sampler(self, memory: Ring[Item], seed: int) -> Callable[[int], list[Item]]:
        if self._settings.compat == "published":
            state = np.random.RandomState(seed)
            return lambda count: memory.sample_published(count, state)
        rng = np.random.default_rng(seed)
        if self._settings.whole_games:
            return memory.drawing_games(rng)
        return lambda count: memory.sample(count, rng)

    # -- the first process only ---------------------------------------------------------------------------

    def _play(self, iteration: int, runner: asyncio.Runner) -> list[Played]:
        """The episodes of an iteration: those on disk as they are, the others now."""
        playground, folder = self._here()
        rng = np.random.default_rng(derive_seed(self._settings.seed, "tasks", iteration))
        chosen = rng.integers(len(playground.tasks), size=self._settings.rollout_size)
        tasks = [playground.tasks[place] for place in chosen]
        if iteration >= folder.learned:  # else what failed was missing when it was learned from, too
            self._collect("play", tasks, iteration, folder.trajectories, runner)
        played = self._known(iteration)
        if not played:
            raise ServiceError(
                f"Every episode of iteration {iteration + 1} failed; {str(folder.failures.path)!r} says "
                "why, one by one. Once that is repaired, the same command plays them again."
            )
        return played

    def _known(self, iteration: int) -> list[Played]:
        """An iteration's episodes, in the order of their numbers; those that failed are not among them."""
        _, folder = self._here()
        size = self._settings.rollout_size
        places = [(iteration, number) for number in folder.trajectories.numbers(iteration) if number < size]
        return [(place, steps) for place in places if (steps := self._steps(place))]

    def _steps(self, place: Place) -> list[Transition]:
        playground, folder = self._here()
        return transitions(folder.trajectories.read(place), playground.transcript, self._settings.gamma)

    def _read(self, turns: Sequence[TurnAt]) -> list[Transition]:
        """Turns by their episode's place and their number in it; each episode is read once."""
        episodes = {place: self._steps(place) for place in {place for place, _ in turns}}
        return [episodes[place][number] for place, number in turns]

    def _evaluate(self, iteration: int, runner: asyncio.Runner) -> list[float]:
        """Returns of the greedy policy on held-out tasks; nothing is learned from them."""
        playground, folder = self._here()
        every = playground.held_out
        tasks = [every[number % len(every)] for number in range(self._settings.eval_size)]
        self._collect("evaluate", tasks, iteration, folder.evaluations, runner)
        numbers = [number for number in folder.evaluations.numbers(iteration) if number < len(tasks)]
        rewards = [folder.evaluations.read((iteration, number)).reward for number in numbers]
        return [reward for reward in rewards if reward is not None]

    def _collect(
        self, phase: str, tasks: Sequence[Task], iteration: int, file: EpisodeFile, runner: asyncio.Runner
    ) -> None:
        """Play the episodes of an iteration that are not on disk yet."""
        playground, folder = self._here()
        seed, size = self._settings.seed, len(tasks)
        todo = {}
        for number in sorted({*range(size)} - {*file.numbers(iteration)}):
            repeat, task = iteration * size + number, tasks[number]
            episode = Episode(task, repeat, derive_seed(seed, phase, iteration, number))
            todo[task.task_id, repeat] = number, episode
        over = size - len(todo)

        async def keep(trajectory: Trajectory) -> None:
            nonlocal over
            number, _ = todo[trajectory.key]
            trajectory = await _graded(trajectory, playground)
            rewards_of(trajectory)  # a world without rewards is told at its first episode
            where = file if is_learnable(trajectory) else folder.failures
            await where.append_soon(trajectory, iteration, number)
            over += 1
            for watcher in self._watchers:
                watcher.say(phase, over, size)

        async def collect() -> None:
            policy = self._learner.rollout_policy(greedy=phase == "evaluate")
            try:
                await rollout(
                    [episode for _, episode in todo.values()],
                    make_env=playground.make_env,
                    policy=policy,
                    on_finished=keep,
                    concurrency=max(1, min(self._settings.concurrency, len(todo))),
                    provenance={**playground.provenance, "agent_model": policy.name},
                )
            finally:
                await file.flush()
                await folder.failures.flush()
                await policy.close()

        if todo:
            runner.run(collect())

    def _here(self) -> tuple[Playground, RunFolder]:
        if self._playground is None or self._folder is None:
            raise RuntimeError("only the first process plays")
        return self._playground, self._folder


async def _graded(trajectory: Trajectory, playground: Playground) -> Trajectory:
    """The episode with its grade, where there is one to be given; what a grader breaks at has failed."""
    if playground.grade is None or trajectory.error is not None:
        return trajectory
    try:
        return await playground.grade(trajectory)
    except Exception as error:  # noqa: BLE001 - whatever it is: the episode is kept, and nothing learned from it
        return replace(trajectory, error=Failure("grading", f"{type(error).__name__}: {error}"))


def _summary(name: str, values: Sequence[float]) -> dict[str, float]:
    """Mean, maximum and minimum under the published names."""
    if not values:
        return {}
    return {f"{name}.mean": fmean(values), f"{name}.max": max(values), f"{name}.min": min(values)}
