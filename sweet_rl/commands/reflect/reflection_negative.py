"""The fourth step of AutoExplore's data: trajectories with reflections, right ones and wrong ones.

Published behaviour: docs/published/reflect_rl.md#data-of-autoexplore.
"""

from __future__ import annotations

from sweet_rl import tracking
from sweet_rl.commands.recording import recorded
from sweet_rl.commands.reflect.teacher_flags import TeacherFlags, teacher_stage


@recorded("reflect reflection_negative", reads=("task_file", "repo_dir"), prices=True)
@teacher_stage()
def reflection_negative(
    *,
    task_file: str = "data/auto_explore/tasks_filtered/data.json",
    repo_dir: str = "data/auto_explore/repos_filtered",
    output: str | None = None,
    negatives: bool = True,
    horizon: int = 15,
    markov: bool = False,
    flags: TeacherFlags,
    seed: int = 0,
    overwrite: bool = False,
    strict: bool = False,
    quiet: bool = False,
) -> None:
    """Let a teacher do the tasks aloud, and find back from wrong files.

    Each task gets one trajectory of the right way and, for each file on its path, two that open another file
    there first. Where the output exists, what is missing in it is added (another teacher adds its own right
    ways). The same command goes on where it was stopped.

    Args:
        task_file: the filtered tasks.
        repo_dir: the repositories that they are about.
        output: the file to write; default data_reflection_negative.json beside task_file.
        negatives: make the wrong ways as well.
        horizon: steps of the right way at most.
        markov: a model is shown nothing of earlier steps.
        flags: who is asked.
        concurrency: trajectories in work at once.
        seed: decides about the wrong files and the wording.
        overwrite: begin again, without what the output has.
        strict: the published records: reflections and commands are paired by their place even where a reply
            could not be read, quoted names stay quoted, and both wrong ways may open the same file.
        quiet: no progress bar.
    """
    from functools import partial
    from pathlib import Path

    from sweet_rl.commands.reflect.teachers import beside, make_teacher, say_failures, teach_all
    from sweet_rl.envs.explore.game import ExploreGame
    from sweet_rl.repositories.library import Library
    from sweet_rl.teaching.explore_lessons import Lesson, add_lessons, plan_lessons, teach
    from sweet_rl.teaching.jobs import Done, Job, JobFile
    from sweet_rl.teaching.teachers import Teacher
    from sweet_rl.teaching.texts import read_list, write_list

    target = Path(output) if output else Path(task_file).with_name("data_reflection_negative.json")
    tasks = read_list(target if target.exists() and not overwrite else Path(task_file))
    planned = plan_lessons(tasks, flags.name, negatives=negatives)
    settings = flags.settings() | {"seed": seed, "strict": strict, "horizon": horizon, "markov": markov}
    new_game = partial(ExploreGame, Library(repo_dir), horizon=horizon, strict=strict)

    async def learn(job: Job[Lesson], teacher: Teacher) -> Done:
        return await teach(job, new_game, teacher, seed=seed, markov=markov, strict=strict)

    with JobFile(beside(target, flags.name, "journal"), settings, overwrite=overwrite) as jobs:
        for path in (jobs.path, target):
            tracking.writes(path, continues=not overwrite)
        make = partial(make_teacher, flags, target)
        teach_all(jobs, planned, learn, make=make, at_once=flags.concurrency, unit="way", quiet=quiet)
        complete = add_lessons(tasks, planned, jobs.results)
        write_list(target, complete)
        ways = [one["info"] for task in complete for one in task.get("trajectories") or []]
        right = sum(info.startswith("positive") for info in ways)
        wrong = len(ways) - right
        print(f"{len(complete)} tasks with {right} right ways and {wrong} wrong ones are in {target}")
        say_failures(jobs, len(jobs.missing(planned)), "trajectories", total=len(planned))
