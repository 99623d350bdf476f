"""The embedded benchmarks as files."""

from __future__ import annotations

from sweet_rl import tracking
from sweet_rl.command_line.recording import recorded
from sweet_rl.errors import UsageError


@recorded("generate_tasks", reads=("source",))
def generate_tasks(
    output_path: str,
    *,
    source: str = "mini:train",
    num_tasks: int = 1000,
    seed: int = 0,
    overwrite: bool = False,
) -> None:
    """Write tasks of an embedded benchmark as a ColBench file: functions (mini) or web pages (mini-web).

    The same seed gives the same tasks on every machine; the train and test splits share none. Other stages
    also take mini:train, mini-web:test and so on directly as --input_path.

    Args:
        output_path: the .jsonl file to write.
        source: mini:train or mini:test; mini-web:train or mini-web:test for web pages.
        num_tasks: how many; the first ones of a larger number are the same.
        seed: another seed gives other tasks.
        overwrite: replace the file when it exists.
    """
    from pathlib import Path

    from sweet_rl.records import replace_rows
    from sweet_rl.worlds import load_tasks

    if not source.startswith(("mini:", "mini-web:")):
        raise UsageError(
            f"--source must be mini:train, mini:test, mini-web:train or mini-web:test, got {source!r}."
        )
    if Path(output_path).exists() and not overwrite:
        raise UsageError(f"{output_path!r} exists; pass --overwrite or choose another --output_path.")
    tasks = load_tasks(source, limit=num_tasks, seed=seed)
    tracking.writes(output_path)
    replace_rows(output_path, (dict(task.row) for task in tasks))
    print(f"{len(tasks)} tasks of {source} are in {output_path}")
