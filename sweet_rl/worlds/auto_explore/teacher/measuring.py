"""The work of `auto_explore_gpt` after its flags are checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from sweet_rl import tracking
from sweet_rl.errors import EpisodeError, UsageError
from sweet_rl.openai_client import RequestFailed
from sweet_rl.records import task_from_row
from sweet_rl.reflect_data.jobs import Done, Job, JobFile, beside, judge_episodes, make_teacher, teach_all
from sweet_rl.reflect_data.teachers import Teacher, of_the_model
from sweet_rl.reflect_data.texts import TeacherFlags, write_list
from sweet_rl.types import Compat, Failure, Json, Task, derive_seed
from sweet_rl.worlds.auto_explore.game import ExploreGame
from sweet_rl.worlds.auto_explore.levels import LevelFlags, levels_of
from sweet_rl.worlds.auto_explore.repositories.library import Library
from sweet_rl.worlds.auto_explore.tasks import load_dataset, task_rows
from sweet_rl.worlds.auto_explore.teacher.talk import ExploreTalk

if TYPE_CHECKING:
    from sweet_rl.worlds.auto_explore.stages import AutoExploreGptFlags


async def play_explore(
    task: Task,
    game: ExploreGame,
    player: Teacher,
    *,
    seed: int,
    markov: bool = False,
    compat: Compat = "fixed",
) -> Done:
    """Play a task to its end; the result has `won`, `cost`, and the commands.

    An episode that the model cannot continue is not won. One that the service or the world broke off has no
    result; `compat="published"`: it is not won either.
    """
    failures: list[Failure] = []
    cost, broken = 0.0, False
    try:
        game.reset(task, seed=seed)
        talk = ExploreTalk(game, task.problem_description, player, seed=seed, markov=markov)
        over = False
        while not over:
            turn = await talk.turn()
            over, cost = turn.moved.over, talk.cost
            if turn.failure:
                failures.append(turn.failure)
        won = cost < game.success_threshold
    except (RequestFailed, EpisodeError) as error:
        failures.append(error.failure)
        won = False
        broken = compat == "fixed" and not (isinstance(error, RequestFailed) and of_the_model(error))
    finally:
        game.close()
    if broken:
        return Done(None, tuple(failures))
    commands = list(getattr(game, "history", ()))
    return Done({"task_id": task.task_id, "won": won, "cost": cost, "commands": commands}, tuple(failures))


def run(games: AutoExploreGptFlags, player: TeacherFlags) -> None:
    """Play the missing episodes, then print and write the success rate of every level."""
    output, overwrite = Path(games.output), games.overwrite
    levels = _plan(games)
    planned = {key: task for level in levels for key, task in level.items()}
    if not planned:
        raise UsageError(f"{games.task_file!r} holds no task that can be played.")
    new_game = partial(ExploreGame, Library(games.repo_dir), max_turns=games.max_turns, compat=games.compat)
    settings = player.settings() | {
        "seed": games.seed,
        "max_turns": games.max_turns,
        "markov": games.markov,
        "compat": games.compat,
    }

    async def episode(job: Job[Task], teacher: Teacher) -> Done:
        own_seed = derive_seed(games.seed, job.key, job.attempt)
        return await play_explore(
            job.item, new_game(), teacher, seed=own_seed, markov=games.markov, compat=games.compat
        )

    with JobFile(
        beside(output, player.name, "journal"), settings, overwrite=overwrite, output=output
    ) as jobs:
        for path in (jobs.path, output):
            tracking.writes(path, continues=not overwrite)
        make = partial(make_teacher, player, output)
        teach_all(
            jobs, planned, episode, make=make, at_once=player.concurrency, unit="episode", quiet=games.quiet
        )
        print(
            player.measured("sees what a model sees, and knows of a file that it opened whether it is right")
        )
        results = [{**row, "player": player.name} for row in success_by_level(levels, jobs.results)]
        for row in results:
            share = (
                "no episode was played to its end"
                if row["success"] is None
                else f"{100 * row['success']:.2f}%"
            )
            print(f"Level {row['level']}: {share}")
        write_list(output, results)
        print(f"That is in {output}")
        judge_episodes(jobs, planned, max_failed=games.max_failed)


def _plan(games: AutoExploreGptFlags) -> list[dict[str, Task]]:
    """The episodes of every level, by key."""
    records = load_dataset(games.task_file, compat=games.compat)
    levels = levels_of(
        [task_from_row(row) for row in task_rows(records, compat=games.compat)],
        LevelFlags(
            depth_curriculum=games.depth_curriculum,
            merge_first_two=games.merge_first_two,
            merge_after_first_k=games.merge_after_first_k,
            compat=games.compat,
        ),
        paths=lambda task: [str(path) for path in task.extra["targets"]],
        question=lambda task: task.problem_description,
    )
    return [
        {
            f"level {at} task {number} repeat {repeat}": task
            for number, task in enumerate(level)
            for repeat in range(games.eval_reps)
        }
        for at, level in enumerate(levels)
    ]


def success_by_level(
    levels: Sequence[Mapping[str, Task]], played: Mapping[str, Json]
) -> list[dict[str, Json]]:
    """`level`, `episodes`, `failed` and `success` (of 1, of the episodes that did not fail) of every level."""
    results: list[dict[str, Json]] = []
    for at, episodes in enumerate(levels):
        won = [played[key]["won"] for key in episodes if key in played]
        success = sum(won) / len(won) if won else None
        failed = len(episodes) - len(won)
        results.append({"level": at, "episodes": len(won), "failed": failed, "success": success})
    return results
