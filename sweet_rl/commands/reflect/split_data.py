"""The fifth step of AutoExplore's data: tasks to train, validate and test on.

Published behaviour: docs/published/reflect_rl.md#data-of-autoexplore.
"""

from __future__ import annotations

from sweet_rl.commands.recording import recorded


@recorded("reflect split_data", reads=("task_file",))
def split_data(
    task_file: str,
    *,
    seed: int = 0,
    by_repo: bool = False,
    overwrite: bool = False,
    strict: bool = False,
) -> None:
    """Divide tasks 7:2:1 into train.json, validate.json, test.json beside the file.

    Args:
        task_file: tasks, as reflection_negative writes them. Those without a question are left out.
        seed: the same seed gives the same parts.
        by_repo: all tasks of a repository go to one part, so that tests are on repositories never seen.
        overwrite: replace what is there.
        strict: as published, each task by a draw of its own, so that the shares hold only about.
    """
    from pathlib import Path

    from sweet_rl.runs import new_file
    from sweet_rl.teaching.splits import SHARES, split_tasks
    from sweet_rl.teaching.texts import read_list, write_list

    source = Path(task_file)
    for name in SHARES:
        new_file(source.with_name(f"{name}.json"), "task_file in another folder", overwrite=overwrite)
    tasks = read_list(source)
    parts = split_tasks(tasks, seed=seed, by_repo=by_repo, strict=strict)
    for name, part in parts.items():
        write_list(source.with_name(f"{name}.json"), part)
        print(f"{len(part)} of {len(tasks)} tasks are in {source.with_name(f'{name}.json')}")
