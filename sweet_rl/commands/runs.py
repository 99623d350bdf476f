"""Where outputs came from: the records below a folder."""

from __future__ import annotations

import json as encoder
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from sweet_rl import tracking
from sweet_rl.cli.stage import recorded, stage
from sweet_rl.errors import UsageError, suggestion
from sweet_rl.flags import Settings, flag
from sweet_rl.flags.shared import NumTasks, OutputPath, Overwriting, Seeded, Source
from sweet_rl.records import replace_rows
from sweet_rl.runs import new_file
from sweet_rl.runs.reading import runs_below
from sweet_rl.worlds import all_worlds, first_for, load_tasks, world_of


@dataclass(frozen=True, kw_only=True)
class RunsFlags(Settings):
    """What is listed."""

    folder: str = flag(".", "where to look, with all folders in it.")
    run: str | None = flag(None, "id of one run, or how it begins: show its whole record.")
    json: bool = flag(False, "print everything as JSON.")


@stage("folder", "run")
def runs(flags: RunsFlags, /) -> None:
    """List the runs whose outputs are in a folder: what made each file, when, with what, at what cost.

    Every stage leaves a record with what it writes: run.json in a folder, FILE.run.json beside a file. The
    table is sorted by date. Nothing is changed.
    """
    if not Path(flags.folder).is_dir():
        raise UsageError(f"There is no folder {flags.folder!r}.")
    found = [
        (one.place, dict(one.content) | {"status": one.status}) for one in runs_below(Path(flags.folder))
    ]
    if flags.run is not None:
        ids = [str(content["id"]) for _, content in found]
        fitting = [content for _, content in found if str(content["id"]).startswith(flags.run)]
        if not fitting:
            raise UsageError(
                f"No run in {flags.folder!r} begins with {flags.run!r}{suggestion(flags.run, ids)}."
            )
        if len(fitting) > 1:
            raise UsageError(
                f"{flags.run!r} begins {len(fitting)} runs: {', '.join(str(one['id']) for one in fitting)}."
            )
        print(encoder.dumps(fitting[0], indent=1))
    elif flags.json:
        print(encoder.dumps({"runs": [row | {"record": str(place)} for place, row in found]}, indent=1))
    elif found:
        rows = [_HEAD, *(_cells(content) for _, content in found)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        for row in rows:
            print("  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip())
    else:
        print(f"No run has left a record in {flags.folder}.")


_HEAD: Final = (
    *("id", "stage", "status", "started", "wall s", "output", "models", "seed", "tokens in", "out", "cost"),
)


def _cells(content: Mapping[str, Any]) -> tuple[str, ...]:
    """A run's row of the table; tokens have a sign where some are not known, dollars are unknown where a price is."""
    used = [(model, row) for models in content["usage"].values() for model, row in models.items()]
    outputs = [str(output["path"]) for output in content.get("outputs") or []]
    tokens = []
    for name in ("prompt_tokens", "completion_tokens"):
        known = sum(row[name] or 0 for _, row in used)
        whole = all(row[name] is not None and not row["replies_without_usage"] for _, row in used)
        tokens.append("-" if not used else f"{known:,}" if whole else f">{known:,}" if known else "unknown")
    cost = content.get("cost")
    dollars = "-" if cost is None else "unknown" if cost["usd"] is None else f"${cost['usd']:.4f}"
    return (
        *(str(content[name]) for name in ("id", "stage", "status")),
        str(content.get("started"))[:16].replace("T", " "),
        f"{float(content.get('wall_s') or 0.0):,.1f}",
        (outputs[0] if outputs else "-") + (f" +{len(outputs) - 1}" if len(outputs) > 1 else ""),
        ", ".join(dict.fromkeys(model or "?" for model, _ in used)) or "-",
        ", ".join(map(str, (content.get("seeds") or {}).values())) or "-",
        *tokens,
        dollars,
    )


@dataclass(frozen=True, kw_only=True)
class TaskFileFlags(OutputPath, Source, NumTasks, Seeded, Overwriting):
    """Tasks."""


@recorded("generate_tasks", reads=("source",))
@stage(
    "output_path",
    defaults={"num_tasks": 1000, "source": world_of(first_for("dialogue")).tasks.train},
    helps={
        "source": "the list of a world, with its options after a colon; an unknown one gets an error that lists all."
    },
)
def generate_tasks(flags: TaskFileFlags, /) -> None:
    """Write the tasks of a world's own list to a file, in ColBench's format.

    The same seed gives the same tasks on every machine; the train and test splits share none. Other stages
    also take the lists directly, as --input_path.
    """
    lists = [source for world in all_worlds() for source in world.tasks.sources]
    if flags.source.partition(":")[0] not in lists:
        raise UsageError(f"--source {flags.source!r} is no world's list. There are {', '.join(lists)}.")
    new_file(flags.output_path, "output_path", overwrite=flags.overwrite)
    tasks = load_tasks(flags.source, num_tasks=flags.num_tasks, seed=flags.seed)
    tracking.writes(flags.output_path)
    replace_rows(flags.output_path, (dict(task.row) for task in tasks))
    print(f"{len(tasks)} tasks of {flags.source} are in {flags.output_path}")
