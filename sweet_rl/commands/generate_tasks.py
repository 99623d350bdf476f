"""The embedded benchmarks as files."""

from __future__ import annotations

from dataclasses import dataclass

from sweet_rl import tracking
from sweet_rl.command_line.recording import recorded
from sweet_rl.command_line.stages import stage
from sweet_rl.errors import UsageError
from sweet_rl.flags.common import NumTasks, OutputPath, Overwriting, Seeded, Source


@dataclass(frozen=True, kw_only=True)
class TaskFileFlags(OutputPath, Source, NumTasks, Seeded, Overwriting):
    """Tasks."""


@recorded("generate_tasks", reads=("source",))
@stage(
    "output_path",
    defaults={"source": "mini:train"},
    helps={
        "source": "mini:train or mini:test; mini-web:train or mini-web:test for web pages.",
        "num_tasks": "how many; the first ones of a larger number are the same.",
        "seed": "another seed gives other tasks.",
    },
)
def generate_tasks(flags: TaskFileFlags, /) -> None:
    """Write tasks of an embedded benchmark as a ColBench file: functions (mini) or web pages (mini-web).

    The same seed gives the same tasks on every machine; the train and test splits share none. Other stages
    also take mini:train, mini-web:test and so on directly as --input_path.
    """
    from sweet_rl.records import replace_rows
    from sweet_rl.runs import new_file
    from sweet_rl.worlds import load_tasks

    if not flags.source.startswith(("mini:", "mini-web:")):
        raise UsageError(
            f"--source must be mini:train, mini:test, mini-web:train or mini-web:test, got {flags.source!r}."
        )
    new_file(flags.output_path, "output_path", overwrite=flags.overwrite)
    tasks = load_tasks(flags.source, limit=flags.num_tasks, seed=flags.seed)
    tracking.writes(flags.output_path)
    replace_rows(flags.output_path, (dict(task.row) for task in tasks))
    print(f"{len(tasks)} tasks of {flags.source} are in {flags.output_path}")
