"""The fourth step of AutoExplore's data: trajectories with reflections, right ones and wrong ones."""

from __future__ import annotations


def reflection_negative(
    *,
    task_file: str = "data/auto_explore/tasks_filtered/data.json",
    repo_dir: str = "data/auto_explore/repos_filtered",
    output: str | None = None,
    negatives: bool = True,
    horizon: int = 15,
    markov: bool = False,
    teacher: str = "embedded",
    base_url: str | None = None,
    model: str = "gpt-4",
    api_key_var: str = "OPENAI_API_KEY",
    request_timeout_s: float = 120.0,
    request_attempts: int = 4,
    concurrency: int = 16,
    seed: int = 0,
    overwrite: bool = False,
    strict: bool = False,
    quiet: bool = False,
) -> None:
    """Let a teacher do the tasks aloud, and find back from wrong files (Reflect-RL spec §2.1.4).

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
        teacher: embedded (knows the way and has sentences of its own; needs no model), or openai: a model
            behind any OpenAI-compatible server.
        base_url: for openai: the server, like https://host/v1; several, separated by commas, share the load.
        model: for openai: the server's name for the model.
        api_key_var: for openai: environment variable that holds the key.
        request_timeout_s: for openai: seconds that one request may take.
        request_attempts: for openai: how often a request is tried when it fails in a way that can pass.
        concurrency: trajectories in work at once.
        seed: decides about the wrong files and the wording.
        overwrite: begin again, without what the output has.
        strict: the published records: reflections and commands are paired by their place even where a reply
            could not be read, quoted names stay quoted, and both wrong ways may open the same file.
        quiet: no progress bar.
    """
    from pathlib import Path

    from sweet_rl.commands.reflect.teachers import TeacherFlags, beside, run_until_stopped, say_failures
    from sweet_rl.commands.running import progress
    from sweet_rl.envs.explore.game import ExploreGame
    from sweet_rl.repositories.library import Library
    from sweet_rl.teaching.explore_lessons import Lesson, add_lessons, plan_lessons, teach
    from sweet_rl.teaching.jobs import Done, Job, JobFile
    from sweet_rl.teaching.texts import read_list, write_list

    flags = TeacherFlags(
        teacher, base_url, model, api_key_var, request_timeout_s, request_attempts, concurrency
    )
    flags.check()
    target = Path(output) if output else Path(task_file).with_name("data_reflection_negative.json")
    tasks = read_list(target if target.exists() and not overwrite else Path(task_file))
    library = Library(repo_dir)
    planned = plan_lessons(tasks, flags.name, negatives=negatives)
    settings = flags.settings() | {"seed": seed, "strict": strict, "horizon": horizon, "markov": markov}
    journal = beside(target, flags.name, "journal")
    with JobFile(journal, settings, overwrite=overwrite) as jobs:
        todo = jobs.missing(planned)
        bar = progress(len(planned), len(planned) - len(todo), unit="way", quiet=quiet)

        async def work() -> None:
            asked = flags.make(target)

            async def one(job: Job[Lesson]) -> Done:
                return await teach(
                    job,
                    lambda: ExploreGame(library, horizon=horizon, strict=strict),
                    asked,
                    seed=seed,
                    markov=markov,
                    strict=strict,
                )

            try:
                await jobs.do(todo, one, at_once=concurrency, on_done=bar.update)
            finally:
                await asked.close()
                bar.close()

        run_until_stopped(work(), journal)
        complete = add_lessons(tasks, planned, jobs.results)
        write_list(target, complete)
        ways = [one["info"] for task in complete for one in task.get("trajectories") or []]
        right = sum(info.startswith("positive") for info in ways)
        wrong = len(ways) - right
        print(f"{len(complete)} tasks with {right} right ways and {wrong} wrong ones are in {target}")
        say_failures(jobs, len(jobs.missing(planned)), "trajectories")
