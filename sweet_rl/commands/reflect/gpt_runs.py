"""What `evaluate_gpt` does once its flags are known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from sweet_rl import tracking
from sweet_rl.commands.reflect.experts import HouseholdExpert, NoExpert, TaxiExpert
from sweet_rl.errors import EpisodeError
from sweet_rl.openai_client import RequestFailed
from sweet_rl.records import task_from_row
from sweet_rl.sft_data.jobs import Done, Job, JobFile
from sweet_rl.sft_data.react import Expert, play
from sweet_rl.sft_data.runs import beside, judge_episodes, make_teacher, teach_all
from sweet_rl.sft_data.teacher_flags import TeacherFlags
from sweet_rl.sft_data.teachers import EmbeddedTeacher, Teacher
from sweet_rl.text_game import TextGame
from sweet_rl.types import Task, derive_seed
from sweet_rl.worlds import load_tasks
from sweet_rl.worlds.alfworld.game import HouseholdGame
from sweet_rl.worlds.alfworld.household import Household
from sweet_rl.worlds.alfworld.tasks import published_household_tasks
from sweet_rl.worlds.dangerous_taxi.game import TaxiGame

_ALL = 10**6


@dataclass(frozen=True, slots=True)
class GptFlags:
    """Which games are played, and how; see the flags of `evaluate_gpt`."""

    scenario: str
    extra: str
    random: bool
    horizon: int
    shuffle_action: bool
    react: bool
    runs: int
    tasks: str | None
    strict: bool
    max_failed: float


class Chance:
    """An agent that chooses among the labels on offer at random."""

    def __init__(self, game: TextGame, seed: int) -> None:
        self._game, self._random = game, Random(seed)

    def thought(self) -> Callable[[Random], str]:
        """The same sentence whatever the state is."""
        return lambda _: "Anything may do."

    def label(self) -> str:
        """A label drawn from those on offer, all equally likely."""
        return self._random.choice(list(self._game.labels))


def run(games: GptFlags, player: TeacherFlags, folder: Path, *, overwrite: bool, quiet: bool) -> None:
    """Play what is missing, and write down the result.

    Raises:
        SweetRLError: the run cannot continue; what had finished is in the journal.
        KeyboardInterrupt: likewise, after printing how to continue.
    """
    name = "random" if games.random else player.name
    journal = beside(folder / "result.txt", f"{games.scenario}.{name}", "journal")
    settings = {**player.settings(), **asdict(games)}
    del settings["runs"], settings["max_failed"]
    tasks = _tasks(games)
    planned = {f"run {number}": number for number in range(games.runs)}
    engine = Household() if games.scenario == "alfworld" else None
    try:
        with JobFile(journal, settings, overwrite=overwrite) as jobs:
            tracking.writes(journal, continues=not overwrite)
            for file in ("result.txt", "result_episode.txt"):
                tracking.writes(folder / file, continues=True)

            async def episode(job: Job[int], teacher: Teacher) -> Done:
                task = tasks[Random(job.item).randrange(len(tasks))]
                return await _episode(games, player, engine, task, teacher, job)

            make = EmbeddedTeacher if games.random else partial(make_teacher, player, folder / "result.txt")
            at_once = player.concurrency
            teach_all(jobs, planned, episode, make=make, at_once=at_once, unit="episode", quiet=quiet)
            if games.random:
                print("Measured: chance, which is the floor; no model was asked.")
            else:
                print(player.measured("knows the way and is the ceiling"))
            episodes = [jobs.results[key] for key in planned if key in jobs.results]
            _write(folder, games, name, episodes)
            judge_episodes(jobs, planned, max_failed=games.max_failed)
    finally:
        if engine is not None:
            engine.close()


def _tasks(games: GptFlags) -> list[Task]:
    if games.tasks:
        return list(load_tasks(games.tasks, limit=_ALL, seed=0))
    if games.scenario == "taxi":
        return list(load_tasks(f"taxi:{games.extra}:test", limit=_ALL, seed=0))
    return [task_from_row(row) for row in published_household_tasks("test")]


async def _episode(
    games: GptFlags,
    player: TeacherFlags,
    engine: Household | None,
    task: Task,
    teacher: Teacher,
    job: Job[int],
) -> Done:
    game: Any
    if engine is None:
        game = TaxiGame(horizon=games.horizon, with_prompt=True)
    else:
        game = HouseholdGame(engine, horizon=games.horizon, shuffle_action=games.shuffle_action)
    expert: Expert = NoExpert()
    if games.random:
        expert = Chance(game, derive_seed(job.item, "chance"))
    elif player.teacher == "embedded":
        expert = TaxiExpert(game) if engine is None else HouseholdExpert(game)
    try:
        game.reset(task, seed=job.item)
        seed = derive_seed(job.item, job.attempt)
        played = await play(game, expert, teacher, seed=seed, react=games.react, strict=games.strict)
    except (EpisodeError, RequestFailed) as error:
        return Done(None, (error.failure,))
    finally:
        game.close()
    reward = round(-played.cost, 6)
    won = played.cost < game.success_threshold
    if games.strict:
        won = reward > (20 if games.scenario == "taxi" and games.extra == "dropoff" else 0)
    result = {"task_id": task.task_id, "won": won, "reward": reward, "steps": played.steps}
    return Done(result, tuple(played.failures))


def _write(folder: Path, games: GptFlags, name: str, episodes: list[dict[str, Any]]) -> None:
    """Add a line for each episode and one for all of them, as the published stage does."""
    folder.mkdir(parents=True, exist_ok=True)
    what = f"{games.scenario} {games.extra}" if games.scenario == "taxi" else games.scenario
    with (folder / "result_episode.txt").open("a", encoding="utf-8") as file:
        for number, episode in enumerate(episodes):
            file.write(
                f"{what} {name} run {number}: reward {episode['reward']:g}, {episode['steps']} steps, "
                f"{'success' if episode['won'] else 'failure'}\n"
            )
    won = sum(episode["won"] for episode in episodes)
    mean = sum(episode["reward"] for episode in episodes) / max(len(episodes), 1)
    line = f"{what} {name}: success {won}/{len(episodes)}, mean reward {mean:.3f}"
    with (folder / "result.txt").open("a", encoding="utf-8") as file:
        file.write(f"{line}\n")
    print(f"{line}\nThat is in {folder / 'result.txt'}, every episode in {folder / 'result_episode.txt'}")
