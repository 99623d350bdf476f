"""The second step of AutoExplore's data: questions that the files of repositories answer.

Published behaviour: docs/published/reflect_rl.md#data-of-autoexplore.
"""

from __future__ import annotations

from dataclasses import dataclass

from sweet_rl import tracking
from sweet_rl.command_line.recording import recorded
from sweet_rl.flags.common import Compatible, Overwriting, Quiet, Seeded
from sweet_rl.sft_data.flags import Output
from sweet_rl.sft_data.teacher_flags import TeacherFlags, teacher_stage
from sweet_rl.worlds.auto_explore.stages.flags import Repositories


@dataclass(frozen=True, kw_only=True)
class GenTaskFlags(Repositories, Output, Seeded, Overwriting, Compatible, Quiet):
    """The flags of this stage."""


@recorded("reflect gen_task", reads=("repo_dir",), prices=True, resumes=True)
@teacher_stage(
    defaults={"output": "data/auto_explore/tasks", "seed": 1},
    helps={
        "repo_dir": "the filtered repositories.",
        "output": "folder of the task files, one for each repository and data.json with all.",
        "seed": "decides which files, which part of each, and the wording.",
        "overwrite": "begin again.",
        "compat": "fixed, or published: files with replacement, patterns that see the whole path, every second line of a file's text empty.",
        "teacher": "embedded (plain patterns in the files; needs no model), or openai: a model behind any OpenAI-compatible server.",
        "concurrency": "files in work at once.",
    },
)
def gen_task(flags: GenTaskFlags, teacher_flags: TeacherFlags, /) -> None:
    """Let a teacher ask questions about files of every repository, with answers.

    Of each repository up to 100 files are drawn, none deeper than two folders. The same command resumes where
    it stopped, and asks again where a reply could not be read.
    """
    from functools import partial
    from pathlib import Path

    from sweet_rl.sft_data.jobs import Done, Job, JobFile
    from sweet_rl.sft_data.runs import beside, make_teacher, say_failures, teach_all
    from sweet_rl.sft_data.teachers import Teacher
    from sweet_rl.worlds.auto_explore.teacher.question_jobs import (
        ALL_QUESTIONS,
        ask_about,
        plan_questions,
        write_questions,
    )
    from sweet_rl.worlds.auto_explore.teacher.questions import SourceFile
    from sweet_rl.worlds.auto_explore.truncation import PIECES

    source, data = Path(flags.repo_dir), Path(flags.output) / ALL_QUESTIONS
    planned = plan_questions(source, seed=flags.seed, compat=flags.compat)
    settings = teacher_flags.settings() | {"seed": flags.seed, "compat": flags.compat}

    async def ask(job: Job[SourceFile], teacher: Teacher) -> Done:
        return await ask_about(job, source, teacher, PIECES.count, seed=flags.seed, compat=flags.compat)

    with JobFile(
        beside(data, teacher_flags.name, "journal"), settings, overwrite=flags.overwrite, output=data
    ) as jobs:
        tracking.writes(data.parent, folder=True, continues=not flags.overwrite)
        make = partial(make_teacher, teacher_flags, data)
        teach_all(
            jobs, planned, ask, make=make, at_once=teacher_flags.concurrency, unit="file", quiet=flags.quiet
        )
        number = write_questions(data.parent, planned, jobs.results)
        print(f"{number} questions about {len(planned)} files are in {data}")
        say_failures(jobs, len(jobs.missing(planned)), "files", total=len(planned))
