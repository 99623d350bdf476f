"""The work of `evaluate_gpt` after its flags are checked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from sweet_rl import tracking
from sweet_rl.errors import EpisodeError
from sweet_rl.openai_client import RequestFailed
from sweet_rl.reflect_data.jobs import Done, Job, JobFile, beside, judge_episodes, teach_all
from sweet_rl.reflect_data.teachers import NO_EXPERT, Expert, Teacher, chance, play
from sweet_rl.reflect_data.texts import TeacherFlags
from sweet_rl.text_game import TextGame
from sweet_rl.types import Task, derive_seed
from sweet_rl.worlds.options import Measured
from sweet_rl.worlds.registry import world_of

if TYPE_CHECKING:
    from sweet_rl.commands.reflect.evaluate_gpt import EvaluateGptFlags

_OF_THE_GAMES = ("world", "random", "max_turns", "react", "tasks", "compat")
"""Flags that decide about the content of an episode."""


def run(games: EvaluateGptFlags, player: TeacherFlags, own: Any) -> None:
    """Play the missing episodes, and write the result."""
    folder, overwrite = Path(games.output), games.overwrite
    world = world_of(games.world)
    measured = world.measured(own, tasks=games.tasks, max_turns=games.max_turns)
    name = "random" if games.random else player.name
    journal = beside(folder / "result.txt", f"{games.world}.{name}", "journal")
    settings = {**player.settings(), **{name: getattr(games, name) for name in _OF_THE_GAMES}, **asdict(own)}
    planned = {f"run {number}": number for number in range(games.runs)}
    with world.games(measured.options) as make_game, JobFile(journal, settings, overwrite=overwrite) as jobs:
        tracking.writes(journal, continues=not overwrite)
        for file in ("result.txt", "result_episode.txt"):
            tracking.writes(folder / file, continues=True)

        def expert(game: TextGame, number: int) -> Expert:
            if games.random:
                return chance(game, derive_seed(number, "chance"))
            return world.expert(game) if player.teacher == "embedded" else NO_EXPERT

        async def episode(job: Job[int], teacher: Teacher) -> Done:
            task = measured.tasks[Random(job.item).randrange(len(measured.tasks))]
            game = make_game()
            return await _episode(games, measured, game, expert(game, job.item), task, teacher, job)

        asked = TeacherFlags() if games.random else player
        teach_all(jobs, planned, episode, asked, folder / "result.txt", unit="episode", quiet=games.quiet)
        if games.random:
            print("Measured: chance, which is the floor; no model was asked.")
        else:
            print(player.measured("knows the way and is the ceiling"))
        episodes = {key: jobs.results[key] for key in planned if key in jobs.results}
        _write(folder, f"{measured.name} {name}", episodes)
        judge_episodes(jobs, planned, max_failed=games.max_failed)


async def _episode(
    games: EvaluateGptFlags,
    measured: Measured,
    game: TextGame,
    expert: Expert,
    task: Task,
    teacher: Teacher,
    job: Job[int],
) -> Done:
    try:
        game.reset(task, seed=job.item)
        seed = derive_seed(job.item, job.attempt)
        played = await play(game, expert, teacher, seed=seed, react=games.react, compat=games.compat)
    except (EpisodeError, RequestFailed) as error:
        return Done(None, (error.failure,))
    finally:
        game.close()
    reward = round(-played.cost, 6)
    won = (
        reward > measured.published_return
        if games.compat == "published"
        else played.cost < game.success_threshold
    )
    result = {"task_id": task.task_id, "won": won, "reward": reward, "steps": played.steps}
    return Done(result, tuple(played.failures))


def _write(folder: Path, name: str, episodes: Mapping[str, Mapping[str, Any]]) -> None:
    """Add a line for each episode and one for all of them, as the published stage does."""
    won = sum(episode["won"] for episode in episodes.values())
    mean = sum(episode["reward"] for episode in episodes.values()) / max(len(episodes), 1)
    line = f"{name}: success {won}/{len(episodes)}, mean reward {mean:.3f}"
    told = (
        f"{name} {run}: reward {episode['reward']:g}, {episode['steps']} steps, "
        f"{'success' if episode['won'] else 'failure'}"
        for run, episode in episodes.items()
    )
    _add(folder / "result_episode.txt", told)
    _add(folder / "result.txt", [line])
    print(f"{line}\nThat is in {folder / 'result.txt'}, every episode in {folder / 'result_episode.txt'}")


def _add(path: Path, lines: Iterable[str]) -> None:
    """Add the lines that are not there yet: a run that goes on has its episodes of before."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+", encoding="utf-8") as file:
        file.seek(0)
        known = set(file.read().splitlines())
        file.writelines(f"{line}\n" for line in lines if line not in known)
