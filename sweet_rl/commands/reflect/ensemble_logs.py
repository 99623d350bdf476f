"""The logs of a run and of the runs that it continues, in one file."""

from __future__ import annotations

from dataclasses import dataclass

from sweet_rl import tracking
from sweet_rl.cli.stage import recorded, stage
from sweet_rl.flags.shared import Compatible, OutputDir, Overwriting


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
    import json
    from pathlib import Path

    from sweet_rl.errors import UsageError
    from sweet_rl.online.reflect.runs import ensemble_logs as merged
    from sweet_rl.records import replace_file
    from sweet_rl.runs import new_file

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
