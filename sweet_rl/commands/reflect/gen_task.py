"""The second step of AutoExplore's data: questions that the files of repositories answer."""

from __future__ import annotations


def gen_task(
    *,
    repo_dir: str = "data/auto_explore/repos_filtered",
    output: str = "data/auto_explore/tasks",
    teacher: str = "embedded",
    base_url: str | None = None,
    model: str = "gpt-4",
    api_key_var: str = "OPENAI_API_KEY",
    request_timeout_s: float = 120.0,
    request_attempts: int = 4,
    concurrency: int = 16,
    seed: int = 1,
    overwrite: bool = False,
    strict: bool = False,
    quiet: bool = False,
) -> None:
    """Let a teacher ask questions about files of every repository, with answers (Reflect-RL spec §2.1.2).

    Of each repository up to 100 files are drawn, none deeper than two folders. The same command goes on where
    it was stopped, and asks again where a reply could not be read.

    Args:
        repo_dir: the filtered repositories.
        output: folder of the task files, one for each repository and data.json with all.
        teacher: embedded (plain patterns in the files; needs no model), or openai: a model behind any
            OpenAI-compatible server.
        base_url: for openai: the server, like https://host/v1; several, separated by commas, share the load.
        model: for openai: the server's name for the model.
        api_key_var: for openai: environment variable that holds the key.
        request_timeout_s: for openai: seconds that one request may take.
        request_attempts: for openai: how often a request is tried when it fails in a way that can pass.
        concurrency: files in work at once.
        seed: decides which files, which part of each, and the wording.
        overwrite: begin again.
        strict: the published draws and texts: files with replacement, patterns that see the whole path, every
            second line of a file's text empty.
        quiet: no progress bar.
    """
    from pathlib import Path

    from sweet_rl.commands.reflect.teachers import TeacherFlags, beside, run_until_stopped, say_failures
    from sweet_rl.commands.running import progress
    from sweet_rl.envs.explore.truncation import PIECES
    from sweet_rl.teaching.jobs import Done, Job, JobFile
    from sweet_rl.teaching.question_jobs import ask_about, plan_questions, write_questions
    from sweet_rl.teaching.questions import SourceFile

    flags = TeacherFlags(
        teacher, base_url, model, api_key_var, request_timeout_s, request_attempts, concurrency
    )
    flags.check()
    source, folder = Path(repo_dir), Path(output)
    planned = plan_questions(source, seed=seed, strict=strict)
    settings = flags.settings() | {"seed": seed, "strict": strict}
    journal = beside(folder / "data.json", flags.name, "journal")
    with JobFile(journal, settings, overwrite=overwrite) as jobs:
        todo = jobs.missing(planned)
        bar = progress(len(planned), len(planned) - len(todo), unit="file", quiet=quiet)

        async def work() -> None:
            asked = flags.make(folder / "data.json")

            async def one(job: Job[SourceFile]) -> Done:
                return await ask_about(job, source, asked, PIECES.count, seed=seed, strict=strict)

            try:
                await jobs.do(todo, one, at_once=concurrency, on_done=bar.update)
            finally:
                await asked.close()
                bar.close()

        run_until_stopped(work(), journal)
        number = write_questions(folder, planned, jobs.results)
        print(f"{number} questions about {len(planned)} files are in {folder / 'data.json'}")
        say_failures(jobs, len(jobs.missing(planned)), "files")
