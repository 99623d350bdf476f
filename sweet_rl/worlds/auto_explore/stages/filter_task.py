"""The third step of AutoExplore's data: tasks that can be played, each once.

Published behaviour: docs/published/reflect_rl.md#data-of-autoexplore.
"""

from __future__ import annotations

from dataclasses import dataclass

from sweet_rl.command_line.recording import recorded
from sweet_rl.command_line.stages import stage
from sweet_rl.flags.common import Compatible, Overwriting
from sweet_rl.sft_data.flags import Output, TaskFile
from sweet_rl.worlds.auto_explore.stages.flags import Repositories


@dataclass(frozen=True, kw_only=True)
class FilterTaskFlags(TaskFile, Repositories, Output, Overwriting, Compatible):
    """The flags of this stage."""


@recorded("reflect filter_task", reads=("task_file", "repo_dir"))
@stage(
    "task_file",
    defaults={"output": "data/auto_explore/tasks_filtered/data.json"},
    helps={
        "task_file": "a file of tasks, or a folder of them (beside others, data.json counts only for a repository called data).",
        "compat": "fixed, or published: a task with a blank in its file's name is dropped.",
    },
)
def filter_task(flags: FilterTaskFlags, /) -> None:
    """Drop tasks that cannot be asked or played, and join duplicates."""
    from pathlib import Path

    from sweet_rl.errors import UsageError
    from sweet_rl.runs import new_file
    from sweet_rl.sft_data.texts import read_list, write_list
    from sweet_rl.tracking import is_record
    from sweet_rl.worlds.auto_explore.stages import STAGES
    from sweet_rl.worlds.auto_explore.teacher.question_jobs import ALL_QUESTIONS
    from sweet_rl.worlds.auto_explore.teacher.task_filter import clean_tasks

    new_file(flags.output, "output", overwrite=flags.overwrite)
    source = Path(flags.task_file)
    files = [source]
    if source.is_dir():
        files = [file for file in sorted(source.glob("*.json")) if not is_record(file)]
        if not files:
            raise UsageError(f"There is no .json file in {flags.task_file!r}; gen_task writes such files.")
    tasks = [
        task
        for file in files
        for task in read_list(file, STAGES)
        if len(files) == 1 or file.name != ALL_QUESTIONS or task.get("root") == file.stem
    ]
    if not Path(flags.repo_dir).is_dir():
        raise UsageError(
            f"There is no folder {flags.repo_dir!r}. --repo_dir names the filtered repositories."
        )
    cleaned = clean_tasks(tasks, Path(flags.repo_dir), compat=flags.compat)
    write_list(Path(flags.output), cleaned.tasks)
    print(f"{len(cleaned.tasks)} of {len(tasks)} tasks are in {flags.output}")
    if cleaned.dropped:
        reasons = ", ".join(f"{count} {reason}" for reason, count in cleaned.dropped.most_common())
        print(f"Dropped: {reasons}")
