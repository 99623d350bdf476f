"""The off-policy loop in the published order: play, remember, learn (ArCHer spec §6).

One process plays and writes; all of them learn from the same episodes. Every random choice is made from the
run's seed and the number of what it is for (iteration, episode), so a run that was stopped and continued is
the run that was not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from statistics import fmean
from typing import Any, Protocol

import numpy as np

from sweet_rl.algorithms.archer.learning import Learner
from sweet_rl.algorithms.archer.replay import ReplayBuffer, Transition, filter_best, transitions
from sweet_rl.algorithms.archer.run_folder import Episode as Place
from sweet_rl.algorithms.archer.run_folder import RunFolder, row_of
from sweet_rl.algorithms.processes import from_main, is_main
from sweet_rl.algorithms.sharded_states import outline
from sweet_rl.chat import ChatFormat
from sweet_rl.contracts import Env
from sweet_rl.errors import ServiceError
from sweet_rl.records import Journal
from sweet_rl.rollout import Episode, rollout
from sweet_rl.types import Task, Trajectory, derive_seed


@dataclass(frozen=True, slots=True)
class LoopSettings:
    """The published settings of the loop (ArCHer spec §8).

    `filter_quantile` is None for learners that learn from all episodes; filtered behaviour cloning learns
    from those whose return is at least that quantile of all returns so far (published: 0.9).
    """

    iterations: int = 2000
    rollout_size: int = 128
    eval_size: int = 32
    eval_freq: int = 25
    save_freq: int = 25
    warmup_iter: int = 20
    capacity: int = 100_000
    filter_quantile: float | None = None
    concurrency: int = 128
    keep_checkpoints: int = 2
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Playground:
    """Where episodes are played: a fresh world for each, and the tasks to draw from.

    `transcript` writes a dialogue as the models read it.
    """

    make_env: Callable[[], Env]
    tasks: Sequence[Task]
    held_out: Sequence[Task]
    transcript: ChatFormat


class Watcher(Protocol):
    """Who is told how a run goes: a progress bar, a dashboard."""

    def say(self, phase: str, done: int, total: int) -> None:
        """`done` of `total` of a phase of the current iteration are over."""
        ...

    def log(self, done: int, info: Mapping[str, float]) -> None:
        """The numbers of the iteration that was just finished; `done` counts iterations."""
        ...


class OnlineRun:
    """A run: its learner, its world, its folder.

    Args:
        settings: of the loop.
        learner: what learns; the same in every process.
        playground: opens where the first process plays; None in the others.
        folder: what the first process writes; None in the others.
        watchers: who is told.
    """

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
        self._episodes: list[list[Transition]] = []  # of learners that filter
        self._env_steps = 0

    def run(self) -> None:
        """Play and learn until all iterations are done; go on where an earlier run stopped.

        Raises:
            SweetRLError: a person has to mend something; what had finished is on disk.
        """
        with asyncio.Runner() as runner, self._open(runner):
            start = self._resume()
            for iteration in range(start, self._settings.iterations):
                self._iterate(iteration, runner)

    @contextmanager
    def _open(self, runner: asyncio.Runner) -> Iterator[None]:
        """Where the first process plays, for as long as the block lasts."""
        if self._opening is None:
            yield
            return
        self._playground = runner.run(self._opening.__aenter__())
        try:
            yield
        finally:
            runner.run(self._opening.__aexit__(None, None, None))

    def _resume(self) -> int:
        """Iterations that are done; models and memory are as they were after them."""
        found: list[tuple[int, Any] | None] = []

        def read() -> Any:
            found.append(self._folder.newest() if self._folder else None)
            return outline(found[0])  # numbers go to where they belong, one tensor after the other

        seen = from_main(read)
        done, state = (found[0] if found else seen) or (0, None)
        if state is not None:
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
            info = _summary("rollout", [episode[0].trajectory_reward for episode in played])
            if done % settings.eval_freq == 0:
                returns = from_main(lambda: self._evaluate(iteration, runner))
                info |= _summary("eval_rollout", returns)
        self._remember(played)
        info |= _summary("rollout.reward", [step.reward for episode in played for step in episode])
        info |= self._learner.update(self._draw(iteration), update_actor=iteration >= settings.warmup_iter)
        info["env_steps"] = self._env_steps
        if is_main():
            self._log(done, info)
        if done % settings.save_freq == 0 or done == settings.iterations:
            self._save(done)

    def _remember(self, played: Sequence[Sequence[Transition]]) -> None:
        for episode in played:
            self._env_steps += len(episode)
            if self._settings.filter_quantile is None:
                self._buffer.extend(episode)
            else:
                self._episodes.append(list(episode))

    def _draw(self, iteration: int) -> Callable[[int], Sequence[Transition]]:
        """Draws with replacement from memory, the same in every process."""
        rng = np.random.default_rng(derive_seed(self._settings.seed, "draw", iteration))
        if self._settings.filter_quantile is None:
            return lambda count: self._buffer.sample(count, rng)
        best = ReplayBuffer(self._settings.capacity)
        for episode in filter_best(self._episodes, self._settings.filter_quantile):
            best.extend(episode)
        return lambda count: best.sample(count, rng)

    # -- the first process only ---------------------------------------------------------------------------

    def _play(self, iteration: int, runner: asyncio.Runner) -> list[list[Transition]]:
        """The episodes of an iteration: those on disk as they are, the others now."""
        playground, folder = self._here()
        rng = np.random.default_rng(derive_seed(self._settings.seed, "tasks", iteration))
        chosen = rng.integers(len(playground.tasks), size=self._settings.rollout_size)
        tasks = [playground.tasks[place] for place in chosen]
        self._collect("play", tasks, iteration, folder.trajectories, folder.played, runner)
        played = self._known(iteration)
        if not played:
            raise ServiceError(
                f"Every episode of iteration {iteration + 1} failed; {str(folder.failures.path)!r} tells "
                "why, one by one. Once that is mended, the same command plays them again."
            )
        return played

    def _known(self, iteration: int) -> list[list[Transition]]:
        """Transitions of an iteration's episodes, in the order of their numbers; failed ones have none."""
        playground, folder = self._here()
        numbers = range(self._settings.rollout_size)
        found = [
            folder.played[place] for number in numbers if (place := (iteration, number)) in folder.played
        ]
        return [steps for one in found if (steps := transitions(one, playground.transcript))]

    def _evaluate(self, iteration: int, runner: asyncio.Runner) -> list[float]:
        """Returns of the greedy policy on held-out tasks; nothing is learned from them."""
        playground, folder = self._here()
        tasks = [
            playground.held_out[number % len(playground.held_out)]
            for number in range(self._settings.eval_size)
        ]
        self._collect("evaluate", tasks, iteration, folder.evaluations, folder.evaluated, runner)
        rewards = [
            folder.evaluated[place].reward
            for number in range(len(tasks))
            if (place := (iteration, number)) in folder.evaluated
        ]
        return [reward for reward in rewards if reward is not None]

    def _collect(
        self,
        phase: str,
        tasks: Sequence[Task],
        iteration: int,
        journal: Journal,
        known: dict[Place, Trajectory],
        runner: asyncio.Runner,
    ) -> None:
        """Play the episodes of an iteration that are not on disk yet."""
        playground, folder = self._here()
        seed, size = self._settings.seed, len(tasks)
        todo = {
            (task.task_id, iteration * size + number): (
                number,
                Episode(task, iteration * size + number, derive_seed(seed, phase, iteration, number)),
            )
            for number, task in enumerate(tasks)
            if (iteration, number) not in known
        }

        over = size - len(todo)

        async def keep(trajectory: Trajectory) -> None:
            nonlocal over
            number, _ = todo[trajectory.key]
            good = trajectory.error is None
            await (journal if good else folder.failures).append_soon(row_of(trajectory, iteration, number))
            if good:
                known[iteration, number] = trajectory
            over += 1
            self._say(phase, over, size)

        async def collect() -> None:
            policy = self._learner.rollout_policy(greedy=phase == "evaluate")
            try:
                await rollout(
                    [episode for _, episode in todo.values()],
                    make_env=playground.make_env,
                    policy=policy,
                    on_finished=keep,
                    concurrency=max(1, min(self._settings.concurrency, len(todo))),
                    provenance={"agent_model": policy.name},
                )
            finally:
                await journal.flush()
                await folder.failures.flush()
                await policy.close()

        if todo:
            runner.run(collect())

    def _save(self, done: int) -> None:
        state = self._learner.state_dict()  # in every process: divided policies are put together
        if self._folder is not None:
            self._folder.save(done, state, keep=self._settings.keep_checkpoints)

    def _log(self, done: int, info: Mapping[str, float]) -> None:
        if self._folder is not None:
            self._folder.log(done, info)
        for watcher in self._watchers:
            watcher.log(done, info)

    def _say(self, phase: str, done: int, total: int) -> None:
        for watcher in self._watchers:
            watcher.say(phase, done, total)

    def _here(self) -> tuple[Playground, RunFolder]:
        if self._playground is None or self._folder is None:
            raise RuntimeError("only the first process plays")
        return self._playground, self._folder


def _summary(name: str, values: Sequence[float]) -> dict[str, float]:
    """Mean, maximum and minimum under the published names."""
    if not values:
        return {}
    return {f"{name}.mean": fmean(values), f"{name}.max": max(values), f"{name}.min": min(values)}
