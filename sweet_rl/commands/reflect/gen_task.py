"""The second step of AutoExplore's data: questions that the files of repositories answer.

Published behaviour: docs/published/reflect_rl.md#data-of-autoexplore.
"""

from __future__ import annotations

from sweet_rl import tracking
from sweet_rl.commands.recording import recorded
from sweet_rl.commands.reflect.teacher_flags import TeacherFlags, teacher_stage


@recorded("reflect gen_task", reads=("repo_dir",), prices=True)
@teacher_stage()
def gen_task(
    *,
    repo_dir: str = "data/auto_explore/repos_filtered",
    output: str = "data/auto_explore/tasks",
    flags: TeacherFlags,
    seed: int = 1,
    overwrite: bool = False,
    strict: bool = False,
    quiet: bool = False,
) -> None:
    """Let a teacher ask questions about files of every repository, with answers.

    Of each repository up to 100 files are drawn, none deeper than two folders. The same command goes on where
    it was stopped, and asks again where a reply could not be read.

    Args:
        repo_dir: the filtered repositories.
        output: folder of the task files, one for each repository and data.json with all.
        flags: who is asked.
        teacher: embedded (plain patterns in the files; needs no model), or openai: a model behind any
            OpenAI-compatible server.
        concurrency: files in work at once.
        seed: decides which files, which part of each, and the wording.
        overwrite: begin again.
        strict: the published draws and texts: files with replacement, patterns that see the whole path, every
            second line of a file's text empty.
        quiet: no progress bar.
    """
    from functools import partial
    from pathlib import Path

    from sweet_rl.commands.reflect.teachers import beside, make_teacher, say_failures, teach_all
    from sweet_rl.envs.explore.truncation import PIECES
    from sweet_rl.teaching.jobs import Done, Job, JobFile
    from sweet_rl.teaching.question_jobs import ask_about, plan_questions, write_questions
    from sweet_rl.teaching.questions import SourceFile
    from sweet_rl.teaching.teachers import Teacher

    source, data = Path(repo_dir), Path(output) / "data.json"
    planned = plan_questions(source, seed=seed, strict=strict)
    settings = flags.settings() | {"seed": seed, "strict": strict}

    async def ask(job: Job[SourceFile], teacher: Teacher) -> Done:
        return await ask_about(job, source, teacher, PIECES.count, seed=seed, strict=strict)

    with JobFile(beside(data, flags.name, "journal"), settings, overwrite=overwrite, output=data) as jobs:
        tracking.writes(data.parent, folder=True, continues=not overwrite)
        make = partial(make_teacher, flags, data)
        teach_all(jobs, planned, ask, make=make, at_once=flags.concurrency, unit="file", quiet=quiet)
        number = write_questions(data.parent, planned, jobs.results)
        print(f"{number} questions about {len(planned)} files are in {data}")
        say_failures(jobs, len(jobs.missing(planned)), "files", total=len(planned))
