"""The off-policy loop in the published order: play, store, learn.

One process plays and writes; all learn from the same episodes. Every random choice is made from the run's seed and the
number of what it is for (iteration, episode), so a run that was stopped and continued is the run that was not. Its files are
listed in docs/train_archer.md. The replay buffer is not among them: it is what the trajectories say, which are read from their file
when they are needed, so that memory does not grow with what was played.

Published behaviour: docs/published/archer.md#loop, #configuration, #replay.
"""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from sweet_rl import tracking
from sweet_rl.chat import ChatFormat
from sweet_rl.contracts import Env
from sweet_rl.errors import DataError, ServiceError, StorageError, UsageError
from sweet_rl.online.learner import Learner, Say
from sweet_rl.online.replay import (
    Place,
    ReplayBuffer,
    Transition,
    Turn,
    TurnAt,
    best_numbers,
    is_learnable,
    rewards_of,
    transitions,
)
from sweet_rl.online.settings import LoopSettings
from sweet_rl.records import Journal, replace_file, trajectory_from_row, trajectory_to_row
from sweet_rl.rollout import Episode, rollout
from sweet_rl.runs.record import without_secrets
from sweet_rl.training import checkpoints
from sweet_rl.training.checkpoints import MetricsLog, last_step
from sweet_rl.training.processes import from_main
from sweet_rl.types import Failure, Json, Task, Trajectory, derive_seed

Played = tuple[Place, list[Transition]]  # an episode: its place in the run, and its turns


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


class OnlineRun:
    """A run: its learner, its world, its folder."""

    def __init__(
        self, settings: LoopSettings, learner: Learner, playground: AbstractAsyncContextManager[Playground] | None,
        folder: RunFolder | None, log: Callable[[int, Mapping[str, float]], object] = lambda _done, _info: None,
        say: Say = lambda _phase, _done, _total: None,
    ) -> None:  # fmt: skip
        self._settings, self._learner, self._opening = settings, learner, playground
        self._log, self._say = log, say
        self._folder: Any = folder  # like the playground the first process's only
        self._playground: Any = None
        self._buffer: ReplayBuffer[Transition] = ReplayBuffer(settings.capacity)
        # Of what it may imitate filtered BC keeps no more: place, length and return of all episodes so far.
        self._catalogue: list[tuple[Place, int, float]] = []
        self._env_steps = 0

    def run(self) -> None:
        """Play and learn until all iterations are done; resume where an earlier run stopped."""
        with asyncio.Runner() as runner, ExitStack() as stack:
            if (opening := self._opening) is not None:
                self._playground = runner.run(opening.__aenter__())
                stack.callback(lambda: runner.run(opening.__aexit__(None, None, None)))
            newest: list[Any] = [0, {}]  # of it tensors stay here: they go to the others one after the other

            def read() -> int:
                if self._folder is not None:
                    newest[:] = self._folder.newest()
                return int(newest[0])

            if done := from_main(read):
                self._learner.load_state_dict(newest[1])
            for iteration in range(done):
                self._remember(from_main(partial(self._known, iteration)))
            for iteration in range(done, self._settings.iterations):
                self._iterate(iteration, runner)

    def _iterate(self, iteration: int, runner: asyncio.Runner) -> None:
        settings, done = self._settings, iteration + 1
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
        self._log(done, info)
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
        seed, quantile = derive_seed(self._settings.seed, "draw", iteration), self._settings.filter_quantile
        if quantile is None:
            return self._sampler(self._buffer, seed)
        best: ReplayBuffer[TurnAt] = ReplayBuffer(self._settings.capacity)
        for number in best_numbers([reward for _, _, reward in self._catalogue], quantile):
            place, length, _ = self._catalogue[number]
            best.extend(TurnAt(place, turn, turn == length - 1) for turn in range(length))
        sample = self._sampler(best, seed)

        def read(turns: Sequence[TurnAt]) -> list[Transition]:
            games = {place: self._steps(place) for place in {turn.episode for turn in turns}}
            return [games[turn.episode][turn.number] for turn in turns]

        def draw(count: int) -> Sequence[Transition]:
            turns = sample(count)
            return from_main(lambda: read(turns))

        return draw

    def _sampler(self, memory: ReplayBuffer[Turn], seed: int) -> Callable[[int], list[Turn]]:
        if self._settings.compat == "published":
            state = np.random.RandomState(seed)
            return lambda count: memory.sample_published(count, state)
        rng = np.random.default_rng(seed)
        if self._settings.whole_games:
            return memory.drawing_games(rng)
        return lambda count: memory.sample(count, rng)

    def _play(self, iteration: int, runner: asyncio.Runner) -> list[Played]:
        """The episodes of an iteration: those on disk as they are, the others now."""
        every, folder = self._playground.tasks, self._folder
        rng = np.random.default_rng(derive_seed(self._settings.seed, "tasks", iteration))
        tasks = [every[place] for place in rng.integers(len(every), size=self._settings.rollout_size)]
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
        numbers = [n for n in self._folder.trajectories.numbers(iteration) if n < self._settings.rollout_size]
        places = [(iteration, number) for number in numbers]
        return [(place, steps) for place in places if (steps := self._steps(place))]

    def _steps(self, place: Place) -> list[Transition]:
        played = self._folder.trajectories.episode(place)
        return transitions(played, self._playground.transcript, self._settings.gamma)

    def _evaluate(self, iteration: int, runner: asyncio.Runner) -> list[float]:
        """Returns of the greedy policy on held-out tasks; nothing is learned from them."""
        every, file = self._playground.held_out, self._folder.evaluations
        tasks = [every[number % len(every)] for number in range(self._settings.eval_size)]
        self._collect("evaluate", tasks, iteration, file, runner)
        numbers = [number for number in file.numbers(iteration) if number < len(tasks)]
        rewards = [file.episode((iteration, number)).reward for number in numbers]
        return [reward for reward in rewards if reward is not None]

    def _collect(
        self, phase: str, tasks: Sequence[Task], iteration: int, file: EpisodeFile, runner: asyncio.Runner
    ) -> None:
        """Play the episodes of an iteration that are not on disk yet."""
        playground, folder = self._playground, self._folder
        seed, size = self._settings.seed, len(tasks)
        todo = {}
        for number in sorted({*range(size)} - {*file.numbers(iteration)}):
            place, task = iteration * size + number, tasks[number]
            episode = Episode(task, place, derive_seed(seed, phase, iteration, number))
            todo[task.task_id, place] = number, episode
        over = size - len(todo)

        async def keep(trajectory: Trajectory) -> None:
            nonlocal over
            number, _ = todo[trajectory.key]
            if playground.grade is not None and trajectory.error is None:
                try:
                    trajectory = await playground.grade(trajectory)
                except Exception as error:  # noqa: BLE001 - whatever it is: the episode is kept, and nothing learned from it
                    why = Failure("grading", f"{type(error).__name__}: {error}")
                    trajectory = replace(trajectory, error=why)
            rewards_of(trajectory)  # a world without rewards is told at its first episode
            where = file if is_learnable(trajectory) else folder.failures
            await where.add(trajectory, iteration, number)
            over += 1
            self._say(phase, over, size)

        async def collect() -> None:
            policy = self._learner.rollout_policy(greedy=phase == "evaluate")
            try:
                await rollout(
                    [episode for _, episode in todo.values()], make_env=playground.make_env, policy=policy,
                    on_finished=keep, concurrency=min(self._settings.concurrency, len(todo)),
                    provenance={**playground.provenance, "agent_model": policy.name},
                )  # fmt: skip
            finally:
                await file.flush()
                await folder.failures.flush()
                await policy.close()

        if todo:
            runner.run(collect())


def _summary(name: str, values: Sequence[float]) -> dict[str, float]:
    """Mean, maximum and minimum under the published names."""
    if not values:
        return {}
    return {f"{name}.mean": fmean(values), f"{name}.max": max(values), f"{name}.min": min(values)}


# Settings that may change when a run is continued: they decide about nothing that was made.
FREE_KEYS = frozenset({
    "save_path", "iterations", "save_freq", "eval_freq", "eval_size", "keep_checkpoints", "concurrency",
    "shard_with", "log_to", "use_wandb", "tensorboard", "project_name", "run_name", "cache_dir", "quiet",
    "overwrite", "env_base_url",
})  # fmt: skip
SETTINGS, METRICS, MODELS = "settings.json", "metrics.jsonl", "models"
_PLAYED = "trajectories.jsonl"  # what memory is read from again when a run resumes
_EPISODES = (_PLAYED, "evaluations.jsonl", "failures.jsonl")
_INSTEAD = "name another save_path, or pass overwrite=true to start again"


class RunFolder:
    """The folder of one run, held by one process at a time; files are changed only once `newest` is asked for."""

    def __init__(
        self, path: Path, config: Mapping[str, Json], *, overwrite: bool = False, say: Callable[[str], object] = print
    ) -> None:  # fmt: skip
        config = json.loads(without_secrets(json.dumps(dict(config))))
        self.path, self._say, self._overwrite = path, say, overwrite
        self._config = [json.dumps(config, indent=1).encode() + b"\n"]
        if path.exists() and not path.is_dir():
            raise UsageError(f"save_path={str(path)!r} is a file; name a folder.")
        with ExitStack() as files:
            files.enter_context(checkpoints.held(path))
            path.mkdir(parents=True, exist_ok=True)
            self._check(config)
            self._files = files.pop_all()
        if overwrite:
            shutil.rmtree(path / MODELS, ignore_errors=True)
        self.learned = 0  # iterations that were learned from, before and since the newest checkpoint
        self.made_from: dict[str, Json] = {}  # digests of models and tasks; a checkpoint of others is refused

    def close(self) -> None:
        """Close the files of the run and free their locks."""
        self._files.close()

    def newest(self) -> tuple[int, Any]:
        """Iterations that are done and the state they led to; the log goes on behind them."""
        if self._overwrite:
            for name in (*_EPISODES, METRICS):
                (self.path / name).unlink(missing_ok=True)
            for old in [*checkpoints.checkpoints_in(self.path), self.path / "final"]:
                shutil.rmtree(old, ignore_errors=True)
        found = checkpoints.resumable(self.path, self.made_from, self._say, instead=_INSTEAD)
        tracking.writes(self.path, folder=True, continues=not self._overwrite)
        replace_file(self.path / SETTINGS, self._config)
        self.trajectories, self.evaluations, self.failures = (
            self._files.enter_context(EpisodeFile(self.path / name)) for name in _EPISODES
        )
        done, metrics = checkpoints.step_of(found) if found else 0, self.path / METRICS
        if wrong := checkpoints.covered(self.path, metrics):
            self._say(f"{metrics} {wrong}: numbers of earlier iterations may be missing in it.")
        self.learned = max(last_step(metrics), *self.trajectories.starts, 0)
        self._metrics = MetricsLog(metrics, after_step=done)
        return done, checkpoints.load_state(found) if found else {}

    def save(self, done: int, state: Any, *, keep: int) -> None:
        """Write the checkpoint after `done` iterations, at once or not at all; keep the newest `keep`."""
        covers = [self.path / _PLAYED, self.path / METRICS]
        with checkpoints.writing(self.path, done, {"iterations": done}, self.made_from, covers) as made:
            checkpoints.save_state(made, state)
        checkpoints.rotate(self.path, keep=keep, max_gb=float("inf"))

    def log(self, done: int, info: Mapping[str, float]) -> None:
        """Append the line of an iteration to metrics.jsonl."""
        self._metrics.append({"step": done, **info})

    def _check(self, config: Mapping[str, Json]) -> None:
        """Refuse another run's folder, and one whose memory is not what its checkpoints were made with."""
        file, played = self.path / SETTINGS, self.path / _PLAYED
        if not file.exists():
            # A record and made models alone are of a run that was stopped before it wrote its settings.
            names = {entry.name for entry in self.path.iterdir() if entry.suffix != ".lock"}
            if others := sorted(names - {"run.json", MODELS}):
                raise UsageError(
                    f"save_path={str(self.path)!r} holds {others[0]!r}, but no {SETTINGS} of run_archer. "
                    "Name an empty or a new folder."
                )
        made = checkpoints.checkpoints_in(self.path) or (played.exists() and played.stat().st_size)
        if self._overwrite or not (made and file.exists()):
            return  # there is nothing that the settings decided about
        try:
            theirs = dict(json.loads(file.read_text(encoding="utf-8")))
        except (ValueError, TypeError) as error:
            raise UsageError(f"{str(file)!r} is broken ({error}). Put it right, or {_INSTEAD}.") from error
        where = f"save_path={str(self.path)!r}"
        checkpoints.check_same(theirs, config, where, instead=_INSTEAD, free=FREE_KEYS)
        if wrong := checkpoints.covered(self.path, played):
            raise StorageError(
                f"{str(played)!r} {wrong}, which was made with these episodes. Restore the file "
                f"from a copy, or {_INSTEAD}. Nothing was changed."
            )


class EpisodeFile(Journal):
    """Finished episodes of one file, found again by their place in the run.

    Of an episode only the byte where its line begins is kept in memory: a run plays for weeks.
    """

    def __init__(self, path: Path) -> None:
        self.starts: dict[int, dict[int, int]] = {}  # by iteration, counted from 0, and number
        super().__init__(path, each=self._note)

    def numbers(self, iteration: int) -> list[int]:
        """Numbers of the iteration's episodes that are in the file, in order."""
        return sorted(self.starts.get(iteration, ()))

    def episode(self, place: Place) -> Trajectory:
        """An episode that is in the file."""
        iteration, number = place
        return trajectory_from_row(self.read(self.starts[iteration][number]), path=self.path)

    async def add(self, trajectory: Trajectory, iteration: int, number: int) -> None:
        """Write an episode with its place in the run; returns when it is on the disk."""
        row = {**trajectory_to_row(trajectory), "iteration": iteration, "episode": number}
        self.starts.setdefault(iteration, {})[number] = await self.append_soon(row)

    def _note(self, line: int, start: int, row: dict[str, Json]) -> None:
        iteration, number = row.get("iteration"), row.get("episode")
        if not (isinstance(iteration, int) and isinstance(number, int)):
            where: Any = {"path": self.path, "line": line, "field": "iteration, episode"}
            raise DataError("must give its place in the run: run_archer did not write this row", **where)
        trajectory_from_row(row, path=self.path, line=line)  # a broken one is reported now
        self.starts.setdefault(iteration, {})[number] = start
