"""Where outputs came from: the records below a folder."""

from __future__ import annotations

import json as encoder
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sweet_rl import tracking
from sweet_rl.cli.stage import recorded, stage
from sweet_rl.errors import UsageError, suggestion
from sweet_rl.flags import flag
from sweet_rl.flags.shared import NumTasks, OutputPath, Overwriting, Prices, Seeded, Source
from sweet_rl.records import replace_rows
from sweet_rl.runs import new_file
from sweet_rl.runs.reading import Found, Price, cost_of, load_prices, runs_below
from sweet_rl.worlds import all_worlds, first_for, load_tasks, world_of


@dataclass(frozen=True, kw_only=True)
class RunsFlags(Prices):
    """What is listed."""

    folder: str = flag(".", "where to look, with all folders in it.")
    run: str | None = flag(None, "id of one run, or how it begins: show its whole record.")
    json: bool = flag(False, "print everything as JSON.")


@stage(
    "folder",
    "run",
    helps={
        "prices": "TOML or JSON file with dollars per million tokens of models: what the runs have cost by it."
    },
)
def runs(flags: RunsFlags, /) -> None:
    """List the runs whose outputs are in a folder: what made each file, when, with what, at what cost.

    Every stage leaves a record with what it writes: run.json in a folder, FILE.run.json beside a file. The
    table is sorted by date. Nothing is changed.
    """
    if not Path(flags.folder).is_dir():
        raise UsageError(f"There is no folder {flags.folder!r}.")
    table = load_prices(flags.prices) if flags.prices is not None else None
    found = runs_below(Path(flags.folder))
    if flags.run is not None:
        print(encoder.dumps(_priced(_one(found, flags.run, flags.folder), table), indent=1))
    elif flags.json:
        listed = [_priced(one, table) | {"record": str(one.place)} for one in found]
        print(encoder.dumps({"runs": listed}, indent=1))
    elif found:
        print("\n".join(_table([_cells(_priced(one, table)) for one in found])))
    else:
        print(f"No run has left a record in {flags.folder}.")


def _one(found: Sequence[Found], wanted: str, folder: str) -> Found:
    ids = [str(one.content["id"]) for one in found]
    fitting = [one for one in found if str(one.content["id"]).startswith(wanted)]
    if not fitting:
        raise UsageError(f"No run in {folder!r} begins with {wanted!r}{suggestion(wanted, ids)}.")
    if len(fitting) > 1:
        raise UsageError(
            f"{wanted!r} begins {len(fitting)} runs: {', '.join(i for i in ids if i.startswith(wanted))}."
        )
    return fitting[0]


def _priced(found: Found, prices: Mapping[str, Price] | None) -> dict[str, Any]:
    content = dict(found.content) | {"status": found.status}
    return content | ({"cost": cost_of(content["usage"], prices)} if prices is not None else {})


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    head = (
        "id",
        "stage",
        "status",
        "started",
        "wall",
        "output",
        "models",
        "seed",
        "tokens in",
        "out",
        "cost",
    )
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    return [
        "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in (head, *rows)
    ]


def duration(seconds: float) -> str:
    """In words: 3.2 s, 4:05, 1:30:00."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02d}" if minutes < 60 else f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}"


def _cells(content: Mapping[str, Any]) -> list[str]:
    used = [(model, row) for models in content["usage"].values() for model, row in models.items()]
    outputs = [str(output["path"]) for output in content.get("outputs") or []]
    seeds = content.get("seeds") or {}
    return [
        str(content["id"]),
        str(content["stage"]),
        str(content["status"]),
        str(content.get("started"))[:16].replace("T", " "),
        duration(float(content.get("wall_s") or 0.0)),
        (outputs[0] if outputs else "-") + (f" +{len(outputs) - 1}" if len(outputs) > 1 else ""),
        ", ".join(dict.fromkeys(model or "?" for model, _ in used)) or "-",
        ", ".join(map(str, seeds.values())) or "-",
        tokens([row for _, row in used], "prompt_tokens"),
        tokens([row for _, row in used], "completion_tokens"),
        dollars(content.get("cost")),
    ]


def tokens(rows: Sequence[Mapping[str, Any]], name: str) -> str:
    """Their sum by several models' counters; with a sign where it is more than what is known."""
    known = sum(row[name] or 0 for row in rows)
    if any(row[name] is None or row["replies_without_usage"] for row in rows):
        return f">{known:,}" if known else "unknown"
    return f"{known:,}" if rows else "-"


def dollars(cost: Mapping[str, Any] | None) -> str:
    """As a record has it; unknown where a price or a number of tokens is."""
    if cost is None:
        return "-"
    return "unknown" if cost["usd"] is None else f"${cost['usd']:.4f}"


@dataclass(frozen=True, kw_only=True)
class TaskFileFlags(OutputPath, Source, NumTasks, Seeded, Overwriting):
    """Tasks."""


@recorded("generate_tasks", reads=("source",))
@stage(
    "output_path",
    defaults={"num_tasks": 1000, "source": world_of(first_for("dialogue")).tasks.train},
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
    lists = [source for world in all_worlds() for source in world.tasks.sources]
    if flags.source.partition(":")[0] not in lists:
        raise UsageError(f"--source {flags.source!r} is no world's list. There are {', '.join(lists)}.")
    new_file(flags.output_path, "output_path", overwrite=flags.overwrite)
    tasks = load_tasks(flags.source, num_tasks=flags.num_tasks, seed=flags.seed)
    tracking.writes(flags.output_path)
    replace_rows(flags.output_path, (dict(task.row) for task in tasks))
    print(f"{len(tasks)} tasks of {flags.source} are in {flags.output_path}")
