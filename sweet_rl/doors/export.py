"""Trajectories as other tools' files, and back."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

from sweet_rl.command_line.recording import recorded
from sweet_rl.command_line.stages import stage
from sweet_rl.errors import DataError, UsageError, missing_package
from sweet_rl.flags import flag
from sweet_rl.flags.common import InputPath, OutputPath, Overwriting
from sweet_rl.types import Trajectory

_ENDINGS = {"inspect": ".eval", "atif": "", "trajectories": ".jsonl"}


@dataclass(frozen=True, kw_only=True)
class ExportFlags(InputPath, OutputPath, Overwriting):
    """Inputs and outputs."""

    to: Literal["inspect", "atif", "trajectories"] = flag(
        "inspect",
        "what is written: inspect (a log, .eval), atif (a folder of documents), or trajectories (.jsonl) of "
        "such a log, document or folder.",
    )
    credit: str | None = flag(
        None, "with --to atif: file of `sweet-rl credit` whose scores the turns are written with."
    )

    def check_together(self) -> None:
        """Whether the ending of the output is that of what is written, and credit has a place in it."""
        super().check_together()
        ending = _ENDINGS[self.to]
        if Path(self.output_path).suffix != ending:
            what = f"a file that ends with {ending}" if ending else "a folder, whose name has no ending"
            raise UsageError(f"--to {self.to} writes {what}, got {self.output_path!r}.")
        if self.credit is not None and self.to != "atif":
            raise UsageError(f"--credit is written with --to atif, not with --to {self.to}.")


@recorded("export", reads=("input_path", "credit"))
@stage(
    "input_path",
    "output_path",
    helps={
        "input_path": "a trajectory file; for --to trajectories another tool's, or a folder of them.",
        "output_path": "the file that is written, for --to atif a folder; its ending is that of its kind.",
    },
)
def export(flags: ExportFlags, /) -> None:
    """Write trajectories as files of another tool, or another tool's files as trajectories.

    What came from here comes back whole; of other files the dialogue is read, and the score (docs/doors).

    The smallest run: export trajectories.jsonl log.eval --to inspect
    """
    source, target = Path(flags.input_path), Path(flags.output_path)
    if not source.is_file() and not (flags.to == "trajectories" and source.is_dir()):
        raise UsageError(f"--input_path {flags.input_path!r} is no file.")
    found = {"inspect": _to_inspect, "atif": _to_atif, "trajectories": _from_others}[flags.to](
        source, target, flags
    )
    print(f"{len(found)} trajectories are in {flags.output_path}")
    if flags.to == "trajectories" and (unrewarded := sum(one.reward is None for one in found)):
        print(f"{unrewarded} of them have no reward.")


def _to_inspect(source: Path, target: Path, flags: ExportFlags) -> list[Trajectory]:
    from sweet_rl import tracking
    from sweet_rl.records import load_trajectories
    from sweet_rl.runs import new_file

    new_file(target, "output_path", overwrite=flags.overwrite)
    found = _distinct(load_trajectories(source), source)
    tracking.writes(target)
    _logs().write_log(found, target)
    return found


def _to_atif(source: Path, target: Path, flags: ExportFlags) -> list[Trajectory]:
    from sweet_rl import tracking
    from sweet_rl.commands.critic_worlds import warn_of_a_file
    from sweet_rl.doors.atif_files import credited, write_documents
    from sweet_rl.records import load_trajectories
    from sweet_rl.runs import new_folder

    new_folder(target, "output_path", overwrite=flags.overwrite)
    found = _distinct(load_trajectories(source), source)
    if flags.credit is not None:
        found = credited(found, Path(flags.credit))
        warn_of_a_file(flags.credit, found)
    tracking.writes(target, folder=True)
    write_documents(found, target)
    return found


def _from_others(source: Path, target: Path, flags: ExportFlags) -> list[Trajectory]:
    from sweet_rl import tracking
    from sweet_rl.doors.atif_files import read_documents
    from sweet_rl.records import replace_rows, trajectory_to_row
    from sweet_rl.runs import new_file

    new_file(target, "output_path", overwrite=flags.overwrite)
    found = (
        read_documents(source) if source.is_dir() or source.suffix == ".json" else _logs().read_log(source)
    )
    tracking.writes(target)
    replace_rows(target, map(trajectory_to_row, found))
    return found


def _distinct(found: list[Trajectory], source: Path) -> list[Trajectory]:
    """The same; a second one of its name would take the place of the first, there."""
    key, count = Counter(one.key for one in found).most_common(1)[0] if found else (None, 0)
    if count > 1:
        repair = "Export the file of each run by itself."
        raise DataError(
            f"is the same in {count} rows",
            path=source,
            field="task_id, sample_index",
            value=key,
            repair=repair,
        )
    return found


def _logs() -> Any:
    try:
        return import_module("sweet_rl.doors.inspect_logs")
    except ModuleNotFoundError as error:
        raise missing_package("inspect_ai", "inspect", needed_for="A log of inspect_ai") from error
