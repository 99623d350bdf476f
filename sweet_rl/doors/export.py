"""Trajectories as other tools' files, and back."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

from sweet_rl.command_line.recording import recorded
from sweet_rl.command_line.stages import stage
from sweet_rl.errors import UsageError, missing_package
from sweet_rl.flags import flag
from sweet_rl.flags.common import InputPath, OutputPath, Overwriting


@dataclass(frozen=True, kw_only=True)
class ExportFlags(InputPath, OutputPath, Overwriting):
    """Inputs and outputs."""

    to: Literal["inspect", "trajectories"] = flag(
        "inspect", "what is written: a log of inspect_ai (.eval), or trajectories (.jsonl) of such a log."
    )

    def check_together(self) -> None:
        """Whether the ending of the output is that of what is written.

        Raises:
            UsageError: it is not.
        """
        super().check_together()
        ending = {"inspect": ".eval", "trajectories": ".jsonl"}[self.to]
        if Path(self.output_path).suffix != ending:
            raise UsageError(
                f"--to {self.to} writes a file that ends with {ending}, got {self.output_path!r}."
            )


@recorded("export", reads=("input_path",))
@stage(
    "input_path",
    "output_path",
    helps={
        "input_path": "a trajectory file; for --to trajectories another tool's.",
        "output_path": "the file that is written; its ending is that of its kind.",
    },
)
def export(flags: ExportFlags, /) -> None:
    """Write trajectories as a file of another tool, or another tool's file as trajectories.

    What came from here comes back whole; of other files the dialogue is read, and the score (docs/doors).

    The smallest run: export trajectories.jsonl log.eval --to inspect
    """
    from sweet_rl import tracking
    from sweet_rl.records import load_trajectories, replace_rows, trajectory_to_row
    from sweet_rl.runs import new_file

    source, target = Path(flags.input_path), Path(flags.output_path)
    new_file(flags.output_path, "output_path", overwrite=flags.overwrite)
    if not source.is_file():
        raise UsageError(f"--input_path {flags.input_path!r} is no file.")
    if flags.to == "trajectories":
        found = _logs().read_log(source)
        tracking.writes(flags.output_path)
        replace_rows(target, map(trajectory_to_row, found))
    else:
        found = load_trajectories(source)
        tracking.writes(flags.output_path)
        _logs().write_log(found, target)
    print(f"{len(found)} trajectories are in {flags.output_path}")


def _logs() -> Any:
    try:
        return import_module("sweet_rl.doors.inspect_logs")
    except ModuleNotFoundError as error:
        raise missing_package("inspect_ai", "inspect", needed_for="A log of inspect_ai") from error
