"""The last step of AutoExplore's data: texts that the two models are trained on.

Published behaviour: docs/published/reflect_rl.md#data-of-autoexplore.
"""

from __future__ import annotations

from sweet_rl.commands.recording import recorded


@recorded("reflect gen_sft", reads=("task_file", "repo_dir"))
def gen_sft(
    task_file: str,
    *,
    repo_dir: str = "data/auto_explore/repos_filtered",
    output: str | None = None,
    overwrite: bool = False,
    strict: bool = False,
    quiet: bool = False,
) -> None:
    """Replay the trajectories of tasks and write training texts beside their file.

    sft.jsonl is for a policy alone, sft_reflection.jsonl for the reflection model, sft_policy.jsonl for a
    policy that reads reflections; the last two also without wrong ways, as *_positive.jsonl.

    Args:
        task_file: tasks with trajectories, usually train.json.
        repo_dir: the repositories that they are about.
        output: folder of the texts; default that of task_file.
        overwrite: replace what is there.
        strict: texts of the published game, which has other quotes around odd names.
        quiet: no progress bar.
    """
    from pathlib import Path

    from sweet_rl.commands.running import progress
    from sweet_rl.envs.explore.game import ExploreGame
    from sweet_rl.repositories.library import Library
    from sweet_rl.teaching.explore_sft import explore_texts
    from sweet_rl.teaching.texts import read_list

    source = Path(task_file)
    tasks = read_list(source)
    library = Library(repo_dir)
    bar = progress(len(tasks), 0, unit="task", quiet=quiet)
    texts = explore_texts(
        tasks,
        lambda steps: ExploreGame(library, horizon=steps, strict=strict),
        on_done=bar.update,
    )
    bar.close()
    folder = Path(output) if output else source.parent
    texts.write(folder, overwrite=overwrite)
    print("\n".join(texts.summary(folder)))
