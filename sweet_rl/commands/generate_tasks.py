"""The lists of worlds as files."""

from __future__ import annotations

from dataclasses import dataclass

from sweet_rl import tracking
from sweet_rl.cli.stage import recorded, stage
from sweet_rl.errors import UsageError
from sweet_rl.flags.shared import NumTasks, OutputPath, Overwriting, Seeded, Source
from sweet_rl.worlds import first_for, world_of


@dataclass(frozen=True, kw_only=True)
class TaskFileFlags(OutputPath, Source, NumTasks, Seeded, Overwriting):
    """Tasks."""


@recorded("generate_tasks", reads=("source",))
@stage(
    "output_path",
    defaults={"num_tasks": 1000, "source": world_of(first_for("dialogue")).train_tasks},
    helps={
        "source": "the list of a world, with its options after a colon; an unknown one gets an error that lists all.",
        "num_tasks": "how many; the first ones of a larger number are the same.",
        "seed": "another seed gives other tasks.",
    },
)
def generate_tasks(flags: TaskFileFlags, /) -> None:
    """Write the tasks of a world's own list to a file, in ColBench's format.

    The same seed gives the same tasks on every machine; the train and test splits share none. Other stages
    also take the lists directly, as --input_path.
    """
    from sweet_rl.records import replace_rows
    from sweet_rl.runs import new_file
    from sweet_rl.worlds import all_worlds, load_tasks

    lists = [source for world in all_worlds() for source in world.sources]
    if flags.source.partition(":")[0] not in lists:
        raise UsageError(f"--source {flags.source!r} is no world's list. There are {', '.join(lists)}.")
    new_file(flags.output_path, "output_path", overwrite=flags.overwrite)
    tasks = load_tasks(flags.source, num_tasks=flags.num_tasks, seed=flags.seed)
    tracking.writes(flags.output_path)
    replace_rows(flags.output_path, (dict(task.row) for task in tasks))
    print(f"{len(tasks)} tasks of {flags.source} are in {flags.output_path}")
