"""AutoExplore played by a model as it is, in the talk that data is generated with.

Published behaviour: docs/published/reflect_rl.md#evaluation.
"""

from __future__ import annotations

from sweet_rl.commands.recording import recorded
from sweet_rl.commands.reflect.teacher_flags import TeacherFlags, teacher_stage


@recorded("reflect auto_explore_gpt", reads=("task_file", "repo_dir"), prices=True)
@teacher_stage()
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
    flags: TeacherFlags,
    seed: int = 0,
    overwrite: bool = False,
    strict: bool = False,
    max_failed: float = 0.02,
    quiet: bool = False,
) -> None:
    """Let a model do tasks of AutoExplore, and print its success on every level.

    A model is named by --teacher openai --base_url URL --model NAME. Without these flags none is measured:
    the embedded player is, and the result says so.

    An episode that fails for want of a service is in no number; the same command plays it again, and goes on
    where it was stopped.

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
        flags: who is asked.
        teacher: embedded (no model: a player of our own that sees what a model sees, and knows of a file that
            it opened whether it is right), or openai: a model behind an OpenAI-compatible server.
        concurrency: episodes in flight.
        seed: of the model's draws.
        overwrite: begin again.
        strict: targets, levels and costs as published, and an episode that fails is one that is not won.
        max_failed: share of the episodes that may fail for want of a service; with more, the exit is 1.
        quiet: no progress bar.
    """
    from pathlib import Path

    from sweet_rl.commands.reflect.explore_runs import ExploreFlags, run
    from sweet_rl.errors import UsageError
    from sweet_rl.tasks.curriculum import LevelFlags

    if eval_reps < 1:
        raise UsageError(f"--eval_reps must be at least 1, got {eval_reps}.")
    levels = LevelFlags(
        depth_curriculum=depth_curriculum,
        merge_first_two=merge_first_two,
        merge_after_first_k=merge_after_first_k,
        strict=strict,
    )
    games = ExploreFlags(task_file, repo_dir, eval_reps, horizon, markov, levels, seed, strict, max_failed)
    run(games, flags, Path(output), overwrite=overwrite, quiet=quiet)
