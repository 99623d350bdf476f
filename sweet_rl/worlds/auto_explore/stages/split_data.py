"""The fifth step of AutoExplore's data: tasks to train, validate and test on.

Published behaviour: docs/published/reflect_rl.md#data-of-autoexplore.
"""

from __future__ import annotations

from dataclasses import dataclass

from sweet_rl.command_line.recording import recorded
from sweet_rl.command_line.stages import stage
from sweet_rl.flags import flag
from sweet_rl.flags.common import Compatible, Overwriting, Seeded
from sweet_rl.sft_data.flags import TaskFile


@dataclass(frozen=True, kw_only=True)
class SplitDataFlags(TaskFile, Seeded, Overwriting, Compatible):
    """The flags of this stage."""

    by_repo: bool = flag(
        False, "all tasks of a repository go to one part, so that tests are on repositories never seen."
    )


@recorded("reflect split_data", reads=("task_file",))
@stage(
    "task_file",
    helps={
        "task_file": "tasks, as reflection_negative writes them. Those without a question are left out.",
        "seed": "the same seed gives the same parts.",
        "compat": "fixed, or published: each task by a draw of its own, so that the shares hold only about.",
    },
)
def split_data(flags: SplitDataFlags, /) -> None:
    """Divide tasks 7:2:1 into train.json, validate.json, test.json beside the file."""
    from pathlib import Path

    from sweet_rl.runs import new_file
    from sweet_rl.sft_data.texts import read_list, write_list
    from sweet_rl.worlds.auto_explore.stages import STAGES
    from sweet_rl.worlds.auto_explore.teacher.splits import SHARES, split_tasks

    source = Path(flags.task_file)
    for name in SHARES:
        new_file(source.with_name(f"{name}.json"), "task_file in another folder", overwrite=flags.overwrite)
    tasks = read_list(source, STAGES)
    parts = split_tasks(tasks, seed=flags.seed, by_repo=flags.by_repo, compat=flags.compat)
    for name, part in parts.items():
        write_list(source.with_name(f"{name}.json"), part)
        print(f"{len(part)} of {len(tasks)} tasks are in {source.with_name(f'{name}.json')}")
