"""AutoExplore played by a model as it is, in the talk that data is generated with."""

from __future__ import annotations


def auto_explore_gpt(
    *,
    task_file: str = "data/auto_explore/tasks_filtered/test.json",
    repo_dir: str = "data/auto_explore/repos_filtered",
    eval_reps: int = 10,
    horizon: int = 15,
    markov: bool = False,
    depth_curriculum: bool = False,
    merge_first_two: bool = False,
    merge_after_first_k: int = 3,
    output: str = "results/auto_explore_gpt.json",
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
    """Let a model do tasks of AutoExplore, and print its success on every level (Reflect-RL spec §8).

    An episode that cannot go on counts as a failure. The same command goes on where it was stopped.

    Args:
        task_file: the tasks.
        repo_dir: the repositories that they are about.
        eval_reps: episodes of every task.
        horizon: steps of an episode at most.
        markov: the model is shown nothing of earlier steps.
        depth_curriculum: levels by the depth of the files; else there is one.
        merge_first_two: the two shallowest levels are one.
        merge_after_first_k: so many levels stay, the rest are one.
        output: the file of results; beside it is a journal of the episodes.
        teacher: embedded (knows the way: the ceiling), or openai: a model behind an OpenAI-compatible server.
        base_url: for openai: the server, like https://host/v1; several, separated by commas, share the load.
        model: for openai: the server's name for the model.
        api_key_var: for openai: environment variable that holds the key.
        request_timeout_s: for openai: seconds that one request may take.
        request_attempts: for openai: how often a request is tried when it fails in a way that can pass.
        concurrency: episodes in flight.
        seed: of the model's draws.
        overwrite: begin again.
        strict: targets, levels and costs as published.
        quiet: no progress bar.
    """
    from pathlib import Path

    from sweet_rl.commands.reflect.teachers import TeacherFlags, beside, run_until_stopped, say_failures
    from sweet_rl.commands.running import progress
    from sweet_rl.envs.explore.game import ExploreGame
    from sweet_rl.errors import UsageError
    from sweet_rl.records import task_from_row
    from sweet_rl.repositories.library import Library
    from sweet_rl.tasks.curriculum import LevelFlags, levels_of
    from sweet_rl.tasks.explore import load_dataset, task_rows
    from sweet_rl.teaching.explore_episodes import play_explore
    from sweet_rl.teaching.jobs import Done, Job, JobFile
    from sweet_rl.teaching.texts import write_list
    from sweet_rl.types import Task, derive_seed

    flags = TeacherFlags(
        teacher, base_url, model, api_key_var, request_timeout_s, request_attempts, concurrency
    )
    flags.check()
    if eval_reps < 1:
        raise UsageError(f"--eval_reps must be at least 1, got {eval_reps}.")
    level_flags = LevelFlags(
        depth_curriculum=depth_curriculum,
        merge_first_two=merge_first_two,
        merge_after_first_k=merge_after_first_k,
        strict=strict,
    )
    rows = task_rows(load_dataset(task_file, strict=strict), strict=strict)
    levels = levels_of(
        [task_from_row(row) for row in rows],
        level_flags,
        paths=lambda task: [str(path) for path in task.extra["targets"]],
        question=lambda task: task.problem_description,
    )
    planned = {
        f"level {at} task {number} repeat {repeat}": task
        for at, level in enumerate(levels)
        for number, task in enumerate(level)
        for repeat in range(eval_reps)
    }
    if not planned:
        raise UsageError(f"{task_file!r} holds no task that can be played.")
    library = Library(repo_dir)
    target = Path(output)
    journal = beside(target, flags.name, "journal")
    settings = flags.settings() | {"seed": seed, "horizon": horizon, "markov": markov, "strict": strict}
    with JobFile(journal, settings, overwrite=overwrite) as jobs:
        todo = jobs.missing(planned)
        bar = progress(len(planned), len(planned) - len(todo), unit="episode", quiet=quiet)

        async def work() -> None:
            player = flags.make(target)

            async def one(job: Job[Task]) -> Done:
                game = ExploreGame(library, horizon=horizon, strict=strict)
                own_seed = derive_seed(seed, job.key, job.attempt)
                return await play_explore(job.item, game, player, seed=own_seed, markov=markov)

            try:
                await jobs.do(todo, one, at_once=concurrency, on_done=bar.update)
            finally:
                await player.close()
                bar.close()

        run_until_stopped(work(), journal)
        results = []
        for at in range(len(levels)):
            won = [jobs.results[key]["won"] for key in planned if key.startswith(f"level {at} ")]
            results.append({"level": at, "episodes": len(won), "success": sum(won) / max(len(won), 1)})
            print(f"Level {at}: {100 * results[-1]['success']:.2f}%")
        write_list(target, results)
        say_failures(jobs, 0, "episodes")
