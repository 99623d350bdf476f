"""The fourth step of AutoExplore's data: trajectories with reflections, right ones and wrong ones.

Published behaviour: docs/published/reflect_rl.md#data-of-autoexplore.
"""

from __future__ import annotations

from dataclasses import dataclass

from sweet_rl import tracking
from sweet_rl.command_line.recording import recorded
from sweet_rl.flags import flag
from sweet_rl.flags.common import Compatible, Overwriting, Quiet, Seeded
from sweet_rl.sft_data.flags import Markov, Output, TaskFile
from sweet_rl.sft_data.teacher_flags import TeacherFlags, teacher_stage
from sweet_rl.worlds.auto_explore.stages.flags import Repositories


@dataclass(frozen=True, kw_only=True)
class ReflectionNegativeFlags(TaskFile, Repositories, Output, Markov, Seeded, Overwriting, Compatible, Quiet):
    """The flags of this stage."""

    negatives: bool = flag(True, "make the wrong ways as well.")


@recorded("reflect reflection_negative", reads=("task_file", "repo_dir"), prices=True, resumes=True)
@teacher_stage(
    "task_file",
    defaults={"output": "", "task_file": "data/auto_explore/tasks_filtered/data.json"},
    helps={
        "task_file": "the filtered tasks.",
        "output": "the file to write; default data_reflection_negative.json beside task_file.",
        "max_turns": "steps of the right way at most.",
        "seed": "decides about the wrong files and the wording.",
        "overwrite": "begin again, without what the output has.",
        "compat": "fixed, or published: reflections and commands are paired by their place even where a reply could not be read, quoted names stay quoted, and both wrong ways may open the same file.",
        "concurrency": "trajectories in work at once.",
    },
)
def reflection_negative(flags: ReflectionNegativeFlags, teacher_flags: TeacherFlags, /) -> None:
    """Let a teacher do the tasks aloud, and find back from wrong files.

    Each task gets one trajectory of the right way and, for each file on its path, two that open another file
    there first. Where the output exists, what is missing in it is added (another teacher adds its own right
    ways). The same command resumes where it stopped.
    """
    from functools import partial
    from pathlib import Path

    from sweet_rl.sft_data.jobs import Done, Job, JobFile
    from sweet_rl.sft_data.runs import beside, make_teacher, say_failures, teach_all
    from sweet_rl.sft_data.teachers import Teacher
    from sweet_rl.sft_data.texts import read_list, write_list
    from sweet_rl.worlds.auto_explore.game import ExploreGame
    from sweet_rl.worlds.auto_explore.repositories.library import Library
    from sweet_rl.worlds.auto_explore.stages import STAGES
    from sweet_rl.worlds.auto_explore.teacher.lessons import Lesson, add_lessons, plan_lessons, teach

    target = (
        Path(flags.output)
        if flags.output
        else Path(flags.task_file).with_name("data_reflection_negative.json")
    )
    tasks = read_list(target if target.exists() and not flags.overwrite else Path(flags.task_file), STAGES)
    planned = plan_lessons(tasks, teacher_flags.name, negatives=flags.negatives)
    settings = teacher_flags.settings() | {
        "seed": flags.seed,
        "compat": flags.compat,
        "max_turns": flags.max_turns,
        "markov": flags.markov,
    }
    new_game = partial(ExploreGame, Library(flags.repo_dir), max_turns=flags.max_turns, compat=flags.compat)

    async def learn(job: Job[Lesson], teacher: Teacher) -> Done:
        return await teach(job, new_game, teacher, seed=flags.seed, markov=flags.markov, compat=flags.compat)

    with JobFile(beside(target, teacher_flags.name, "journal"), settings, overwrite=flags.overwrite) as jobs:
        for path in (jobs.path, target):
            tracking.writes(path, continues=not flags.overwrite)
        make = partial(make_teacher, teacher_flags, target)
        teach_all(
            jobs, planned, learn, make=make, at_once=teacher_flags.concurrency, unit="way", quiet=flags.quiet
        )
        complete = add_lessons(tasks, planned, jobs.results)
        write_list(target, complete)
        ways = [one["info"] for task in complete for one in task.get("trajectories") or []]
        right = sum(info.startswith("positive") for info in ways)
        wrong = len(ways) - right
        print(f"{len(complete)} tasks with {right} right ways and {wrong} wrong ones are in {target}")
        say_failures(jobs, len(jobs.missing(planned)), "trajectories", total=len(planned))
