"""The third step of AutoExplore's data: tasks that can be played, each once.

Published behaviour: docs/published/reflect_rl.md#data-of-autoexplore.
"""

from __future__ import annotations

from sweet_rl.commands.recording import recorded


@recorded("reflect filter_task", reads=("task_file", "repo_dir"))
def filter_task(
    task_file: str,
    *,
    repo_dir: str = "data/auto_explore/repos_filtered",
    output: str = "data/auto_explore/tasks_filtered/data.json",
    overwrite: bool = False,
    strict: bool = False,
) -> None:
    """Drop tasks that cannot be asked or played, and join duplicates.

    Args:
        task_file: a file of tasks, or a folder of them (where there are others, data.json is left aside).
        repo_dir: the repositories that they are about.
        output: the file to write.
        overwrite: replace what is there.
        strict: as published, a task with a blank in its file's name goes.
    """
    from pathlib import Path

    from sweet_rl.errors import UsageError
    from sweet_rl.runs import new_file
    from sweet_rl.teaching.task_filter import clean_tasks
    from sweet_rl.teaching.texts import read_list, write_list
    from sweet_rl.tracking import is_record

    new_file(output, "output", overwrite=overwrite)
    source = Path(task_file)
    files = [source]
    if source.is_dir():
        files = [file for file in sorted(source.glob("*.json")) if not is_record(file)]
        files = [file for file in files if file.name != "data.json"] or files
        if not files:
            raise UsageError(f"There is no .json file in {task_file!r}; gen_task writes such files.")
    tasks = [task for file in files for task in read_list(file)]
    if not Path(repo_dir).is_dir():
        raise UsageError(f"There is no folder {repo_dir!r}. --repo_dir names the filtered repositories.")
    cleaned = clean_tasks(tasks, Path(repo_dir), strict=strict)
    write_list(Path(output), cleaned.tasks)
    print(f"{len(cleaned.tasks)} of {len(tasks)} tasks are in {output}")
    if cleaned.dropped:
        reasons = ", ".join(f"{count} {reason}" for reason, count in cleaned.dropped.most_common())
        print(f"Dropped: {reasons}")
