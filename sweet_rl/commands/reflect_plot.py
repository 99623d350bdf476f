"""Success, cost and loss of online runs over their iterations, as a picture."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sweet_rl import tracking
from sweet_rl.cli.stage import recorded, stage
from sweet_rl.errors import UsageError, missing_package
from sweet_rl.flags import flag
from sweet_rl.flags.shared import Compatible, OutputDir, Overwriting
from sweet_rl.records import replace_file
from sweet_rl.reflect_data.texts import Output
from sweet_rl.runs import new_file
from sweet_rl.types import Compat

PANELS = {"succ": "success rate", "cost": "cost of an episode", "loss": "loss"}


@dataclass(frozen=True, kw_only=True)
class PlotFlags(Output, Overwriting, Compatible):
    """The flags of this stage."""

    window: int = flag(99, "iterations over which a point is a mean.", at_least=1)


@recorded("reflect plot")
@stage(
    defaults={"output": "visualization"},
    helps={
        "output": "the files' name; .pdf and .png are appended.",
        "compat": "fixed, or published: its offsets and means, by which a loss that there is not counts as 0.",
    },
)
def plot(flags: PlotFlags, /, *runs: str) -> None:
    """Draw success rate, cost and loss of runs, those that they went on from included, as PDF and PNG.

    Args:
        flags: of this stage.
        runs: folders such as results/003_rl_finetune.
    """
    from sweet_rl.online.reflect.runs import ensemble_logs

    if not runs:
        raise UsageError("Name at least one run's folder, such as results/003_rl_finetune.")
    for name in runs:
        tracking.reads("runs", name)
    targets = [
        Path(flags.output).expanduser().with_name(Path(flags.output).name + suffix)
        for suffix in (".pdf", ".png")
    ]
    for target in targets:
        new_file(target, "output", overwrite=flags.overwrite)
    logs = {
        label: ensemble_logs(Path(name).expanduser(), compat=flags.compat)
        for label, name in zip(labels(runs), runs, strict=True)
    }
    try:
        figure = _figure(logs, flags.window, compat=flags.compat)
    except ImportError as error:
        raise missing_package("matplotlib", "plots", needed_for="reflect plot") from error
    for target in targets:
        tracking.writes(target)
        target.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(target)
        print(f"The picture is in {target}")


def labels(runs: Sequence[str]) -> list[str]:
    """The folders' own names; of those that share one, the whole path."""
    names = [Path(run).expanduser().resolve().name for run in runs]
    return [run if names.count(name) > 1 else name for run, name in zip(runs, names, strict=True)]


def _figure(logs: Mapping[str, Sequence[Mapping[str, Any]]], window: int, *, compat: Compat) -> Any:
    """Three panels side by side; a line for each run."""
    from matplotlib.figure import Figure

    from sweet_rl.online.reflect.runs import moving_average

    figure = Figure(figsize=(13, 3.6), dpi=150, layout="constrained")
    for axes, (key, title) in zip(figure.subplots(1, len(PANELS)), PANELS.items(), strict=True):
        for name, entries in logs.items():
            iters, means = moving_average(
                [entry["iter"] for entry in entries],
                [entry[key] for entry in entries],
                window=window,
                compat=compat,
            )
            axes.plot(
                iters, [float("nan") if mean is None else mean for mean in means], label=name, linewidth=1.4
            )
        axes.set_title(title)
        axes.set_xlabel("iteration")
        axes.grid(alpha=0.3)
    figure.axes[0].legend(fontsize="small")
    return figure


@dataclass(frozen=True, kw_only=True)
class EnsembleLogsFlags(OutputDir, Overwriting, Compatible):
    """The flags of this stage."""


@recorded("reflect ensemble_logs")
@stage(
    defaults={"output_dir": "."},
    helps={
        "output_dir": "where the files go.",
        "compat": "fixed, or published: its offsets, by which runs may overlap.",
    },
)
def ensemble_logs(flags: EnsembleLogsFlags, /, *runs: str) -> None:
    """Write RUN.json for each run: all its iterations, those of the runs that it went on from before them.

    Iterations of a run that pools n trainer calls (--gradient_accumulation_steps) count 1/n each.

    Args:
        flags: of this stage.
        runs: folders such as results/003_rl_finetune.
    """
    from sweet_rl.online.reflect.runs import ensemble_logs as merged

    if not runs:
        raise UsageError("Name at least one run's folder, such as results/003_rl_finetune.")
    folders = [Path(name).expanduser() for name in runs]
    targets = [Path(flags.output_dir).expanduser() / f"{folder.resolve().name}.json" for folder in folders]
    if len(set(targets)) < len(targets):
        raise UsageError("Two of the runs have the same name, and their files would be the same; rename one.")
    for target in targets:
        new_file(target, "output_dir", overwrite=flags.overwrite)
    for folder, target in zip(folders, targets, strict=True):
        tracking.reads("runs", str(folder))
        logs = merged(folder, compat=flags.compat)
        tracking.writes(target)
        replace_file(target, [json.dumps(logs).encode()])
        print(f"{len(logs)} iterations are in {target}")
